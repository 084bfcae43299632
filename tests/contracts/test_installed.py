"""What `install` replaces in other libraries, what it gives, and that it goes without a trace."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fragmentations import byte_by_byte, of_size, random_cuts, two_way_splits
from loopback import Answer, Loopback
from sdks import ENTRIES, body_of, one_event_a_chunk
from seamstream import LimitExceededError, Limits

SIZES = (1, 16, 64, 1460, None)

# What the libraries themselves are warned of.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Items? .* on TypedDict class:UserWarning"),
]


@pytest.fixture(scope="module")
def loopback() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def offline() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else the import asks the network
        yield


def entries_of(*dialects: str) -> list[dict[str, Any]]:
    return [entry for entry in ENTRIES if entry["api"] in dialects]


def fragmented(body: bytes, turn: int) -> list[bytes]:
    size = SIZES[turn % len(SIZES)]
    if size is not None and len(body) > size * 1000:
        size = 1460
    return one_event_a_chunk(body) if size is None else of_size(body, size)


# --- every module

DISTRIBUTIONS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "groq": "groq",
    "mistralai": "mistralai",
    "google_genai": "google-genai",
    "mcp": "mcp",
    "a2a": "a2a-sdk",
    "litellm": "litellm",
}
modules = pytest.mark.parametrize("name", DISTRIBUTIONS)


def module_of(name: str) -> Any:
    return importlib.import_module(f"seamstream.compat.{name}")


def installation_of(name: str) -> Any:
    return module_of(name).install.__self__


def standing(installation: Any) -> list[object]:
    """The objects that stand where `install` replaces."""
    found = []
    for private in installation.names:
        owner = importlib.import_module(private.module)
        *classes, attribute = private.path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        found.append(vars(owner)[attribute])
    return found


@modules
def test_install_replaces_and_uninstall_puts_back_the_very_objects(name: str) -> None:
    module, installation = module_of(name), installation_of(name)
    before = standing(installation)
    module.uninstall()  # nothing yet
    module.install()
    after = standing(installation)
    assert all(new is not old for new, old in zip(after, before, strict=True))
    module.install()
    assert all(new is old for new, old in zip(standing(installation), after, strict=True))
    module.uninstall()
    assert all(new is old for new, old in zip(standing(installation), before, strict=True))
    module.uninstall()
    assert all(new is old for new, old in zip(standing(installation), before, strict=True))


@modules
def test_install_is_a_context_manager_that_undoes_what_it_did(name: str) -> None:
    module, installation = module_of(name), installation_of(name)
    before = standing(installation)
    with module.install():
        after = standing(installation)
        with module.install():
            pass
        assert standing(installation) == after != before
    assert standing(installation) == before
    with pytest.raises(KeyError), module.install():
        raise KeyError
    assert standing(installation) == before


@modules
def test_install_lasts_as_long_as_any_of_the_blocks_that_overlap(name: str) -> None:
    module, installation = module_of(name), installation_of(name)
    before = standing(installation)
    first, second = module.install(), module.install()
    with ExitStack() as outlasting:
        with first:
            after = standing(installation)
            outlasting.enter_context(second)
        assert standing(installation) == after != before
    assert standing(installation) == before


@modules
def test_block_finds_all_installed_though_another_has_ended_meanwhile(name: str) -> None:
    module, installation = module_of(name), installation_of(name)
    before = standing(installation)
    with module.install():
        after = standing(installation)
        later = module.install()  # and another thread has its turn
    assert standing(installation) == before
    with later:
        assert [type(each) for each in standing(installation)] == [type(each) for each in after]
        assert all(new is not old for new, old in zip(standing(installation), before, strict=True))
    assert standing(installation) == before


@modules
def test_block_does_not_undo_a_later_install(name: str) -> None:
    module, installation = module_of(name), installation_of(name)
    before = standing(installation)
    with module.install():
        module.uninstall()
        assert standing(installation) == before
        module.install()
    assert standing(installation) != before
    with module.install():
        pass
    assert standing(installation) != before
    module.uninstall()
    assert standing(installation) == before


@modules
def test_module_knows_the_library_of_the_lock_file(name: str) -> None:
    assert version(DISTRIBUTIONS[name]) == module_of(name).TESTED


@modules
def test_install_says_what_has_moved_and_replaces_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = installation_of(name)
    for private in installation.names:
        before = standing(installation)
        *classes, attribute = private.path.split(".")
        owner = importlib.import_module(private.module)
        for each in classes:
            owner = getattr(owner, each)
        with monkeypatch.context() as patch:
            patch.delattr(owner, attribute)
            with pytest.raises(ImportError) as caught:
                module_of(name).install()
        known = module_of(name).TESTED
        assert str(caught.value) == (
            f"{DISTRIBUTIONS[name]} {known} is not as seamstream knows it from {known}:"
            f" no {private}"
        )
        assert standing(installation) == before


@modules
def test_uninstall_does_not_undo_what_came_after_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, installation = module_of(name), installation_of(name)
    private = installation.names[0]
    *classes, attribute = private.path.split(".")
    owner = importlib.import_module(private.module)
    for each in classes:
        owner = getattr(owner, each)
    with module.install(), monkeypatch.context() as patch:
        patch.setattr(owner, attribute, lambda self: None)
        with pytest.raises(RuntimeError, match=f"{private.path} was replaced once more"):
            module.uninstall()


ABSENT = """
import importlib.metadata, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if (name + ".").startswith({library!r} + "."):
            raise ModuleNotFoundError(name=name)
