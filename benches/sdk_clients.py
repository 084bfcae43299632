"""What a stream costs a program that uses an SDK: `python -m benches.sdk_clients`.

The clients of the SDKs read from a server on the loopback interface, in a process of its own, whose
every write comes out of the socket as one read: one event, 64 bytes, or 64 KiB. What is measured is
the thread CPU time of the client from the response's head to its end, an event. The ways to read a
response take turns, the better of two each time; each first shows that it gives the text that was
sent. A gain is the median of the ratios of the turns.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from multiprocessing.connection import Connection
from typing import Any

import orjson

import seamstream
from benches.quick import at_least, heading
from benches.workloads import Workload, anthropic, openai
from seamstream.testing import FragmentingServer

MESSAGES: Any = [{"role": "user", "content": "hi"}]
now = time.thread_time_ns

Read = Callable[[Any], str]


@dataclass(frozen=True)
class SDK:
    """One SDK, what its service sends, and how to take the text out of that."""

    name: str
    client: str
    workload: Callable[[int], Workload]
    path: str
    model: Callable[[], Any]
    open: Callable[[Any], Any]
    open_raw: Callable[[Any], Any]
    token: Callable[[Any], str]

    def new(self, url: str) -> Any:
        made = getattr(import_module(self.name), self.client)
        return made(api_key="none", base_url=url, max_retries=0)

    def patched(self, url: str) -> Any:
        return import_module(f"seamstream.compat.{self.name}").patch(self.new(url))

    def read_by_sdk(self, stream: Any) -> str:
        token = self.token
        return "".join([token(item) for item in stream])

    def read_as_models(self, response: Any) -> str:
        token = self.token
        with seamstream.EventStream(response.iter_bytes(), model=self.model()) as stream:
            return "".join([token(item) for _, item, _ in stream])

    def read_by_path(self, response: Any) -> str:
        path = self.path
        with seamstream.EventStream(response.iter_bytes()) as stream:
            return "".join([event.get(path) for event in stream])


def chat_token(chunk: Any) -> str:
    return str(chunk.choices[0].delta.content)


def chat_model(package: str) -> Callable[[], Any]:
    return lambda: import_module(f"{package}.types.chat").ChatCompletionChunk


def message_model() -> Any:
    return {"content_block_delta": import_module("anthropic.types").RawContentBlockDeltaEvent}


def chat(package: str, client: str) -> SDK:
    request: Any = {"model": "m", "messages": MESSAGES, "stream": True}
    return SDK(
        package,
        client,
        openai,
        "choices.0.delta.content",
        chat_model(package),
        lambda client: client.chat.completions.create(**request),
        lambda client: client.chat.completions.with_streaming_response.create(**request),
        chat_token,
    )


MESSAGE: Any = {"model": "m", "messages": MESSAGES, "max_tokens": 9, "stream": True}
SDKS = [
    chat("openai", "OpenAI"),
    SDK(
        "anthropic",
        "Anthropic",
        anthropic,
        "delta.text",
        message_model,
        lambda client: client.messages.create(**MESSAGE),
        lambda client: client.messages.with_streaming_response.create(**MESSAGE),
        lambda event: str(event.delta.text),
    ),
    chat("groq", "Groq"),
]


def events_of(sdk: SDK, number: int) -> tuple[list[bytes], str]:
    """Events of one length, so that a write of that many bytes is one of them; and their text."""
    blocks = sdk.workload(number * 12).blocks()
    (length, _), *_ = Counter(map(len, blocks)).most_common(1)
    chosen = [block for block in blocks if len(block) == length][:number]
    assert len(chosen) == number
    text = ""
    for block in chosen:
        value: Any = orjson.loads(block[block.index(b"{") :])
        for key in sdk.path.split("."):
            value = value[int(key) if key.isdigit() else key]
        text += value
    return chosen, text


def by_sdk(sdk: SDK, client: Any) -> tuple[int, str]:
    with sdk.open(client) as stream:
        start = now()
        text = sdk.read_by_sdk(stream)
        return now() - start, text


def by_response(sdk: SDK, client: Any, read: Read) -> tuple[int, str]:
    with sdk.open_raw(client) as response:
        start = now()
        text = read(response)
        return now() - start, text


def drain(response: Any) -> str:
    for _ in response.iter_bytes():
        pass
    return ""


def serve(body: bytes, write_size: int, parent: Connection) -> None:
    with FragmentingServer(body, write_size=write_size) as server:
        parent.send(server.url)
        parent.recv()


@contextmanager
def server_of(body: bytes, write_size: int) -> Iterator[str]:
    """Serve from another process, with which the client does not share an interpreter's lock."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(body, write_size, theirs), daemon=True)
    process.start()
    theirs.close()  # which is then open in the process only, and ends with it
    try:
        if not ours.poll(60):
            raise TimeoutError("the server does not start")
        try:
            url = ours.recv()
        except EOFError as error:
            process.join()
            raise RuntimeError(f"the server ended with {process.exitcode}") from error
        yield url
    finally:
        process.terminate()
        process.join()


