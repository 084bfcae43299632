"""Say which extra brings a library that is not installed."""

from __future__ import annotations

__all__ = ["missing_extra"]


def missing_extra(module: str, library: str) -> ImportError:
    """Make the error for a compat module whose library is not installed.

    Args:
        module: The compat module, by its full name.
        library: What it imports; the extra that brings it has the same name.
    """
    return ImportError(
        f"{module} needs {library}: pip install 'seamstream[{library}]'", name=library
    )