def version(name, original=importlib.metadata.version):
    if name == {distribution!r}:
        raise importlib.metadata.PackageNotFoundError(name)
    return original(name)
importlib.metadata.version = version
sys.meta_path.insert(0, Absent())
import seamstream.compat.{name} as module
module.install()
"""


@pytest.mark.parametrize(
    ("name", "library"),
    [("mistralai", "mistralai"), ("google_genai", "google.genai"), ("a2a", "a2a"), ("mcp", "mcp")],
)
def test_install_without_the_library_says_what_to_install(
    name: str, library: str, run_python: Callable[..., str]
) -> None:
    distribution = DISTRIBUTIONS[name]
    code = ABSENT.format(name=name, library=library, distribution=distribution)
    error = run_python(code=code, fails=True)
    assert f"ImportError: {distribution} is not installed: pip install {distribution}" in error


def test_install_says_so_when_a_function_takes_other_parameters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import a2a.client.transports.http_helpers as helpers

    monkeypatch.setattr(helpers, "parse_sse_stream", lambda response, limit: None)
    with pytest.raises(ImportError, match=r"takes \(response, limit\), not \(response\)"):
        module_of("a2a").install()


@pytest.mark.parametrize("there", [None, 5, max, object()])
def test_install_says_so_when_a_function_is_something_else(
    there: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    import a2a.client.transports.http_helpers as helpers

    monkeypatch.setattr(helpers, "parse_sse_stream", there)
    with pytest.raises(ImportError, match=r"is not as seamstream knows it .*parse_sse_stream"):
        module_of("a2a").install()
    assert helpers.parse_sse_stream is there


@pytest.mark.parametrize("there", [None, 5, "text"])
def test_install_says_so_when_a_class_is_something_else(
    there: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.genai import _api_client

    monkeypatch.setattr(_api_client, "HttpResponse", there)
    with pytest.raises(ImportError, match=r"no google\.genai\._api_client\.HttpResponse\._iter"):
        module_of("google_genai").install()


def test_install_says_so_when_a_name_cannot_be_replaced_and_replaces_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from google.genai import _api_client

    class HalfFrozen(type):
        def __setattr__(cls, name: str, value: object) -> None:
            if name == "_aiter_response_stream":
                raise TypeError("cannot set an attribute of an immutable type")
            super().__setattr__(name, value)

    class Compiled(metaclass=HalfFrozen):
        def _iter_response_stream(self) -> None: ...
        def _aiter_response_stream(self) -> None: ...

    before = dict(vars(Compiled))
    monkeypatch.setattr(_api_client, "HttpResponse", Compiled)
    with pytest.raises(ImportError, match=r"_aiter_response_stream cannot be replaced"):
        module_of("google_genai").install()
    assert dict(vars(Compiled)) == before
    module_of("google_genai").uninstall()  # nothing is there


def test_importing_a_module_imports_no_library(run_python: Callable[..., str]) -> None:
    lazy = ["mistralai", "google_genai", "a2a", "langchain"]
    code = "import sys\n" + "\n".join(f"import seamstream.compat.{name}" for name in lazy)
    imported = run_python(code=code + "\nprint(*sys.modules)").split()
    assert {"mistralai", "google", "a2a", "langchain_core", "httpx"}.isdisjoint(imported)


# --- Mistral AI


def mistral_outcome(url: str) -> list[Any]:
    from mistralai.client import Mistral

    with Mistral(api_key="none", server_url=url) as client:
        found: list[Any] = []
        try:
            with client.chat.stream(model="m", messages=[]) as stream:
                found += [item.model_dump() for item in stream]
        except Exception as error:
            found.append((type(error).__qualname__, str(error).partition("\n")[0]))
        return found


async def mistral_async_outcome(url: str) -> list[Any]:
    from mistralai.client import Mistral

    async with Mistral(api_key="none", server_url=url) as client:
        stream = await client.chat.stream_async(model="m", messages=[])
        async with stream:
            return [item.model_dump() async for item in stream]


@pytest.mark.needs_shared
def test_mistral_gives_the_same_objects(loopback: Loopback) -> None:
    entries = [entry for entry in ENTRIES if entry["family"] == "mistral"]
    assert len(entries) == 10
    for turn, entry in enumerate(entries):
        body = body_of(entry)
        expected = mistral_outcome(loopback.add([body]))
        assert len(expected) > 1
        url = loopback.add(fragmented(body, turn))
        with module_of("mistralai").install():
            assert mistral_outcome(url) == expected, entry["file"]
            assert asyncio.run(mistral_async_outcome(url)) == expected


class Recorder:
    """A response that hands over chunks, and says whether it was closed."""

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks, self.is_closed = chunks, False

    def iter_bytes(self) -> Iterator[bytes]:
        yield from self.chunks

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk

    def close(self) -> None:
        self.is_closed = True

    async def aclose(self) -> None:
        self.is_closed = True


SPEAKEASY = ("mistralai.client.utils.eventstreaming", "google.genai._gaos.utils.eventstreaming")


@pytest.fixture(params=SPEAKEASY)
def speakeasy(request: pytest.FixtureRequest) -> ModuleType:
    """A module that both libraries have from the same generator."""
    return importlib.import_module(request.param)


def speakeasy_outcome(module: Any, chunks: list[bytes], **options: Any) -> list[Any]:
    response = Recorder(chunks)
    found = list(module.stream_events(response, json.loads, **options))
    assert response.is_closed
    return found


@pytest.fixture
def both_installed() -> Iterator[None]:
    with module_of("mistralai").install(), module_of("google_genai").install():
        yield


WELL_FORMED = [
    "data: {}\n\n",
    "event: a\ndata: [1.50, 123456789012345678901]\n\n",
    "id: 1\ndata: text\n\ndata: more\n\n",
    "data: {\ndata: }\n\n",
    ": ping\n\ndata: 縫\u2028い\x85\n\n",
    "retry: 5\ndata: null\n\n",
    'data: "text"\n\ndata: -0\n\ndata: NaN\n\n',
    "data:\n\nevent: x\n\nid: 2\n\nretry: 7\n\n: only\n\n\n\ndata: 1\n\n",
    'data: {"a": "\\ud800"}\n\n',
    "data: 1\n\ndata: [DONE]\n\ndata: 2\n\n",
    "data: [DONE]\ndata:\n\ndata:  [DONE]\n\n",
    "data: unended",
    "data: 1\r\n\r\ndata: 2\r\rdata: 3\n\n",
]


@pytest.mark.parametrize("body", WELL_FORMED)
@pytest.mark.parametrize("data_required", [True, False])
@pytest.mark.parametrize("sentinel", ["[DONE]", None])
def test_speakeasy_streams_give_the_same_values(
    speakeasy: Any, body: str, data_required: bool, sentinel: str | None
) -> None:
    options = {"sentinel": sentinel, "data_required": data_required}
    sent = body.encode()
    expected = speakeasy_outcome(speakeasy, [sent], **options)
    with module_of("mistralai").install(), module_of("google_genai").install():
        for chunks in ([sent], byte_by_byte(sent), random_cuts(sent, 1, mean=4)):
            found = speakeasy_outcome(speakeasy, chunks, **options)
            assert repr(found) == repr(expected)

            async def read(chunks: list[bytes] = chunks) -> list[Any]:
                response = Recorder(chunks)
                stream = speakeasy.stream_events_async(response, json.loads, **options)
                found = [item async for item in stream]
                assert response.is_closed
                return found

            assert repr(asyncio.run(read())) == repr(expected)


def test_speakeasy_streams_replace_ill_formed_text(speakeasy: Any) -> None:
    body = b'data: {"a": "\xff"}\n\ndata: 2\n\n'
    with pytest.raises(UnicodeDecodeError):
        speakeasy_outcome(speakeasy, [body])
    with module_of("mistralai").install(), module_of("google_genai").install():
        for chunks in two_way_splits(body):
            assert speakeasy_outcome(speakeasy, chunks) == [{"data": {"a": "\ufffd"}}, {"data": 2}]


@pytest.mark.parametrize(
    ("block", "stock", "ours"),
    [
        ("id:\ndata: 1", [{"id": "", "data": 1}], [{"data": 1}]),
        ("event\ndata: 1", [{"event": "", "data": 1}], [{"data": 1}]),
        ("id:", [{"id": ""}], []),
        ("event:", [{"event": ""}], []),
        ("id: a\0", [{}], []),
        ("retry: soon", [{}], []),
        ("retry: ٣\ndata: 1", [{"data": 1, "retry": 3}], [{"data": 1}]),
        (
            "retry: 9007199254740993\ndata: 1",
            [{"data": 1, "retry": 2**53 + 1}],
            [{"data": 1, "retry": 2**53 - 1}],
        ),
    ],
)
def test_speakeasy_streams_follow_the_standard_in_fields_without_a_meaning(
    speakeasy: Any, block: str, stock: list[Any], ours: list[Any]
) -> None:
    body = f"{block}\n\n".encode()
    assert speakeasy_outcome(speakeasy, [body], data_required=False) == stock
    with module_of("mistralai").install(), module_of("google_genai").install():
        for chunks in two_way_splits(body):
            assert speakeasy_outcome(speakeasy, chunks, data_required=False) == ours


def test_speakeasy_streams_drop_a_cut_byte_order_mark(speakeasy: Any) -> None:
    body = b"\xef\xbb\xbfdata: 1\n\n"
    assert speakeasy_outcome(speakeasy, byte_by_byte(body)) == []
    with module_of("mistralai").install(), module_of("google_genai").install():
        for chunks in two_way_splits(body):
            assert speakeasy_outcome(speakeasy, chunks) == [{"data": 1}]


def test_speakeasy_stream_is_closed_when_it_is_left(speakeasy: Any) -> None:
    with module_of("mistralai").install(), module_of("google_genai").install():
        response = Recorder([b"data: 1\n\ndata: 2\n\n"])
        stream = speakeasy.stream_events(response, json.loads)
        next(stream)
        stream.close()
        assert response.is_closed


# --- Google Gen AI


def gemini_request(url: str) -> dict[str, Any]:
    return {"model": "m", "contents": "hi", "config": {"http_options": {"base_url": url}}}


def as_fields(item: Any) -> Any:
    return item.model_dump(exclude={"sdk_http_response"}, warnings=False)


def gemini_outcome(client: Any, url: str) -> list[Any]:
    found: list[Any] = []
    try:
        for item in client.models.generate_content_stream(**gemini_request(url)):
            found.append(as_fields(item))  # noqa: PERF401
    except Exception as error:
        found.append((type(error).__qualname__, str(error)))
    return found


async def gemini_async_outcome(client: Any, url: str) -> list[Any]:
    found: list[Any] = []
    try:
        async for item in await client.models.generate_content_stream(**gemini_request(url)):
            found.append(as_fields(item))  # noqa: PERF401
    except Exception as error:
        found.append((type(error).__qualname__, str(error)))
    return found


@pytest.mark.needs_shared
def test_gemini_gives_the_same_objects(loopback: Loopback) -> None:
    from google import genai

    entries = entries_of("gemini")
    assert len(entries) == 71
    client = genai.Client(api_key="none", http_options={"base_url": "http://unused"})
    expected = [gemini_outcome(client, loopback.add([body_of(entry)])) for entry in entries]
    assert sum(map(len, expected)) > 300
    urls = [loopback.add(fragmented(body_of(entry), turn)) for turn, entry in enumerate(entries)]

    async def read_all() -> None:
        async with client.aio as asynchronous:
            for url, entry, objects in zip(urls, entries, expected, strict=True):
                found = await gemini_async_outcome(asynchronous, url)
                assert found == objects, entry["file"]

    with module_of("google_genai").install():
        for url, entry, objects in zip(urls, entries, expected, strict=True):
            assert gemini_outcome(client, url) == objects, entry["file"]
        asyncio.run(read_all())
    client.close()


def gemini_texts(chunks: list[bytes]) -> list[str]:
    """What the SDK gets to parse as JSON."""
    import httpx
    from google.genai._api_client import HttpResponse

    response = httpx.Response(200, content=iter(chunks))
    return list(HttpResponse({}, response_stream=response)._iter_response_stream())


def gemini_async_texts(chunks: list[bytes]) -> list[str]:
    import httpx
    from google.genai._api_client import HttpResponse

    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def read() -> list[str]:
        response = httpx.Response(200, content=source())
        stream = HttpResponse({}, response_stream=response)
        texts = [text async for text in stream._aiter_response_stream()]
        assert response.is_closed
        return texts

    return asyncio.run(read())


ERROR = '{\n  "error": {\n    "code": 503,\n    "message": "a } b"\n  }\n}\n'


@pytest.mark.parametrize(
    "body",
    [
        'data: {"a": 1}\r\n\r\ndata: {"b": 2}\r\n\r\n',
        'data: {"a": 1}\n\ndata: {"b": 2}\n\n',
        'data: {"a":\ndata: 1}\r\r',
        'data: {"t": "x\u2028y縫"}\n\n',
        ERROR,
        ERROR.strip(),
        'data: {"a": 1}\n\n' + ERROR,
        'data: {"a": 1}\n\n' + ERROR + '\ndata: {"b": 2}\n\n',
        '{"error": {}}',
        'data: {"a": 1}',
        '{"error": {',
        "upstream error\n",
        "<html>\n",
        "<html>\r\n</html>",
        "1234\n",
        '[{"error": 1}, 23]\r\n\r\ndata: {"b": 2}\n\n',
        '{"error": {}}{"error": {}}\n',
        'data: {"a":\n{"error": {}}\ndata: 1}\n\n',
        'data: {"a":\r\n{"error": {}}\r\ndata: 1}\r\n\r\n',
        'data: 1\r{"error":\n1}\n\ndata: 2\n\n',
        '{"error":\ndata: {"a": 1}\n\n1}\ndata: 2\n\n',
        '{"a"\n: {"b": "\\"}"}}\n',
        "data: 1\n\ndat",
        "",
    ],
)
def test_gemini_texts_are_those_of_the_sdk(body: str) -> None:
    sent = body.encode()
    expected = gemini_texts([sent])
    with module_of("google_genai").install():
        for chunks in [*two_way_splits(sent), byte_by_byte(sent)]:
            for read in (gemini_texts, gemini_async_texts):
                assert read(chunks) == expected, chunks


LINES = st.sampled_from(
    [
        "",
        'data: {"a":',
        "data: 1}",
        "data: ",
        "{",
        '"error": 1',
        "}",
        '  "text": "}\\"{"',
        '{"unended',
        'backslash at the end of a "string\\',
        "[1]",
        "縫い",
        "dat",
    ]
)
ENDS = st.sampled_from(["\n", "\r", "\r\n"])


@given(
    st.lists(st.tuples(LINES, ENDS).map("".join)).map("".join),
    st.booleans(),
    st.integers(min_value=0, max_value=2**32),
)
def test_gemini_texts_of_any_lines_are_those_of_the_sdk(body: str, cut: bool, seed: int) -> None:
    sent = (body[:-1] if cut else body).encode()
    expected = gemini_texts([sent])
    with module_of("google_genai").install():
        assert gemini_texts(byte_by_byte(sent)) == expected
        assert gemini_texts(random_cuts(sent, seed, mean=4)) == expected


def test_gemini_error_that_outgrows_the_limit_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("seamstream.compat.google_genai.LIMITS", Limits(max_event_bytes=8))
    sent = b"data: 1\n\n{\n  1234"
    with module_of("google_genai").install():
        for chunks in [*two_way_splits(sent), byte_by_byte(sent)]:
            assert gemini_texts(chunks) == ["1", "{  1234"]
            with pytest.raises(LimitExceededError) as caught:
                gemini_texts([*chunks, b"5"])
            assert (caught.value.limit, caught.value.offset) == (8, 17)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('data:{"a": 1}\n\n', ['{"a": 1}']),
        (': ping\n\nevent: x\nid: 7\nretry: 5\ndata: {"a": 1}\n\n', ['{"a": 1}']),
        ('\ufeffdata: {"a": 1}\n\n', ['{"a": 1}']),
        ("data: 1\ndata", ["1\n"]),
    ],
)
def test_gemini_texts_follow_the_standard_where_the_sdk_does_not(
    body: str, expected: list[str]
) -> None:
    sent = body.encode()
    assert gemini_texts([sent]) != expected
    with module_of("google_genai").install():
        for chunks in [*two_way_splits(sent), byte_by_byte(sent)]:
            assert gemini_texts(chunks) == expected, chunks


def test_gemini_stream_object_of_another_kind_raises_what_it_raised() -> None:
    from google.genai._api_client import HttpResponse

    response: Any = HttpResponse({}, response_stream=object())
    with module_of("google_genai").install(), pytest.raises(TypeError, match=r"httpx\.Response"):
        list(response._iter_response_stream())


# --- A2A


def a2a_outcome(*urls: str) -> list[list[tuple[str, str]]]:
    import httpx
    from a2a.client.transports import http_helpers

    async def read() -> list[list[tuple[str, str]]]:
        found = []
        async with httpx.AsyncClient() as client:
            for url in urls:
                async with client.stream("GET", url) as response:
                    pairs = http_helpers.parse_sse_stream(response)
                    found.append([pair async for pair in pairs])
        return found

    return asyncio.run(read())


@pytest.mark.needs_shared
def test_a2a_gives_the_same_events(loopback: Loopback) -> None:
    bodies = [body_of(entry) for entry in entries_of("jsonrpc", "other", "messages")]
    bodies = [body for body in bodies if body.isascii()]  # it breaks at U+0085 and U+2028
    assert len(bodies) > 40
    expected = a2a_outcome(*[loopback.add([body]) for body in bodies])
    urls = [loopback.add(fragmented(body, turn)) for turn, body in enumerate(bodies)]
    with module_of("a2a").install():
        assert a2a_outcome(*urls) == expected


def test_a2a_keeps_text_with_line_separators_whole(loopback: Loopback) -> None:
    body = 'data: {"text": "a\u2028b\x85c\x0bd"}\n\ndata: 2\n\n'.encode()
    (stock,) = a2a_outcome(loopback.add([body]))
    assert stock[0][1] != '{"text": "a\u2028b\x85c\x0bd"}'
    with module_of("a2a").install():
        (found,) = a2a_outcome(loopback.add(byte_by_byte(body)))
    assert found == [("message", '{"text": "a\u2028b\x85c\x0bd"}'), ("message", "2")]


def test_a2a_says_in_the_log_what_the_end_of_a_stream_cut(
    loopback: Loopback, caplog: pytest.LogCaptureFixture
) -> None:
    url = loopback.add([b"data: 1\n\ndata: cut"])
    with module_of("a2a").install(), caplog.at_level("WARNING", "seamstream.compat"):
        assert a2a_outcome(url) == [[("message", "1")]]
    (record,) = caplog.records
    assert record.name == "seamstream.compat"
    assert record.args == (9, 9)


def test_a2a_drops_a_byte_order_mark(loopback: Loopback) -> None:
    url = loopback.add(byte_by_byte(b"\xef\xbb\xbfdata: 1\n\n"))
    assert a2a_outcome(url) == [[]]
    with module_of("a2a").install():
        assert a2a_outcome(url) == [[("message", "1")]]


def test_a2a_takes_no_charset_and_no_empty_event_type(loopback: Loopback) -> None:
    body = "event:\ndata: é\n\n".encode()
    answer = Answer([body], content_type="text/event-stream; charset=iso-8859-1")
    url = loopback.add(answer)
    assert a2a_outcome(url) == [[("", "Ã©")]]
    with module_of("a2a").install():
        assert a2a_outcome(url) == [[("message", "é")]]


def test_a2a_request_reads_its_stream_through_ours(loopback: Loopback) -> None:
    import httpx
    from a2a.client.errors import A2AClientError
    from a2a.client.transports.http_helpers import send_http_stream_request

    async def read(url: str) -> list[str]:
        async with httpx.AsyncClient() as client:
            return [data async for data in send_http_stream_request(client, "POST", url)]

    url = loopback.add(["data: a\u2028b\n\n".encode()])
    with module_of("a2a").install():
        assert asyncio.run(read(url)) == ["a\u2028b"]
        with pytest.raises(A2AClientError, match="busy"):
            asyncio.run(read(loopback.add([b"event: error\ndata: busy\n\n"])))


# --- LiteLLM


def litellm_lines(chunks: list[str]) -> list[str]:
    from litellm.llms.custom_httpx.sse_lines import iter_sse_lines

    return list(iter_sse_lines(iter(chunks)))


@pytest.mark.needs_shared
def test_litellm_gives_the_same_lines() -> None:
    texts = [body_of(entry).decode() for entry in ENTRIES]
    expected = [litellm_lines([text]) for text in texts]
    with module_of("litellm").install():
        for turn, text in enumerate(texts):
            size = 50 + turn % 9
            cut = [text[at : at + size] for at in range(0, len(text), size)]
            assert litellm_lines(cut) == expected[turn]


def test_litellm_drops_a_byte_order_mark() -> None:
    assert litellm_lines(["\ufeffdata: 1\n", "\n"])[0] == "\ufeffdata: 1"
    with module_of("litellm").install():
        assert litellm_lines(["", "\ufeff", "data: \ufeff\r", "\n\r\nx"]) == [
            "data: \ufeff",
            "",
            "x",
        ]


def litellm_request(url: str) -> dict[str, Any]:
    return {
        "model": "openai/gpt-4o",
        "input": "hi",
        "stream": True,
        "api_base": url,
        "api_key": "none",
        "max_retries": 0,
    }


def litellm_outcome(url: str) -> list[Any]:
    import litellm

    found: list[Any] = []
    try:
        for item in litellm.responses(**litellm_request(url)):
            found.append(item.model_dump(warnings=False))  # noqa: PERF401
    except Exception as error:
        found.append((type(error).__qualname__, str(error)))
    return found


async def litellm_async_outcome(url: str) -> list[Any]:
    import litellm

    found: list[Any] = []
    try:
        async for item in await litellm.aresponses(**litellm_request(url)):
            found.append(item.model_dump(warnings=False))  # noqa: PERF401
    except Exception as error:
        found.append((type(error).__qualname__, str(error)))
    return found


RESPONSES = [entry for entry in entries_of("responses") if len(body_of(entry)) < 20_000][:12]


@pytest.mark.needs_shared
def test_litellm_responses_give_the_same_objects(loopback: Loopback) -> None:
    assert len(RESPONSES) == 12
    for turn, entry in enumerate(RESPONSES):
        body = body_of(entry)
        expected = without_stamps(litellm_outcome(loopback.add([body])))
        assert len(expected) > 1
        url = loopback.add(fragmented(body, turn))
        with module_of("litellm").install():
            assert without_stamps(litellm_outcome(url)) == expected, entry["file"]


def without_stamps(found: list[Any]) -> list[Any]:
    """Leave out what LiteLLM makes anew for each call: ids that it encodes, and times."""

    def clean(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: clean(v) for k, v in value.items() if k not in ("id", "item_id")}
        return [clean(each) for each in value] if isinstance(value, list) else value

    return [clean(each) for each in found]


def test_litellm_responses_survive_ill_formed_text(loopback: Loopback) -> None:
    delta = (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
        b'"item_id":"1","output_index":0,"content_index":0,"sequence_number":1,"delta":"a\xff"}\n\n'
    )
    url = loopback.add([b"\xef\xbb\xbf" + delta])
    (stock,) = litellm_outcome(url)
    assert stock[0] == "UnicodeDecodeError"
    with module_of("litellm").install():
        for found in (litellm_outcome(url), asyncio.run(litellm_async_outcome(url))):
            item, ended = found  # and then LiteLLM misses the event that ends a response
            assert item["delta"] == "a\ufffd"
            assert "before any terminal event" in ended[1]


# --- MCP


def mcp_outcome(connect: Callable[[], Any], request_id: int) -> list[Any]:
    """The messages that a client gets, up to the answer to its request."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCRequest

    async def read() -> list[Any]:
        found: list[Any] = []
        request = JSONRPCRequest(jsonrpc="2.0", id=request_id, method="tools/list", params={})
        with anyio.fail_after(20):
            async with connect() as (receive, send, *_):
                await send.send(SessionMessage(request))
                async for received in receive:
                    if isinstance(received, Exception):
                        raise received
                    message = received.message
                    found.append(message.model_dump())
                    if getattr(message, "id", None) == request_id:
                        return found
        return found

    return asyncio.run(read())