def measure(sdk: SDK, events: Sequence[bytes], write_size: int, turns: int, text: str) -> list[str]:
    with (
        server_of(b"".join(events), write_size) as url,
        sdk.new(url) as stock,
        sdk.patched(url) as patched,
    ):
        ways: dict[str, Callable[[], tuple[int, str]]] = {
            "drain": lambda: by_response(sdk, stock, drain),
            "sdk": lambda: by_sdk(sdk, stock),
            "patched": lambda: by_sdk(sdk, patched),
            "models": lambda: by_response(sdk, stock, sdk.read_as_models),
            "path": lambda: by_response(sdk, stock, sdk.read_by_path),
        }
        for name, way in ways.items():
            assert way()[1] == ("" if name == "drain" else text), (sdk.name, name)
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(turns):
            for name, way in ways.items():
                gc.collect()
                times[name].append(min(way()[0], way()[0]) / len(events) / 1000)
    found = [f"{statistics.median(times[name]):.1f}" for name in ways]
    for name in ("patched", "models", "path"):
        ratio = statistics.median(a / b for a, b in zip(times["sdk"], times[name], strict=True))
        found.append(f"{ratio:.2f}")
    return found


def by_decoder(decoder: Any, chunks: Sequence[bytes]) -> tuple[int, list[Any]]:
    values = []
    start = now()
    for event in decoder.iter_bytes(iter(chunks)):
        if event.data and event.event != "ping":  # what the SDKs look at
            values.append(event.json())  # noqa: PERF401
    return now() - start, values


def measure_decoder(sdk: SDK, events: Sequence[bytes], write_size: int, turns: int) -> list[str]:
    body = b"".join(events)
    chunks = [body[at : at + write_size] for at in range(0, len(body), write_size)]
    stock = import_module(f"{sdk.name}._streaming").SSEDecoder
    ours = import_module(f"seamstream.compat.{sdk.name}").SSEDecoder
    expected = [orjson.loads(event[event.index(b"{") :]) for event in events]
    assert by_decoder(stock(), chunks)[1] == by_decoder(ours(), chunks)[1] == expected
    times: list[tuple[float, float]] = []
    for _ in range(turns):
        gc.collect()
        pair = [min(by_decoder(new(), chunks)[0] for _ in range(5)) for new in (stock, ours)]
        times.append((pair[0] / len(events) / 1000, pair[1] / len(events) / 1000))
    medians = [f"{statistics.median(each):.1f}" for each in zip(*times, strict=True)]
    return [*medians, f"{statistics.median(a / b for a, b in times):.2f}"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.sdk_clients", description=__doc__)
    parser.add_argument(
        "--events", type=at_least(1), default=300, help="in each response (default: 300)"
    )
    parser.add_argument("--turns", type=at_least(1), default=9, help="of each way (default: 9)")
    parser.add_argument("--sdk", action="append", choices=[sdk.name for sdk in SDKS])
    options = parser.parse_args(arguments)
    chosen = [sdk for sdk in SDKS if options.sdk is None or sdk.name in options.sdk]
    print(heading())
    libraries = [*(sdk.name for sdk in chosen), "httpx2", "httpx", "pydantic"]
    print(", ".join(f"{name} {version(name)}" for name in libraries))
    print(f"{options.events} events a response; medians of {options.turns}\n")
    print(
        "| client CPU time an event, µs | a read | bytes only | the SDK | patched"
        " | `EventStream`, `model=` | `EventStream`, `get` | gain, patched | `model=` | `get` |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for sdk in chosen:
        events, text = events_of(sdk, options.events)
        length = len(events[0])
        for name, size in (("one event", length), ("64 bytes", 64), ("64 KiB", 65536)):
            row = [sdk.name + f", {length} bytes", name]
            print(f"| {' | '.join(row + measure(sdk, events, size, options.turns, text))} |")
    print("\n| the decoder and `json()` alone, µs an event | a read | the SDK's | ours | gain |")
    print("|---|---|---:|---:|---:|")
    for sdk in chosen:
        events, _ = events_of(sdk, options.events)
        for name, size in (("one event", len(events[0])), ("64 bytes", 64), ("64 KiB", 65536)):
            row = [sdk.name, name, *measure_decoder(sdk, events, size, options.turns)]
            print(f"| {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
