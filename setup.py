"""The build that needs no Rust. `SEAMSTREAM_BUILD` chooses what it makes:

* unset, a py3-none-any wheel, with the decoders in plain Python (`make pure-wheel`):
  `python -c "import setuptools.build_meta as b; b.build_wheel('dist')"`
* `cython`, the package `seamstream_cyref` (`make cyref`), which is those decoders compiled by
  Cython, for the benchmarks and never published:
  `SEAMSTREAM_BUILD=cython python setup.py build_ext --build-lib build/cyref`

pip and every other frontend take the build backend that pyproject.toml names, maturin, and never
look here.
"""

import ast
import os
import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Extension, find_packages, setup

FLAGS = (
    ["-g0"] if os.name == "posix" else []
)  # debugging symbols are a quarter of the time it takes
# A .pxd file cannot declare the local variables of a generator.
GENERATOR_LOCALS = {
    "SSEDecoder._scan": "chunk=bytes, "
    + ", ".join(
        f"{name}=cython.Py_ssize_t"
        for name in ("base", "position", "size", "lf", "cr", "end", "line", "excess")
    )
}


def version() -> str:
    """The workspace's version, spelt as maturin does: 0.1.0-alpha1 is 0.1.0a1 in Python."""
    manifest = Path("ext", "Cargo.toml").read_text("utf-8")
    found = re.search(r'^\[workspace\.package\]\nversion = "([^"]+)"', manifest, re.MULTILINE)
    if found is None:
        raise SystemExit("no version at the head of [workspace.package] in ext/Cargo.toml")
    short = {"alpha": "a", "beta": "b", "rc": "rc"}
    return re.sub(r"-(alpha|beta|rc)\.?(?=\d)", lambda pre: short[pre[1]], found[1])


def build_pure(build: str) -> None:
    setup(
        version=version(),
        package_dir={"": "src"},
        packages=find_packages("src"),
        # Only these: `maturin develop` leaves its compiled module in the same folder.
        package_data={"seamstream": ["_core.pyi", "py.typed"]},
        include_package_data=False,
        options={"build": {"build_base": build}, "egg_info": {"egg_base": build}},
    )


def build_cython(build: str) -> None:
    from Cython.Build import cythonize  # noqa: PLC0415 - no other build needs it

    # A copy of its own: Cython ignores a .pxd file in the folder of another package.
    staged = Path("build", "cyref-src", "seamstream_cyref")
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(
        Path("src", "seamstream", "_reference"),
        staged,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    modules = sorted(staged.glob("*.py"))
    for module in modules:
        types = module.with_suffix(".pxd")
        if types.exists():
            prepare(module, set(re.findall(r"^cdef class (\w+)", types.read_text("utf-8"), re.M)))
    if GENERATOR_LOCALS:
        raise SystemExit(f"there is no {' or '.join(GENERATOR_LOCALS)} any more")
    setup(
        name="seamstream_cyref",
        version=version(),
        packages=[],
        ext_modules=cythonize(
            [
                Extension(f"seamstream_cyref.{path.stem}", [str(path)], extra_compile_args=FLAGS)
                for path in modules
            ],
            quiet=True,
            compiler_directives={
                "language_level": 3,
                "annotation_typing": False,  # the .pxd files have the types
                "boundscheck": False,
                "infer_types": True,
            },
        ),
        options={"build": {"build_base": build}, "build_ext": {"parallel": os.cpu_count()}},
    )


def prepare(module: Path, typed: set[str]) -> None:
    """Take out of the classes that become C structures what those cannot have.

    That is decorators, abstract and generic bases, and `__init_subclass__`.
    """
    tree = ast.parse(module.read_text("utf-8"))
    tree.body.insert(2, ast.parse("import cython").body[0])  # after docstring and __future__
    for node in tree.body:
        if not isinstance(node, ast.ClassDef) or node.name not in typed:
            continue
        bases = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
        node.bases = [base for base in bases if ast.unparse(base) not in ("ABC", "Generic")]
        node.decorator_list = []
        methods = [method for method in node.body if isinstance(method, ast.FunctionDef)]
        for method in methods:
            local = GENERATOR_LOCALS.pop(f"{node.name}.{method.name}", None)
            if local is not None:
                method.decorator_list.append(ast.parse(f"cython.locals({local})", mode="eval").body)
            if method.name == "__init_subclass__":
                node.body.remove(method)
    module.write_text(ast.unparse(tree), "utf-8")


BUILDS = {None: build_pure, "cython": build_cython}
wanted = os.environ.get("SEAMSTREAM_BUILD")
if wanted not in BUILDS:
    raise SystemExit(f"SEAMSTREAM_BUILD must be 'cython' or unset, not {wanted!r}")
with TemporaryDirectory() as temporary:  # nothing of an earlier build comes along, or is left
    BUILDS[wanted](temporary)
