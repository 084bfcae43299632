"""The build that needs no Rust: a py3-none-any wheel, with the decoders in plain Python.

    python -c "import setuptools.build_meta as b; b.build_wheel('dist')"

or `make pure-wheel`. pip and every other frontend take the build backend that pyproject.toml names,
maturin, and never look here.
"""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import find_packages, setup


def version() -> str:
    """The workspace's version, spelt as maturin does: 0.1.0-alpha1 is 0.1.0a1 in Python."""
    manifest = Path("ext", "Cargo.toml").read_text("utf-8")
    found = re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', manifest, re.MULTILINE)
    if found is None:
        raise SystemExit("no version at the head of [workspace.package] in ext/Cargo.toml")
    short = {"alpha": "a", "beta": "b", "rc": "rc"}
    return re.sub(r"-(alpha|beta|rc)\.?(?=\d)", lambda pre: short[pre[1]], found[1])


with TemporaryDirectory() as build:  # nothing of an earlier build comes along, and nothing is left
    setup(
        version=version(),
        package_dir={"": "src"},
        packages=find_packages("src"),
        # Only these: `maturin develop` leaves its compiled module in the same folder.
        package_data={"seamstream": ["_core.pyi", "py.typed"]},
        include_package_data=False,
        options={"build": {"build_base": build}, "egg_info": {"egg_base": build}},
    )
