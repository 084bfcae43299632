"""Time Node's eventsource-parser on the same work, where Node and npm are there.

It is another runtime: a mark beside the others, not a choice that a Python program has. Process CPU
time, warmed up, behind a streaming TextDecoder; not in turns with ours.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benches.bench_sse import work
from benches.engines import ROOT
from benches.suite import SIZES
from benches.workloads import corpus

ENGINE = "eventsource-parser"
VERSION = "3.1.1"  # the newest for Node 20
FOLDER = ROOT / "build" / "node"
NOTE = f"Node's {ENGINE} behind a TextDecoder; process CPU time"


class AbsentError(Exception):
    """It cannot be measured here."""


def call(*command: str | Path) -> str:
    try:
        finished = subprocess.run(
            command, capture_output=True, check=True, encoding="utf-8", timeout=240
        )
    except FileNotFoundError as error:
        raise AbsentError(f"{command[0]} is not there") from error
    except subprocess.TimeoutExpired as error:
        raise AbsentError(f"{command[0]} took too long") from error
    except subprocess.CalledProcessError as error:
        raise AbsentError(f"{command[0]} failed: {error.stderr.strip()[-200:]}") from error
    return finished.stdout


def cells() -> Iterator[dict[str, Any]]:
    """The work of bench_sse that it can do, with the chunks and what has to come out."""
    for workload, cut, level in work():
        if level not in ("text", "json"):
            continue
        try:
            stream = corpus(workload).first(SIZES[cut])
        except LookupError:
            continue
        yield {
            "group": "sse",
            "engine": ENGINE,
            "workload": workload,
            "cut": cut,
            "level": level,
            "size": None,
            "id": f"benches/eventsource_parser.mjs::{ENGINE}-{workload}-{cut}-{level}",
            "facts": {
                "bytes": stream.size,
                "events": len(stream.events),
                "corpus_sha256": stream.sha256(),
            },
            "streams": [
                {
                    "bytes": base64.b64encode(b"".join(chunks)).decode(),
                    "lengths": [len(chunk) for chunk in chunks],
                }
                for chunks in stream.chunks(cut)
            ],
            "wanted": stream.events,
        }


def measure() -> dict[str, Any]:
    """What the script printed, or no cells and the reason in the note."""
    try:
        if shutil.which("npm") is None:
            raise AbsentError("npm is not there")
        runtime = call("node", "--version").strip()
        FOLDER.mkdir(parents=True, exist_ok=True)
        package = f"{ENGINE}@{VERSION}"
        call("npm", "install", "--no-save", "--silent", "--prefix", FOLDER, package)
        file = FOLDER / "work.json"
        file.write_text(json.dumps(list(cells())), "utf-8")
        script = Path(__file__).with_name("eventsource_parser.mjs")
        lines = call("node", script, FOLDER, file).splitlines()
    except AbsentError as error:
        print(f"not measured: {ENGINE}: {error}")
        return {"engine": ENGINE, "version": None, "note": f"{NOTE} (absent: {error})", "cells": []}
    version = f"{VERSION} on Node {runtime}"
    return {
        "engine": ENGINE,
        "version": version,
        "note": NOTE,
        "cells": [json.loads(line) for line in lines],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.node", description=__doc__)
    parser.add_argument("out", type=Path, help="the file to write: build/bench/node.json")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
