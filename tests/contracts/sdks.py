"""The SDKs that make their decoders in one way, and how to call them."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType
from typing import Any

from shared_folder import SHARED, load_shared

MESSAGES: Any = [{"role": "user", "content": "hi"}]


@dataclass(frozen=True)
class SDK:
    """One SDK, its stand-in, and the names of its clients."""

    name: str
    client: str
    async_client: str

    def __str__(self) -> str:
        return self.name

    @property
    def stock(self) -> ModuleType:
        return importlib.import_module(self.name)

    @property
    def ours(self) -> Any:
        return importlib.import_module(f"seamstream.compat.{self.name}")

    @property
    def version(self) -> str:
        return version(self.name)

    def stock_decoder(self) -> Any:
        return importlib.import_module(f"{self.name}._streaming").SSEDecoder()

    def new(self, module: Any, url: str, *, is_async: bool = False, **options: Any) -> Any:
        made = getattr(module, self.async_client if is_async else self.client)
        return made(api_key="none", base_url=url, max_retries=0, **options)


SDKS = [
    SDK("openai", "OpenAI", "AsyncOpenAI"),
    SDK("anthropic", "Anthropic", "AsyncAnthropic"),
    SDK("groq", "Groq", "AsyncGroq"),
]
OPENAI, ANTHROPIC, GROQ = SDKS

ENTRIES = [
    entry for entry in load_shared("corpus/manifest.json", "entries") if entry["format"] == "sse"
]


def body_of(entry: dict[str, Any]) -> bytes:
    return (SHARED / "corpus" / entry["file"]).read_bytes()


def one_event_a_chunk(body: bytes) -> list[bytes]:
    """Cut after each blank line, as most servers write."""
    chunks = [b""]
    lines = body.splitlines(keepends=True)
    for line in lines:
        chunks[-1] += line
        if not line.strip(b"\r\n"):
            chunks.append(b"")
    return [chunk for chunk in chunks if chunk]


def _openai_responses(client: Any) -> Any:
    return client.responses.create(model="m", input="hi", stream=True)


def _openai_completions(client: Any) -> Any:
    return client.completions.create(model="m", prompt="hi", stream=True)


def _openai_assistants(client: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the SDK deprecates the method
        return client.beta.threads.create_and_run(assistant_id="a", stream=True)


def _chat(client: Any) -> Any:
    return client.chat.completions.create(model="m", messages=MESSAGES, stream=True)


def _messages(client: Any) -> Any:
    return client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=True)


# By the dialect of the body. What a service sends in another dialect has to come out all the same.
CALLS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "openai": {
        "chat": _chat,
        "responses": _openai_responses,
        "completions": _openai_completions,
        "assistants": _openai_assistants,
        "other": _openai_responses,
    },
    "anthropic": {"messages": _messages},
    "groq": {"chat": _chat},
}


def observed(item: Any) -> tuple[str, Any]:
    # The SDKs build models without validation, so a value may be of another type than it says.
    return type(item).__qualname__, item.model_dump(warnings=False)


def observed_error(error: Exception) -> tuple[str, Any]:
    return type(error).__qualname__, (str(error), getattr(error, "body", None))


def outcome(client: Any, call: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    """What a stream gives, object by object, and the exception that ends it, if one does."""
    found: list[tuple[str, Any]] = []
    try:
        with call(client) as stream:
            for item in stream:
                found.append(observed(item))  # noqa: PERF401
    except Exception as error:
        found.append(observed_error(error))
    return found


async def async_outcome(client: Any, call: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    try:
        async with await call(client) as stream:
            async for item in stream:
                found.append(observed(item))  # noqa: PERF401
    except Exception as error:
        found.append(observed_error(error))
    return found


def fields_of(events: Iterable[Any]) -> list[tuple[Any, ...]]:
    return [(event.event, event.data, event.id, event.retry) for event in events]
