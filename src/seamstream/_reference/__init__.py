"""The decoders in plain Python.

They are the specification that can be run: the oracle of the tests, the baseline of the
benchmarks, and what is used where there is no compiled module. They never import it.
"""

from __future__ import annotations

from .json_stream import Frame, JSONStreamDecoder
from .pull import exclusive as _exclusive
from .sse import Event, SSEDecoder
from .utf8 import UTF8Decoder

__all__ = ["Event", "Frame", "JSONStreamDecoder", "SSEDecoder", "UTF8Decoder", "_exclusive"]
