"""What is compared: every engine is one entry here.

An entry is a function that imports the engine and returns how it takes a stream; around it stand
the Python expressions that read one item. From both the loop is compiled that is timed, and, with
the same text, the one whose output is checked first. So no adapter is in the way of any engine:
what runs is the loop that a user of it would write.

Adding a rival: a decorated function, and its distribution in peers.in.
"""

from __future__ import annotations

import codecs
import importlib
import importlib.metadata
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import TypeAdapter

from benches import plain_bytes
from benches.workloads import Corpus

ROOT = Path(__file__).parents[1]
Chunks = Sequence[bytes]
Streams = Sequence[Chunks]
Group = Literal["sse", "json", "utf8"]
Kind = Literal["ours", "peer", "floor", "other-runtime"]
LEVELS = ("text", "json", "get", "validate")

# Three ways to take chunks. `{use}` is what becomes of an item.
PUSH = """
for chunks in streams:
    decoder = take()
    feed = decoder.feed
    for chunk in chunks:
        for item in feed(chunk):
            {use}
    for item in decoder.close():
        {use}
"""
PULL = """
for chunks in streams:
    for item in take(chunks):
        {use}
"""
DECODE = """
for chunks in streams:
    decode = take().decode
    for chunk in chunks:
        item = decode(chunk)
        {use}
    item = decode(b"", True)
    {use}
"""


class UnsupportedError(Exception):
    """The engine does not offer what is asked of it."""


@dataclass(frozen=True)
class Loop:
    """One engine at one level of work, ready to be run over streams of chunks."""

    run: Callable[[Streams], None]
    """What is timed: the items are read and dropped."""
    collect: Callable[[Streams], list[Any]]
    """The same code, but what was read is kept."""
    typed: bool
    """Whether what `collect` gives at level text is (type, data), not data alone."""


@dataclass(frozen=True)
class Engine:
    """One decoder, and the expressions that read an item of it, for each level of work."""

    name: str
    group: Group
    kind: Kind
    distribution: str | None
    """Where its version is found; None for what is not a distribution."""
    note: str
    load: Callable[..., Callable[..., Any]]
    """Import it and give what takes the chunks; for JSON it is called with the framing."""
    loop: str
    reads: dict[str, str]
    type: str | None
    """The expression for an event's type; None where the engine has none."""
    framings: tuple[str, ...]
    stands_for: str
    """The engine that it replaces, faults included, where it is ours and has to have them."""

    @property
    def result(self) -> str:
        # Where text is held back for its next byte is a decoder's own affair.
        return "[''.join(kept)]" if self.loop is DECODE else "kept"

    @property
    def version(self) -> str | None:
        """None when it is not installed, or is not a distribution."""
        if self.distribution is None:
            return None
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None

    def missing(self) -> str | None:
        """Why it cannot be measured here, or None."""
        try:
            self.load()
        except ImportError as error:
            return f"not installed: {error}"
        return None

    def prepare(
        self,
        level: str,
        corpus: Corpus | None = None,
        framing: str = "",
        payloads: Sequence[bytes] = (),
    ) -> Loop:
        """Import the engine and compile its loop; floors take the payloads, not the stream.

        Raises:
            UnsupportedError: It does not offer the level or the framing.
            ImportError: It is not installed.
        """
        if level not in self.reads:
            raise UnsupportedError(f"{self.name} has no level {level}")
        if self.framings and framing not in self.framings:
            raise UnsupportedError(f"{self.name} does not read {framing}")
        read = self.reads[level]
        names: dict[str, Any] = {"loads": orjson.loads, "payloads": payloads}
        if corpus is not None:
            names["path"] = corpus.path
            names["payloads"] = [data.encode() for _, data in corpus.events]
            if level != "text" and not corpus.json:
                raise UnsupportedError(f"{corpus.name} is not all JSON")
            if level == "get":
                if not corpus.index:
                    raise UnsupportedError(f"nothing to get is named for {corpus.name}")
                read = read.replace("INDEX", corpus.index)
            if level == "validate":
                if corpus.model is None:
                    raise UnsupportedError(f"no model is named for {corpus.name}")
                names["model"] = corpus.model
                names["validate_json"] = TypeAdapter(corpus.model).validate_json
        names["take"] = self.load(framing) if framing else self.load()
        typed = level == "text" and self.type is not None
        kept = f"({self.type}, {read})" if typed else read
        indented = self.loop.strip().replace("\n", "\n    ")
        source = (
            f"def run(streams):\n    {indented.format(use=read)}\n"
            f"def collect(streams):\n    kept = []\n    append = kept.append\n"
            f"    {indented.format(use=f'append({kept})')}\n    return {self.result}\n"
        )
        exec(compile(source, f"<{self.name}>", "exec"), names)
        return Loop(names["run"], names["collect"], typed)


