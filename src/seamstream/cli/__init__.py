"""The command ``seamstream``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from . import decode, demo, doctor, serve

__all__ = ["main"]

FAILED = 2
INTERRUPTED = 130
READER_GONE = 141

_EPILOG = """\
exit status, of all commands:
  0    all is well
  1    the command finished and found something wrong (see its own help)
  2    wrong usage, or reading, writing or a limit failed
  130  interrupted from the keyboard
  141  the reader of the output is gone (as with `| head`)
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = _build_parser()
    options = parser.parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        status = READER_GONE
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:
            _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        print(f"seamstream: {where}{error.strerror or error}", file=sys.stderr)
        status = FAILED
    return status


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="seamstream",
        description="Put fragmented event streams and JSON streams together again.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and the backend")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (decode, serve, demo, doctor):
        command.configure(commands)
    return parser


class _Version(argparse.Action):
    """`action="version"` would look the version up on every run."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str | None = None) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"seamstream {doctor.version()} ({doctor.describe_backend()})")
        parser.exit()


def _discard_output() -> None:
    # Else the interpreter would try to flush it once more on its way out, and complain.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
