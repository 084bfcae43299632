"""The folder of recorded streams and public bug reports, which is not part of the project."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SEAMSTREAM_SHARED") or PROJECT.parent / "shared")
SHARED_IS_PRESENT = (SHARED / "corpus" / "manifest.json").is_file()


def load_shared(name: str, key: str) -> list[dict[str, Any]]:
    """The entries of one JSON file of the folder; none where the folder is absent."""
    if not SHARED_IS_PRESENT:
        return []
    entries: list[dict[str, Any]] = json.loads((SHARED / name).read_text("utf-8"))[key]
    return entries
