"""The examples of the README run, and print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from seamstream.cli import main

README = Path(__file__).resolve().parent.parent / "README.md"
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
EXAMPLES = list(EXAMPLE.finditer(README.read_text("utf-8")))


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_readme_example_prints_what_is_written_below_it(example: re.Match[str]) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example["code"], "README.md", "exec"), {"__name__": "example"})
    assert output.getvalue() == example["output"]


def test_readme_shows_what_the_demonstration_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (excerpt,) = re.findall(r"```text\n(    sent .*?)```", README.read_text("utf-8"), re.DOTALL)
    assert main(["demo"]) == 0
    assert excerpt in capsys.readouterr().out


def test_readme_states_the_output_of_every_example() -> None:
    assert len(EXAMPLES) == README.read_text("utf-8").count("```python\n") >= 3


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8")))
def test_readme_links_to_files_that_exist(name: str) -> None:
    assert (README.parent / name).is_file()
