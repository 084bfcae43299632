"""The examples of docs/coming-from run, the original library's and ours, and print what they say.

A page shows what its server sends in a block ```` ```http ````; the ```` ```python ```` blocks
after it get that from a real server, seven bytes a write, at the address `url`. Below each stands,
in a block ```` ```text ````, what it prints.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from seamstream.testing import FragmentingServer
from shared_folder import PROJECT

PAGES = sorted((PROJECT / "docs" / "coming-from").glob("*.md"))
BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<content>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass
class Example:
    page: Path
    line: int
    answer: str
    code: str
    output: str

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.line}"


def examples_of(page: Path) -> Iterator[Example]:
    text = page.read_text("utf-8")
    answer = ""
    blocks = list(BLOCK.finditer(text))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block["language"] == "http":
            answer = block["content"]
        elif block["language"] == "python":
            line = text.count("\n", 0, block.start()) + 1
            if after is None or after["language"] != "text":
                raise ValueError(f"{page.name}:{line}: what this prints does not stand below it")
            yield Example(page, line, answer, block["content"], after["content"])


EXAMPLES = [example for page in PAGES for example in examples_of(page)]


def serve(answer: str) -> FragmentingServer:
    head, _, body = answer.partition("\n\n")
    status, *fields = head.splitlines()
    assert status == "HTTP/1.1 200 OK"
    headers = dict(field.split(": ", 1) for field in fields)
    assert headers.keys() == {"Content-Type"}
    return FragmentingServer(body.encode(), write_size=7, content_type=headers["Content-Type"])


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_example_prints_what_is_written_below_it(example: Example) -> None:
    output = io.StringIO()
    with serve(example.answer) as server, contextlib.redirect_stdout(output):
        # Its line numbers are those of the page.
        code = "\n" * example.line + example.code
        exec(compile(code, example.page.name, "exec"), {"__name__": "example", "url": server.url})
    assert output.getvalue() == example.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_shows_the_code_before_and_after(page: Path) -> None:
    before, after, *_ = [example for example in EXAMPLES if example.page == page]
    assert "seamstream" not in before.code
    assert "seamstream" in after.code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_links_to_files_that_exist(page: Path) -> None:
    for name in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8")):
        assert (page.parent / name).is_file(), name
