"""``seamstream doctor``: what is installed here, and which backend is in use."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

_DESCRIPTION = """\
Print what the report of a problem has to say: versions, the backend in use,
how it was built.

exit status:
  0  all is well
  1  the compiled module is a debug build, which is slow
"""


def configure(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "doctor",
        help="print the backend, the versions and the build profile",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    import platform  # noqa: PLC0415

    import seamstream  # noqa: PLC0415

    facts = {
        "seamstream": version(),
        "backend": seamstream.backend,
        "build profile": build_profile() or "none: plain Python",
        "SEAMSTREAM_BACKEND": os.environ.get("SEAMSTREAM_BACKEND") or "not set",
        "python": describe_python(),
        "platform": platform.platform(),
        "orjson": version("orjson"),
        "installed in": os.path.dirname(os.path.abspath(seamstream.__file__)),
    }
    for name, value in facts.items():
        print(f"{name + ':':<20}{value}")
    if build_profile() == "debug":
        print("seamstream: the compiled module is a debug build", file=sys.stderr)
        return 1
    return 0


def version(distribution: str = "seamstream") -> str:
    """The installed version, or words to say that there is none."""
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def build_profile() -> str | None:
    """How the compiled module was built, if it is in use."""
    from importlib import import_module  # noqa: PLC0415

    import seamstream  # noqa: PLC0415

    if seamstream.backend != "rust":
        return None
    return str(getattr(import_module("seamstream._core"), "build_profile", "unknown"))


def describe_python() -> str:
    """The interpreter in a few words."""
    import platform  # noqa: PLC0415

    return f"{platform.python_implementation()} {platform.python_version()}"


def describe_backend() -> str:
    """The backend in a few words."""
    profile = build_profile()
    return f"rust backend, {profile} build" if profile else "reference backend, plain Python"
