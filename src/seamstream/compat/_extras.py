"""Say which extra brings a library that is not installed."""

from __future__ import annotations

__all__ = ["missing_extra"]


def missing_extra(error: ModuleNotFoundError, module: str, library: str, extra: str) -> ImportError:
    """Turn the failed import of a library into an error that says what to install.

    Args:
        error: What the import raised.
        module: The compat module, by its full name.
        library: The top-level module that it imports.
        extra: The extra of seamstream that brings it.

    Returns:
        An `ImportError` to raise from `error`; or `error` itself, when the library is there and
        what is missing is something that it needs in turn.
    """
    if error.name != library:
        return error
    return ImportError(f"{module} needs {library}: pip install 'seamstream[{extra}]'", name=library)
