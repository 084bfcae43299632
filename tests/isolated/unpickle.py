"""Print the state of pickled events or frames: a file of pickles of lists of them, the module that
has to have made them, and the name of their type.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import frame_observations
import observations

_, path, module, name = sys.argv
seen = {"Event": observations.seen, "Frame": frame_observations.seen}[name]
loaded = [pickle.loads(dump) for dump in pickle.loads(Path(path).read_bytes())]
expected = getattr(importlib.import_module(module), name)
assert all(type(item) is expected for items in loaded for item in items)
print([[tuple(seen(item)) for item in items] for items in loaded])
