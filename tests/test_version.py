"""The version is stated once, in ext/Cargo.toml, and everything else agrees."""

from __future__ import annotations

import importlib
import importlib.metadata
import re

import seamstream
from conftest import Implementation
from shared_folder import PROJECT


def stated_version() -> str:
    """The workspace's version. A regular expression, for 3.10 has no TOML parser."""
    manifest = (PROJECT / "ext" / "Cargo.toml").read_text("utf-8")
    section = manifest.split("[workspace.package]")[1].split("\n[")[0]
    (version,) = re.findall(r'^version = "([^"]+)"', section, re.MULTILINE)
    return str(version)


def as_python_version(version: str) -> str:
    """What maturin makes of a Cargo version: 0.1.0-alpha1 becomes 0.1.0a1."""
    names = {"alpha": "a", "beta": "b", "rc": "rc"}
    return re.sub(r"-(alpha|beta|rc)\.?(\d+)$", lambda found: names[found[1]] + found[2], version)


def test_cargo_versions_translate_to_python_versions() -> None:
    assert as_python_version("0.1.0") == "0.1.0"
    assert as_python_version("0.1.0-alpha1") == "0.1.0a1"
    assert as_python_version("1.2.3-rc.2") == "1.2.3rc2"


def test_version_of_the_installed_package_is_the_stated_one() -> None:
    assert importlib.metadata.version("seamstream") == as_python_version(stated_version())
    assert seamstream.__version__ == as_python_version(stated_version())


def test_version_of_the_compiled_module_is_the_stated_one(compiled: Implementation) -> None:
    assert compiled.name == "rust"
    core = importlib.import_module("seamstream._core")
    assert core.__version__ in (stated_version(), as_python_version(stated_version()))


def test_version_is_stated_nowhere_else() -> None:
    project = (PROJECT / "pyproject.toml").read_text("utf-8")
    assert 'dynamic = ["version"]' in project
    assert not re.search(r"^version\s*=", project, re.MULTILINE)
    for manifest in (PROJECT / "ext").glob("seamstream*/Cargo.toml"):
        assert re.search(r"^version\.workspace = true", manifest.read_text("utf-8"), re.MULTILINE)


def test_version_has_its_place_in_the_changelog() -> None:
    changelog = (PROJECT / "CHANGELOG.md").read_text("utf-8")
    version = re.escape(as_python_version(stated_version()))
    assert re.search(rf"^## \[?{version}\b|^## \[?Unreleased\b", changelog, re.MULTILINE)
