"""Patched clients stay patched through their copies, keep their class, and can be put back."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import pytest

import seamstream.compat.langchain
from loopback import Loopback
from sdks import ANTHROPIC, CALLS, GROQ, OPENAI, SDKS, async_outcome, fields_of, outcome

UNUSED = "http://127.0.0.1:1"
sdks = pytest.mark.parametrize("sdk", SDKS, ids=str)
# The SDKs' own decoders lose the first event here, so this tells who has decoded.
MARKED = b'\xef\xbb\xbfdata: {"id":"1","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
MARKED_MESSAGE = b"\xef\xbb\xbfevent: message_stop\n" + b'data: {"type":"message_stop"}\n\n'


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def is_ours(sdk: Any, client: Any) -> bool:
    return isinstance(client._make_sse_decoder(), sdk.ours.SSEDecoder)


def url_of(sdk: Any, loopback: Loopback) -> str:
    return loopback.add([MARKED_MESSAGE if sdk is ANTHROPIC else MARKED])


def call_of(sdk: Any) -> Callable[[Any], Any]:
    return CALLS[sdk.name]["messages" if sdk is ANTHROPIC else "chat"]


@sdks
def test_patched_client_decodes_with_ours(sdk: Any, loopback: Loopback) -> None:
    client = sdk.new(sdk.stock, url_of(sdk, loopback))
    assert outcome(client, call_of(sdk)) == []
    assert sdk.ours.patch(client) is client
    assert len(outcome(client, call_of(sdk))) == 1


@sdks
def test_patched_asynchronous_client_decodes_with_ours(sdk: Any, loopback: Loopback) -> None:
    async def read() -> int:
        async with sdk.new(sdk.stock, url_of(sdk, loopback), is_async=True) as client:
            sdk.ours.patch(client)
            return len(await async_outcome(client.with_options(timeout=9), call_of(sdk)))

    assert asyncio.run(read()) == 1


@sdks
def test_patch_survives_copies_and_copies_of_copies(sdk: Any, loopback: Loopback) -> None:
    client = sdk.ours.patch(sdk.new(sdk.stock, url_of(sdk, loopback)))
    for each in (
        client.with_options(timeout=9),
        client.copy(max_retries=1).with_options(timeout=9).copy(),
    ):
        assert each is not client
        assert len(outcome(each, call_of(sdk))) == 1
    assert client.with_options(timeout=9).timeout == 9


@sdks
def test_client_of_ours_survives_copies(sdk: Any) -> None:
    for is_async in (False, True):
        client = sdk.new(sdk.ours, UNUSED, is_async=is_async)
        name = sdk.async_client if is_async else sdk.client
        for each in (client, client.with_options(timeout=9), client.copy().copy()):
            assert is_ours(sdk, each)
            assert isinstance(each, getattr(sdk.stock, name))
            assert isinstance(each, getattr(sdk.ours, name))


@sdks
def test_patched_client_keeps_its_class(sdk: Any) -> None:
    client = sdk.new(sdk.stock, UNUSED)
    kind, agent = type(client), client.user_agent
    sdk.ours.patch(client)
    assert type(client) is type(client.copy()) is kind
    assert client.user_agent == agent == sdk.new(sdk.ours, UNUSED).user_agent


@sdks
def test_unpatch_puts_back_what_was_there(sdk: Any) -> None:
    client = sdk.new(sdk.stock, UNUSED)
    before = dict(vars(client))
    sdk.ours.patch(client)
    copied = client.copy()
    assert sdk.ours.unpatch(client) is client
    assert vars(client) == before
    assert not is_ours(sdk, client)
    assert is_ours(sdk, copied)
    assert vars(sdk.ours.unpatch(client)) == before


def test_unpatch_puts_back_a_method_that_the_client_had_for_itself() -> None:
    client = OPENAI.new(OPENAI.stock, UNUSED)
    mine = client.copy
    client.copy = mine
    OPENAI.ours.unpatch(OPENAI.ours.patch(client))
    assert vars(client)["copy"] is mine


@sdks
def test_shallow_copy_of_a_patched_client_is_a_client_of_its_own(sdk: Any) -> None:
    client = sdk.ours.patch(sdk.new(sdk.stock, UNUSED))
    shallow = copy.copy(client)
    shallow.api_key = "another"
    for each in (shallow, shallow.copy(), shallow.with_options(timeout=9)):
        assert each.api_key == "another"
        assert not is_ours(sdk, each)
    assert sdk.ours.patch(shallow).copy().api_key == "another"
    assert is_ours(sdk, shallow.copy())
    assert is_ours(sdk, client.copy())


def test_shallow_copy_takes_along_a_method_that_the_client_had_for_itself() -> None:
    client = OPENAI.new(OPENAI.stock, UNUSED)
    client.copy = mine = client.with_options
    assert vars(copy.copy(OPENAI.ours.patch(client)))["copy"] is mine


@sdks
def test_patching_twice_does_nothing_more(sdk: Any) -> None:
    client = sdk.ours.patch(sdk.new(sdk.stock, UNUSED))
    after = dict(vars(client))
    assert vars(sdk.ours.patch(client)) == after
    assert sdk.ours.patch(sdk.new(sdk.ours, UNUSED))


def test_patching_from_many_threads_is_patching_once() -> None:
    client = OPENAI.new(OPENAI.stock, UNUSED)
    before = dict(vars(client))
    start = threading.Barrier(8)

    def patch() -> None:
        start.wait()
        for _ in range(200):
            OPENAI.ours.patch(client)

    threads = [threading.Thread(target=patch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_ours(OPENAI, client.copy())
    assert vars(OPENAI.ours.unpatch(client)) == before


@sdks
def test_patch_refuses_what_is_no_client_of_its_sdk(sdk: Any) -> None:
    other = GROQ if sdk is not GROQ else OPENAI
    with pytest.raises(TypeError, match=rf"client of {sdk.name} is needed, not {other.name}\."):
        sdk.ours.patch(other.new(other.stock, UNUSED))
    with pytest.raises(TypeError, match=r"is needed, not builtins\.NoneType"):
        sdk.ours.patch(None)


@sdks
def test_unpatch_refuses_what_is_no_client_of_its_sdk(sdk: Any) -> None:
    other = GROQ if sdk is not GROQ else OPENAI
    theirs = other.ours.patch(other.new(other.stock, UNUSED))
    with pytest.raises(TypeError, match=rf"client of {sdk.name} is needed, not {other.name}\."):
        sdk.ours.unpatch(theirs)
    assert is_ours(other, theirs)
    with pytest.raises(TypeError, match=r"is needed, not builtins\.NoneType"):
        sdk.ours.unpatch(None)


def test_anthropic_clients_for_other_services_can_be_patched() -> None:
    from anthropic import AnthropicFoundry, AnthropicVertex, AsyncAnthropicVertex

    vertex = {"region": "r", "project_id": "p", "access_token": "t", "base_url": UNUSED}
    clients = [
        AnthropicVertex(**vertex),
        AsyncAnthropicVertex(**vertex),
        AnthropicFoundry(api_key="none", base_url=UNUSED),
    ]
    for client in clients:
        assert is_ours(ANTHROPIC, ANTHROPIC.ours.patch(client).with_options(timeout=9))


def test_patch_refuses_a_client_that_reads_no_event_streams() -> None:
    from anthropic import AnthropicBedrock

    client = AnthropicBedrock(
        aws_access_key="a", aws_secret_key="b", aws_region="eu-west-1", base_url=UNUSED
    )
    before = dict(vars(client))
    with pytest.raises(TypeError, match="AnthropicBedrock has a decoder of its own"):
        ANTHROPIC.ours.patch(client)
    assert vars(client) == before


def test_client_that_has_no_copies_is_left_as_it_is() -> None:
    class Odd(OPENAI.stock.OpenAI):  # type: ignore[name-defined]
        @property
        def with_options(self) -> Any:
            raise AttributeError("it has no copies")

    client = Odd(api_key="none", base_url=UNUSED)
    before = dict(vars(client))
    with pytest.raises(AttributeError, match="it has no copies"):
        OPENAI.ours.patch(client)
    assert vars(client) == before


def test_patch_refuses_a_client_that_somebody_gave_a_decoder() -> None:
    client = OPENAI.new(OPENAI.stock, UNUSED)
    client._make_sse_decoder = OPENAI.stock_decoder
    with pytest.raises(TypeError, match="OpenAI has a decoder of its own"):
        OPENAI.ours.patch(client)


@pytest.mark.parametrize("make", ["patch", "client of ours"])
def test_anthropic_credentials_go_with_the_copies(make: str) -> None:
    """The SDK takes them along for clients of exactly its own classes."""
    import anthropic
    from anthropic.lib.credentials import AccessToken

    def credentials(**_: Any) -> AccessToken:
        return AccessToken(token="token", expires_at=None)

    if make == "patch":
        client = ANTHROPIC.ours.patch(anthropic.Anthropic(credentials=credentials, base_url=UNUSED))
    else:
        client = ANTHROPIC.ours.Anthropic(credentials=credentials, base_url=UNUSED)
    copied = client.with_options(timeout=9)
    assert copied.credentials is credentials
    assert is_ours(ANTHROPIC, copied)


def test_subclass_of_an_anthropic_client_of_ours_is_one() -> None:
    class Mine(ANTHROPIC.ours.Anthropic):  # type: ignore[name-defined]
        def __init__(self, mine: int = 1, **options: Any) -> None:
            super().__init__(**options)
            self.mine = mine

    client = Mine(mine=2, api_key="none", base_url=UNUSED)
    assert type(client) is Mine
    assert isinstance(client, Mine)
    assert is_ours(ANTHROPIC, client)
    assert is_ours(ANTHROPIC, client.copy())
    assert not isinstance(ANTHROPIC.new(ANTHROPIC.stock, UNUSED), ANTHROPIC.ours.Anthropic)


# --- process-wide


@sdks
def test_installed_all_clients_decode_with_ours(sdk: Any, loopback: Loopback) -> None:
    before = sdk.new(sdk.stock, url_of(sdk, loopback))
    with sdk.ours.install():
        for client in (before, before.copy(), sdk.new(sdk.stock, url_of(sdk, loopback))):
            assert len(outcome(client, call_of(sdk))) == 1
    assert outcome(before, call_of(sdk)) == []


def test_installed_clients_with_a_decoder_of_their_own_keep_it() -> None:
    from anthropic import AnthropicBedrock

    with ANTHROPIC.ours.install():
        client = AnthropicBedrock(
            aws_access_key="a", aws_secret_key="b", aws_region="eu-west-1", base_url=UNUSED
        )
        assert not is_ours(ANTHROPIC, client)


@sdks
def test_client_patched_while_installed_stays_patched(sdk: Any) -> None:
    with sdk.ours.install():
        client = sdk.ours.patch(sdk.new(sdk.stock, UNUSED))
    assert is_ours(sdk, client)


def test_anthropic_raw_events_are_ours_when_installed() -> None:
    import anthropic
    import httpx2

    def response() -> httpx2.Response:
        body = b"\xef\xbb\xbfevent: a\n: comment\nnew: field\ndata: 1\r\n\r\n"
        return httpx2.Response(200, content=iter([body]))

    assert fields_of(anthropic.Stream.raw_events(response())) == [(None, "1", None, None)]
    with ANTHROPIC.ours.install():
        (event,) = anthropic.Stream.raw_events(response())
        assert fields_of([event]) == [("a", "1", None, None)]
        assert event.raw == ["event: a", ": comment", "new: field", "data: 1"]

        async def read() -> list[Any]:
            async def body() -> Any:
                yield b"data: 1\n\n"

            raw = anthropic.AsyncStream.raw_events(httpx2.Response(200, content=body()))
            return [event async for event in raw]

        assert fields_of(asyncio.run(read())) == [(None, "1", None, None)]
    assert isinstance(vars(anthropic.Stream)["raw_events"], staticmethod)


# --- LangChain


def test_langchain_models_are_patched_by_their_clients(loopback: Loopback) -> None:
    from langchain_anthropic import ChatAnthropic
    from langchain_openai import AzureChatOpenAI, ChatOpenAI, OpenAI

    chat = url_of(OPENAI, loopback)
    messages = loopback.add(
        [
            b'\xef\xbb\xbfevent: message_start\ndata: {"type":"message_start","message":{"id":"1",'
            b'"type":"message","role":"assistant","model":"m","content":[],"usage":'
            b'{"input_tokens":1,"output_tokens":1}}}\n\n'
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"a\xff"}}\n\n'
        ]
    )
    models: list[Any] = [
        ChatOpenAI(base_url=chat, api_key="none", model="m"),
        AzureChatOpenAI(azure_endpoint=chat, api_key="none", api_version="2024-02-01", model="m"),
        ChatAnthropic(base_url=messages, api_key="none", model_name="m"),
    ]
    for model in models:
        assert seamstream.compat.langchain.patch(model) is model
        expected = "a\ufffd" if isinstance(model, ChatAnthropic) else "a"
        assert "".join(chunk.text for chunk in model.stream("hi")) == expected

        async def read(model: Any = model) -> str:
            try:
                return "".join([chunk.text async for chunk in model.astream("hi")])
            finally:
                is_anthropic = isinstance(model, ChatAnthropic)
                await (model._async_client if is_anthropic else model.root_async_client).close()

        assert asyncio.run(read()) == expected

    completion = OpenAI(base_url=chat, api_key="none", model="m")
    seamstream.compat.langchain.patch(completion)
    assert is_ours(OPENAI, completion.client._client)
    seamstream.compat.langchain.unpatch(completion)
    assert not is_ours(OPENAI, completion.client._client)


def test_langchain_patch_finds_the_clients_that_resources_belong_to() -> None:
    """As the models of langchain-groq hold them."""
    client, asynchronous = GROQ.new(GROQ.stock, UNUSED), GROQ.new(GROQ.stock, UNUSED, is_async=True)
    model = SimpleNamespace(
        client=client.chat.completions, async_client=asynchronous.chat.completions
    )
    assert seamstream.compat.langchain.patch(model) is model
    assert is_ours(GROQ, client)
    assert is_ours(GROQ, asynchronous)
    seamstream.compat.langchain.unpatch(model)
    assert not is_ours(GROQ, client)


def test_langchain_patch_refuses_what_has_no_client() -> None:
    with pytest.raises(TypeError, match="object has no client of openai, anthropic, groq"):
        seamstream.compat.langchain.patch(object())


# --- what the stand-ins stand on


@sdks
def test_sdk_is_of_the_version_that_is_known(sdk: Any) -> None:
    assert version(sdk.name) == sdk.ours.TESTED


@sdks
def test_module_without_its_sdk_says_what_to_install(
    sdk: Any, run_python: Callable[..., str]
) -> None:
    code = f"import sys; sys.modules[{sdk.name!r}] = None; import seamstream.compat.{sdk.name}"
    error = run_python(code=code, fails=True)
    assert (
        f"ImportError: seamstream.compat.{sdk.name} needs {sdk.name}: pip install {sdk.name}"
        in error
    )


HOOK = "BaseClient._make_sse_decoder"


@pytest.mark.parametrize(
    ("sdk", "change", "says"),
    [
        (OPENAI, f"del {HOOK}", f"no openai._base_client.{HOOK}"),
        (ANTHROPIC, f"del {HOOK}", f"no anthropic._base_client.{HOOK}"),
        (GROQ, f"del {HOOK}", f"no groq._base_client.{HOOK}"),
        (GROQ, "del _streaming.ServerSentEvent", "cannot import name 'ServerSentEvent'"),
        (GROQ, "sys.modules['groq._base_client'] = None", "import of groq._base_client halted"),
    ],
    ids=str,
)
def test_module_says_what_has_moved_in_its_sdk(
    sdk: Any, change: str, says: str, run_python: Callable[..., str]
) -> None:
    name = sdk.name
    code = (
        f"import sys, {name}; from {name} import _streaming\n"
        f"from {name}._base_client import BaseClient\n"
        f"{change}\nimport seamstream.compat.{name}"
    )
    error = run_python(code=code, fails=True)
    assert f"{name} {sdk.version} is not as seamstream knows it from {sdk.version}: " in error
    assert says in error


@sdks
def test_install_says_so_when_the_hook_takes_other_parameters(
    sdk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = sdk.ours.BaseClient
    monkeypatch.setattr(base, "_make_sse_decoder", lambda self, response: None)
    now = vars(base)["_make_sse_decoder"]
    with pytest.raises(
        ImportError, match=r"_make_sse_decoder takes \(self, response\), not \(self"
    ):
        sdk.ours.install()
    assert vars(base)["_make_sse_decoder"] is now