def mcp_over_http(url: str, request_id: int) -> list[Any]:
    from mcp.client.streamable_http import streamable_http_client

    return mcp_outcome(lambda: streamable_http_client(url), request_id)


@pytest.mark.needs_shared
def test_mcp_gives_the_same_messages(loopback: Loopback) -> None:
    entries = entries_of("jsonrpc")
    assert len(entries) == 8
    for turn, entry in enumerate(entries):
        body = body_of(entry)
        (request_id,) = {int(found) for found in re.findall(rb'"id":([0-9]+)', body)}
        expected = mcp_over_http(loopback.add([body]), request_id)
        assert expected[-1]["id"] == request_id
        url = loopback.add(fragmented(body, turn))
        with module_of("mcp").install():
            assert mcp_over_http(url, request_id) == expected, entry["file"]


ANSWER = 'event: message\ndata: {"jsonrpc":"2.0","id":1,"result":{"text":"縫い 目"}}\n\n'


def test_mcp_answer_is_not_lost_to_a_byte_order_mark(loopback: Loopback) -> None:
    url = loopback.add(byte_by_byte(("\ufeff" + ANSWER.removeprefix("event: message\n")).encode()))
    with module_of("mcp").install():
        (message,) = mcp_over_http(url, 1)
    assert message["result"] == {"text": "縫い 目"}


def test_mcp_over_the_older_transport_is_read_by_ours_too(loopback: Loopback) -> None:
    from mcp.client.sse import sse_client

    messages = loopback.add(Answer([b"{}"], content_type="application/json"))
    path = messages[messages.rindex("/") :]
    body = f"\ufeffevent: endpoint\ndata: {path}\n\n{ANSWER}"
    url = loopback.add(byte_by_byte(body.encode()))
    with module_of("mcp").install():
        (message,) = mcp_outcome(lambda: sse_client(url), 1)
    assert message["result"] == {"text": "縫い 目"}
