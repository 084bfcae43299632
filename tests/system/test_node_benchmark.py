"""The comparison's script for Node judges before it times, whatever the parser gives."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVENTS = [["message", '{"text":"縫い目"}'], ["ping", "{}"], ["message", "[1]"]]
BODY = "".join(f"event: {kind}\ndata: {data}\n\n" for kind, data in EVENTS).encode()

# A parser for just this stream, so that no package has to be fetched; WRONG is what it does amiss.
PARSER = """
exports.createParser = ({ onEvent }) => {
  let text = "";
  let number = 0;
  return {
    feed(chunk) {
      text += chunk;
      const blocks = text.split("\\n\\n");
      text = blocks.pop();
      for (const block of blocks) {
        const [event, data] = block.split("\\n").map((line) => line.slice(line.indexOf(":") + 2));
        number += 1;
        WRONG
        onEvent({ event, data });
      }
    },
  };
};
"""


def run(node: str, folder: Path, wrong: str, level: str) -> dict[str, Any]:
    package = folder / "node_modules" / "eventsource-parser"
    package.mkdir(parents=True)
    (package / "index.js").write_text(PARSER.replace("WRONG", wrong), "utf-8")
    stream = {"bytes": base64.b64encode(BODY).decode(), "lengths": [7] * (len(BODY) // 7 + 1)}
    work = [{"level": level, "streams": [stream], "wanted": EVENTS, "id": "kept"}]
    (folder / "work.json").write_text(json.dumps(work), "utf-8")
    script = ROOT / "benches" / "eventsource_parser.mjs"
    finished = subprocess.run(
        [node, script, folder, folder / "work.json"],
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


@pytest.mark.parametrize("level", ["text", "json"])
def test_right_parser_is_timed(node: str, tmp_path: Path, level: str) -> None:
    found = run(node, tmp_path, "", level)
    assert (found["verdict"], found["id"], found["level"]) == ("ok", "kept", level)
    assert len(found["seconds"]) > 3
    assert all(0 < seconds < 1 for seconds in found["seconds"])


@pytest.mark.parametrize(
    ("wrong", "verdict"),
    [
        ("if (number === 2) continue;", "lost"),
        ('if (number === 2) { onEvent({ event, data: "{}" }); }', "wrong"),
        ('if (number === 3) { onEvent({ event, data: "[2]" }); continue; }', "wrong"),
        ('throw new Error("no");', "error"),
    ],
)
def test_wrong_parser_has_no_time(node: str, tmp_path: Path, wrong: str, verdict: str) -> None:
    found = run(node, tmp_path, wrong, "json")
    assert (found["verdict"], found["seconds"]) == (verdict, [])
    assert found["detail"]
