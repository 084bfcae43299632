"""What names a value inside of a JSON text; one set of rules for both backends."""

# pyright: reportUnnecessaryIsInstance=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import sys
from typing import Any

__all__ = [
    "CompiledPath",
    "Path",
    "Paths",
    "Step",
    "compile_path",
    "compile_paths",
    "walk",
    "walk_all",
]

MAX_INDEX_DIGITS = 18  # fits in 64 bits

Path = str | tuple[str | int, ...]
Paths = tuple[Path, ...] | list[Path]
Step = tuple[str | None, int | None]
"""The name it takes of an object, and the index it takes of an array; None where neither fits."""
CompiledPath = tuple[Step, ...]


def compile_path(path: Path) -> CompiledPath:
    """Turn a path into its steps.

    A `str` is split at its dots. A part that is all digits is an index in an array and a name in
    an object; the empty string is the path of no steps, to the whole value. A name that has a dot
    in it is reached by a tuple, of which each `str` is a name and each `int` an index, exactly.

    Raises:
        TypeError: The path, or a part of it, has the wrong type.
        ValueError: An index is negative, or a name is not Unicode text.
    """
    if isinstance(path, str):
        return tuple((_name(part), _digits(part)) for part in path.split(".")) if path else ()
    if not isinstance(path, tuple):
        raise TypeError(f"path must be str or tuple, not {type(path).__name__}")
    return tuple(_step(part) for part in path)


def compile_paths(paths: Paths) -> tuple[CompiledPath, ...]:
    """Turn each path into its steps.

    Raises:
        TypeError: It is no tuple or list, or a path, or a part of it, has the wrong type.
        ValueError: An index is negative, or a name is not Unicode text.
    """
    if not isinstance(paths, (tuple, list)):
        raise TypeError(f"paths must be tuple or list, not {type(paths).__name__}")
    return tuple(compile_path(path) for path in paths)


def _step(part: object) -> Step:
    if isinstance(part, str):
        return (_name(part), None)
    if isinstance(part, bool) or not isinstance(part, int):
        raise TypeError(f"a path consists of str and int, not {type(part).__name__}")
    if part < 0:
        raise ValueError("an index in a path counts from the start: it must be 0 or more")
    return (None, min(int(part), sys.maxsize))


def _name(part: str) -> str:
    return str.encode(part).decode()  # exactly a str, and one that a JSON text can hold


def _digits(part: str) -> int | None:
    is_index = part.isascii() and part.isdigit() and len(part) <= MAX_INDEX_DIGITS
    return int(part) if is_index else None


def walk(value: Any, steps: CompiledPath, default: object) -> Any:
    """Return what `steps` lead to from `value`, or `default` where one of them leads nowhere."""
    for name, index in steps:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and index is not None and index < len(value):
            value = value[index]
        else:
            return default
    return value


def walk_all(value: Any, paths: tuple[CompiledPath, ...], default: object) -> tuple[Any, ...]:
    """Return what each path leads to from `value`, or `default`."""
    return tuple(walk(value, steps, default) for steps in paths)
