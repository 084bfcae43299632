"""The compiled module builds for every Python that it is to run on, whichever of them are here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

EXT = Path(__file__).resolve().parents[2] / "ext"


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        *((f"3.{minor}", "") for minor in range(10, 15)),
        ("3.14", "Py_GIL_DISABLED"),
        ("3.13", "Py_DEBUG,Py_REF_DEBUG"),
    ],
)
def test_module_compiles_without_a_warning(tmp_path: Path, version: str, flags: str) -> None:
    config = tmp_path / "pyo3.txt"
    facts = {
        "implementation": "CPython",
        "version": version,
        "shared": "true",
        "pointer_width": "64",
        "build_flags": flags,
        "suppress_build_script_link_lines": "true",
    }
    config.write_text("".join(f"{name}={fact}\n" for name, fact in facts.items()))
    command = "cargo clippy --quiet --locked --package seamstream-python --target-dir"
    finished = subprocess.run(
        [*command.split(), str(EXT / "target" / "interpreters"), "--", "--deny", "warnings"],
        capture_output=True,
        check=False,
        cwd=EXT,
        encoding="utf-8",
        env=os.environ | {"PYO3_CONFIG_FILE": str(config)},
        timeout=600,
    )
    assert finished.returncode == 0, finished.stderr
