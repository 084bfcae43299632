"""Print the state of pickled events: a file of pickles of lists of events, and the module
whose `Event` they have to become.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from observations import seen

_, path, module = sys.argv
loaded = [pickle.loads(dump) for dump in pickle.loads(Path(path).read_bytes())]
expected = importlib.import_module(module).Event
assert all(type(event) is expected for events in loaded for event in events)
print([[tuple(seen(event)) for event in events] for events in loaded])