ENGINES: dict[tuple[Group, str], Engine] = {}


def engine(
    name: str,
    group: Group = "sse",
    *,
    kind: Kind = "peer",
    distribution: str | None = None,
    note: str = "",
    loop: str = PULL,
    text: str | None = None,
    type: str | None = None,
    framings: tuple[str, ...] = (),
    stands_for: str = "",
    **reads: str,
) -> Callable[[Callable[..., Callable[..., Any]]], Callable[..., Callable[..., Any]]]:
    """Register the decorated function as an engine.

    From `text`, the expression for an item's data, follow those of the other levels, as a user
    of the engine would write them: orjson on the data, then an index, or a pydantic model.
    """
    expressions = dict(reads)
    if text is not None:
        parsed = expressions.get("json", f"loads({text})")
        of_text = {
            "text": text,
            "json": parsed,
            "get": f"{parsed}INDEX",
            "validate": f"validate_json({text})",
        }
        expressions = of_text | expressions
    elif "json" in expressions and group == "sse":
        expressions.setdefault("get", f"{expressions['json']}INDEX")

    def register(load: Callable[..., Callable[..., Any]]) -> Callable[..., Callable[..., Any]]:
        assert (group, name) not in ENGINES
        ENGINES[group, name] = Engine(
            name,
            group,
            kind,
            distribution,
            note,
            load,
            loop,
            expressions,
            type,
            framings,
            stands_for,
        )
        return load

    return register


def of_group(group: Group) -> list[Engine]:
    return [engine for engine in ENGINES.values() if engine.group == group]


OURS = "seamstream"
"""The engine that every other one is compared with, in each group."""

# --- event streams: ours

READS: dict[str, Any] = {
    "text": "item.data",
    "type": "item.event",
    "json": "item.json()",
    "get": "item.get(path)",
    "validate": "item.validate(model)",
}


@engine(OURS, kind="ours", distribution="seamstream", note="SSEDecoder.feed", loop=PUSH, **READS)
def _() -> Callable[..., Any]:
    return importlib.import_module("seamstream._core").SSEDecoder


@engine("seamstream-iter", kind="ours", distribution="seamstream", note="SSEDecoder.iter", **READS)
def _() -> Callable[..., Any]:
    decoder = importlib.import_module("seamstream._core").SSEDecoder
    return lambda chunks: decoder().iter(chunks)


@engine(
    "seamstream-EventStream",
    kind="ours",
    distribution="seamstream",
    note="EventStream over an iterator of chunks",
    **READS,
)
def _() -> Callable[..., Any]:
    import seamstream

    if seamstream.backend != "rust":
        raise ImportError("the compiled module is not in use")
    return lambda chunks: seamstream.EventStream(iter(chunks), done=None)


@engine(
    "seamstream-reference",
    kind="ours",
    distribution="seamstream",
    note="SSEDecoder.feed in plain Python",
    loop=PUSH,
    **READS,
)
def _() -> Callable[..., Any]:
    return importlib.import_module("seamstream._reference").SSEDecoder


def cython_build() -> Any:
    """The reference compiled by Cython, where `make cyref` puts it."""
    place = str(ROOT / "build" / "cyref")
    if place not in sys.path:
        sys.path.append(place)
    return importlib.import_module("seamstream_cyref")


@engine(
    "seamstream-cython",
    kind="ours",
    distribution="seamstream",
    note="the plain Python one, compiled by Cython (make cyref)",
    loop=PUSH,
    **READS,
)
def _() -> Callable[..., Any]:
    return cython_build().SSEDecoder


# The drop-ins, with the standard's behaviour: by default they keep their originals' faults, which
# the recorded streams would show as wrong.


