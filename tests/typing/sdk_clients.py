"""What the types of the stand-ins for SDKs have to be; checked by mypy and pyright, never run."""

from __future__ import annotations

import anthropic
import openai
from openai import Stream
from openai.types.chat import ChatCompletionChunk
from typing_extensions import assert_type

from seamstream.compat.anthropic import Anthropic
from seamstream.compat.anthropic import patch as patch_anthropic
from seamstream.compat.mistralai import install, uninstall
from seamstream.compat.openai import OpenAI, SSEDecoder, patch, unpatch


def clients() -> None:
    client = OpenAI(api_key="none")
    assert_type(client, OpenAI)
    assert_type(client.with_options(timeout=9), OpenAI)
    chunks = client.chat.completions.create(model="m", messages=[], stream=True)
    assert_type(chunks, Stream[ChatCompletionChunk])
    assert_type(patch(openai.AsyncOpenAI()), openai.AsyncOpenAI)
    assert_type(unpatch(client), OpenAI)
    assert_type(Anthropic(api_key="none"), Anthropic)
    assert_type(patch_anthropic(anthropic.Anthropic()), anthropic.Anthropic)


def decoders(chunks: list[bytes]) -> None:
    for event in SSEDecoder().iter_bytes(iter(chunks)):
        assert_type(event.data, str)
        assert_type(event.event, str | None)


def process_wide() -> None:
    with install():
        pass
    uninstall()
