"""``seamstream serve``: the server that cuts its answers where it hurts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from seamstream.testing.payloads import SAMPLES

_DESCRIPTION = """\
Serve an event stream on the loopback interface, a few bytes a write. Every
write is a TCP segment of its own, which the client has read before the next
one leaves (certain on Linux only). Prints the address, then answers until it
is interrupted:

  seamstream serve --port 8000 --payload openai --write-size 3
  curl -sN http://127.0.0.1:8000/ | seamstream decode
"""


def configure(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="serve a stream in fragments, for testing a client",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="default: any free one")
    parser.add_argument(
        "--write-size",
        type=int,
        default=8,
        metavar="N",
        help="bytes a write; 0: all at once (default: %(default)s)",
    )
    parser.add_argument(
        "--delay",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="pause before each write (default: none)",
    )
    parser.add_argument(
        "--payload",
        default="gemini-ja",
        metavar="NAME|FILE",
        help=f"{', '.join(SAMPLES)}, or a file (default: %(default)s)",
    )
    several = parser.add_mutually_exclusive_group()
    several.add_argument(
        "--requests", type=int, metavar="N", help="end after this many (default: go on)"
    )
    several.add_argument(
        "--once", action="store_const", const=1, dest="requests", help="the same as --requests 1"
    )
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace) -> int:
    from seamstream.testing.server import FragmentingServer  # noqa: PLC0415

    if options.payload in SAMPLES:
        payload = SAMPLES[options.payload]().body
    else:
        payload = Path(options.payload).read_bytes()
    parser: argparse.ArgumentParser = options.parser
    try:
        server = FragmentingServer(
            payload,
            write_size=options.write_size or None,
            delay=options.delay,
            port=options.port,
            max_requests=options.requests,
        )
    except (ValueError, OverflowError) as error:
        parser.error(str(error))
    with server:
        print(server.url, flush=True)
        cut = f"{options.write_size} bytes a write" if options.write_size else "in one write"
        print(f"{options.payload}: {len(payload):,} bytes, {cut}", file=sys.stderr)
        while not server.wait(1.0):  # without a timeout, not every platform lets ctrl-C in
            pass
    return 0