@engine(
    "compat.httpx_sse",
    kind="ours",
    distribution="seamstream",
    note="stands in for httpx-sse",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    from seamstream.compat.httpx_sse import EventSource

    return lambda chunks: EventSource(StreamResponse(chunks), profile="whatwg").iter_sse()


@engine(
    "compat.httpx2",
    kind="ours",
    distribution="seamstream",
    note="stands in for httpx2's EventSource, its size limit off",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    from seamstream.compat.httpx2 import EventSource

    return lambda chunks: EventSource(StreamResponse(chunks), None, profile="whatwg")


@engine(
    "compat.sseclient_py",
    kind="ours",
    distribution="seamstream",
    note="stands in for sseclient-py",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    from seamstream.compat.sseclient_py import SSEClient

    return lambda chunks: SSEClient(iter(chunks), profile="whatwg").events()


# These can only be as their originals.


@engine(
    "compat.openai",
    kind="ours",
    distribution="seamstream",
    note="the decoder for the OpenAI SDK",
    text="item.data",
    type="item.event or 'message'",
    stands_for="openai",
)
def _() -> Callable[..., Any]:
    from seamstream.compat.openai import SSEDecoder

    return lambda chunks: SSEDecoder().iter_bytes(iter(chunks))


@engine(
    "compat.anthropic",
    kind="ours",
    distribution="seamstream",
    note="the decoder for the Anthropic SDK",
    text="item.data",
    type="item.event or 'message'",
    stands_for="anthropic",
)
def _() -> Callable[..., Any]:
    from seamstream.compat.anthropic import SSEDecoder

    return lambda chunks: SSEDecoder().iter_bytes(iter(chunks))


# --- event streams: floors


@engine(
    "floor",
    kind="floor",
    distribution="orjson",
    note="no framing at all: bytes.decode, orjson.loads and pydantic on each payload",
    text="item.decode()",
    json="loads(item)",
    validate="validate_json(item)",
    loop="""
for item in payloads:
    {use}
""",
)
def _() -> Callable[..., Any]:
    return list


# --- event streams: peers


class StreamResponse:
    """What httpx-sse, httpx2 and their stand-ins ask of a response; its text is decoded in C."""

    headers = {"content-type": "text/event-stream"}  # noqa: RUF012 (as in the original)
    request = None

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks

    def iter_bytes(self) -> Iterator[bytes]:
        return iter(self.chunks)

    def iter_text(self) -> Iterator[str]:
        return codecs.iterdecode(self.chunks, "utf-8", "replace")


@engine(
    "plain-bytes",
    note="50 lines of plain Python, in the style of the fastest peer (plain_bytes.py)",
    text="item[1]",
    type="item[0]",
)
def _() -> Callable[..., Any]:
    return plain_bytes.decode


@engine(
    "httpx-sse",
    distribution="httpx-sse",
    note="EventSource.iter_sse",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    import httpx_sse

    return lambda chunks: httpx_sse.EventSource(StreamResponse(chunks)).iter_sse()


@engine(
    "httpx2",
    distribution="httpx2",
    note="EventSource, its size limit off",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    import httpx2

    return lambda chunks: httpx2.EventSource(StreamResponse(chunks), max_event_size=None)


@engine(
    "openai",
    distribution="openai",
    note="the SDK's SSEDecoder.iter_bytes",
    text="item.data",
    type="item.event or 'message'",
)
def _() -> Callable[..., Any]:
    from openai._streaming import SSEDecoder

    return lambda chunks: SSEDecoder().iter_bytes(iter(chunks))


@engine(
    "anthropic",
    distribution="anthropic",
    note="the SDK's SSEDecoder.iter_bytes",
    text="item.data",
    type="item.event or 'message'",
)
def _() -> Callable[..., Any]:
    from anthropic._streaming import SSEDecoder

    return lambda chunks: SSEDecoder().iter_bytes(iter(chunks))


@engine(
    "sseclient-py",
    distribution="sseclient-py",
    note="SSEClient.events",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    import sseclient

    return lambda chunks: sseclient.SSEClient(iter(chunks)).events()


@engine(
    "launchdarkly-eventsource",
    distribution="launchdarkly-eventsource",
    note="its reader, without connection handling; comments are told apart",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    from ld_eventsource.actions import Event
    from ld_eventsource.reader import _BufferedLineReader, _SSEReader

    def take(chunks: Chunks) -> Iterator[Any]:
        for item in _SSEReader(_BufferedLineReader.lines_from(chunks)).events_and_comments():
            if isinstance(item, Event):
                yield item

    return take


@engine(
    "mistralai",
    distribution="mistralai",
    note="the SDK's stream_events, which parses the data itself; orjson for its decoder",
    json='item["data"]',
)
def _() -> Callable[..., Any]:
    from mistralai.client.utils.eventstreaming import stream_events

    class Response:
        def __init__(self, chunks: Chunks) -> None:
            self.chunks = chunks

        def iter_bytes(self) -> Chunks:
            return self.chunks

        def close(self) -> None:
            pass

    return lambda chunks: stream_events(Response(chunks), orjson.loads)


@engine(
    "google-genai",
    distribution="google-genai",
    note="the SDK's HttpResponse, before it parses; it has no event types",
    text="item",
)
def _() -> Callable[..., Any]:
    import httpx
    from google.genai._api_client import HttpResponse

    class Response(httpx.Response):
        """Of the class that is asked for, but its bytes are the chunks."""

        chunks: Chunks = ()  # an empty body is read at once

        def __init__(self, chunks: Chunks) -> None:
            super().__init__(200)
            self.chunks = chunks

        def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
            return iter(self.chunks)

    return lambda chunks: HttpResponse({}, Response(chunks))._iter_response_stream()


@engine(
    "niquests",
    distribution="urllib3-future",
    note="the SSE extension of urllib3-future, which niquests uses",
    text="item.data",
    type="item.event",
)
def _() -> Callable[..., Any]:
    from urllib3_future.contrib.webextensions.sse import ServerSideEventExtensionFromHTTP

    class Stream:
        _dsa = None

    class Response:
        _fp = Stream()
        _police_officer = None

        def __init__(self, chunks: Chunks) -> None:
            self.chunks = chunks

        def stream(self, amount: int, decode_content: bool) -> Iterator[bytes]:
            return iter(self.chunks)

    def take(chunks: Chunks) -> Iterator[Any]:
        extension: Any = ServerSideEventExtensionFromHTTP()
        extension.start(Response(chunks))
        return iter(extension.next_payload, None)

    return take


class Raw(io.RawIOBase):
    """What urllib3 gives requests of a chunked body: a chunk, or as much of it as asked for."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = chunks

    def stream(self, amount: int, decode_content: bool) -> Iterator[bytes]:
        for chunk in self.chunks:
            for at in range(0, len(chunk), amount):
                yield chunk[at : at + amount]


def requests_response(chunks: Chunks) -> Any:
    import requests

    response = requests.Response()
    response.status_code = 200
    response.url = "http://localhost/"
    response.headers["Content-Type"] = "text/event-stream"
    response.raw = Raw(chunks)
    return response


@engine(
    "requests-sse",
    distribution="requests-sse",
    note="EventSource over a session that answers once",
    text="item.data",
    type="item.type",
)
def _() -> Callable[..., Any]:
    from datetime import timedelta

    import requests
    import requests_sse

    class OverError(requests.RequestException):
        pass

    class Session:
        def __init__(self, chunks: Chunks) -> None:
            self.answers = [requests_response(chunks)]

        def request(self, **_: Any) -> Any:
            if not self.answers:
                raise OverError
            return self.answers.pop()

    def take(chunks: Chunks) -> Iterator[Any]:
        source = requests_sse.EventSource(
            "http://localhost/",
            session=Session(chunks),
            reconnection_time=timedelta(0),
            max_connect_retry=0,
        )
        source.connect()
        try:
            yield from source
        except OverError:
            source.close()

    return take


@engine(
    "iter_lines",
    distribution="requests",
    note='requests\' iter_lines and startswith(b"data: "): not a parser, but what people write',
    text="item",
)
def _() -> Callable[..., Any]:
    import requests  # noqa: F401 (so that it is found missing here)

    def take(chunks: Chunks) -> Iterator[str]:
        for line in requests_response(chunks).iter_lines():
            if line.startswith(b"data: "):
                yield line[6:].decode()

    return take


# --- JSON: the item is one value's bytes or the value

FRAMINGS = ("concatenated", "ndjson", "array", "json-seq")


def ours_json(module: Any, framing: str) -> Callable[..., Any]:
    decoder = module.JSONStreamDecoder
    return lambda: decoder(framing=framing)


@engine(
    OURS,
    "json",
    kind="ours",
    distribution="seamstream",
    note="JSONStreamDecoder.feed",
    loop=PUSH,
    json="item.json()",
    framings=FRAMINGS,
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    return ours_json(importlib.import_module("seamstream._core"), framing)


@engine(
    "seamstream-reference",
    "json",
    kind="ours",
    distribution="seamstream",
    note="JSONStreamDecoder.feed in plain Python",
    loop=PUSH,
    json="item.json()",
    framings=FRAMINGS,
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    return ours_json(importlib.import_module("seamstream._reference"), framing)


@engine(
    "seamstream-cython",
    "json",
    kind="ours",
    distribution="seamstream",
    note="the plain Python one, compiled by Cython (make cyref)",
    loop=PUSH,
    json="item.json()",
    framings=FRAMINGS,
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    return ours_json(cython_build(), framing)


@engine(
    "floor",
    "json",
    kind="floor",
    distribution="orjson",
    note="no framing at all: orjson.loads on each value",
    json="loads(item)",
    framings=FRAMINGS,
    loop="""
for item in payloads:
    {use}
""",
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    return list


def split_lines(chunks: Chunks) -> Iterator[bytes]:
    """Values one a line, as people split them; linear, and it checks nothing."""
    rest: list[bytes] = []
    for chunk in chunks:
        head, *lines = chunk.split(b"\n")
        rest.append(head)
        if lines:
            yield b"".join(rest)
            rest = [lines.pop()]
            yield from lines
    if last := b"".join(rest):
        yield last


class LinesParsedBy:
    """Lines, and what makes values of them."""

    def __init__(self, parse: Callable[[bytes], Any]) -> None:
        self.parse = parse

    def __call__(self, chunks: Chunks) -> Iterator[bytes]:
        return split_lines(chunks)


@engine(
    "lines-orjson",
    "json",
    distribution="orjson",
    note="split at LF; checks no framing",
    json="loads(item)",
    framings=("ndjson",),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    return split_lines


@engine(
    "lines-msgspec",
    "json",
    distribution="msgspec",
    note="split at LF, msgspec.json.Decoder",
    json="take.parse(item)",
    framings=("ndjson",),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    import msgspec

    return LinesParsedBy(msgspec.json.Decoder().decode)


@engine(
    "lines-jiter",
    "json",
    distribution="jiter",
    note="split at LF, jiter.from_json",
    json="take.parse(item)",
    framings=("ndjson",),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    import jiter

    return LinesParsedBy(jiter.from_json)


@engine(
    "lines-simdjson",
    "json",
    distribution="pysimdjson",
    note="split at LF, simdjson.loads",
    json="take.parse(item)",
    framings=("ndjson",),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    import simdjson

    return LinesParsedBy(simdjson.loads)


@engine(
    "lines-json",
    "json",
    note="split at LF, json.loads",
    json="take.parse(item)",
    framings=("ndjson",),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    return LinesParsedBy(json.loads)


@engine(
    "raw_decode",
    "json",
    note="the standard library's JSONDecoder.raw_decode on the text so far",
    json="item",
    framings=("concatenated", "ndjson", "array"),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    decode = json.JSONDecoder().raw_decode
    between = " \t\r\n,[" if framing == "array" else " \t\r\n"

    def take(chunks: Chunks) -> Iterator[Any]:
        text = ""
        for piece in codecs.iterdecode(chunks, "utf-8"):
            text = (text + piece).lstrip(between)
            while text:
                try:
                    value, end = decode(text)
                except ValueError:
                    break
                yield value
                text = text[end:].lstrip(between)

    return take


class Reads:
    """A file whose every read gives the next chunk."""

    def __init__(self, chunks: Chunks) -> None:
        self.chunks = iter(chunks)

    def read(self, _: int = -1) -> bytes:
        return next(self.chunks, b"")


@engine(
    "splitstream",
    "json",
    distribution="splitstream",
    note="splitfile and orjson",
    json="loads(item)",
    framings=("concatenated", "ndjson", "array"),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    import splitstream

    depth = 1 if framing == "array" else 0
    return lambda chunks: splitstream.splitfile(Reads(chunks), format="json", startdepth=depth)


@engine(
    "ijson",
    "json",
    distribution="ijson",
    note="items_coro of its C backend",
    json="item",
    framings=("concatenated", "ndjson", "array"),
)
def _(framing: str = "ndjson") -> Callable[..., Any]:
    import ijson

    backend = ijson.get_backend("yajl2_c")
    prefix = "item" if framing == "array" else ""

    def take(chunks: Chunks) -> Iterator[Any]:
        items = ijson.sendable_list()
        coroutine = backend.items_coro(items, prefix, multiple_values=True, use_float=True)
        for chunk in chunks:
            coroutine.send(chunk)
            yield from items
            items.clear()
        coroutine.close()
        yield from items

    return take


# --- UTF-8: chunks in, text out


@engine(
    OURS,
    "utf8",
    kind="ours",
    distribution="seamstream",
    note="UTF8Decoder",
    loop=DECODE,
    text="item",
)
def _() -> Callable[..., Any]:
    return importlib.import_module("seamstream._core").UTF8Decoder


@engine(
    "seamstream-reference",
    "utf8",
    kind="ours",
    distribution="seamstream",
    note="UTF8Decoder in plain Python",
    loop=DECODE,
    text="item",
)
def _() -> Callable[..., Any]:
    return importlib.import_module("seamstream._reference").UTF8Decoder


@engine(
    "codecs",
    "utf8",
    note="the standard library's incremental decoder, errors='replace'; it counts nothing",
    loop=DECODE,
    text="item",
)
def _() -> Callable[..., Any]:
    decoder = codecs.getincrementaldecoder("utf-8")
    return lambda: decoder("replace")


# --- the verdict


@dataclass(frozen=True)
class Outcome:
    """What came of one engine on one stream."""

    verdict: Literal["ok", "wrong", "lost", "error", "unsupported"]
    detail: str = ""


def compare(found: Sequence[Any], wanted: Sequence[Any]) -> Outcome:
    """Judge what an engine gave: `lost` is less than was sent, `wrong` is anything else."""
    if list(found) == list(wanted):
        return Outcome("ok")
    if len(found) < len(wanted):
        return Outcome("lost", f"{len(found)} of {len(wanted)} items came out")
    if len(found) > len(wanted):
        return Outcome("wrong", f"{len(found)} items came out of {len(wanted)}")
    at = next(at for at, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1])
    return Outcome("wrong", f"item {at} of {len(wanted)} is not what was sent")


def expected(corpus: Corpus, level: str, typed: bool) -> list[Any]:
    """What an engine has to give for the corpus at this level."""
    if level == "text":
        return corpus.events if typed else [data for _, data in corpus.events]
    values = [json.loads(data) for _, data in corpus.events]
    if level == "get":
        index = eval(f"lambda value: value{corpus.index}")
        return [index(value) for value in values]
    if level == "validate":
        assert corpus.model is not None
        return [corpus.model.model_validate(value) for value in values]
    return values


def judge(
    engine: Engine,
    streams: Streams,
    level: str,
    corpus: Corpus | None = None,
    framing: str = "",
    payloads: Sequence[bytes] = (),
    wanted: Sequence[Any] = (),
) -> tuple[Outcome, Loop | None]:
    """Prepare an engine, run it over streams, and compare what comes out.

    What is wanted follows from the corpus, where there is one. The loop is there to be timed, and
    only when all is right.
    """
    try:
        loop = engine.prepare(level, corpus, framing, payloads)
        found = loop.collect(streams)
    except (UnsupportedError, ImportError) as error:
        return Outcome("unsupported", str(error)), None
    except Exception as error:
        return Outcome("error", f"{type(error).__name__}: {error}"[:200]), None
    if corpus is not None:
        wanted = expected(corpus, level, loop.typed)
    outcome = compare(found, wanted)
    return outcome, loop if outcome.verdict == "ok" else None
