"""Names of other libraries that are nobody's promise: look them up, replace them, put them back.

A name that has gone, or a function with other parameters than those that were replaced so far, is
an error that says what was looked for and where. Nothing is ever left half-replaced.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, cast

__all__ = ["Installation", "Installed", "PrivateName", "moved", "require"]


def moved(distribution: str, tested: str, what: str) -> ImportError:
    """Make the error for a private name that is not where it was, or not what it was."""
    found = _version_of(distribution) or "(of unknown version)"
    return ImportError(
        f"{distribution} {found} is not as seamstream knows it from {tested}: {what}",
        name=distribution,
    )


def _version_of(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def require(error: ImportError, module: str, library: str, tested: str) -> ImportError:
    """Make the error for a compat module whose library cannot be imported as expected.

    Args:
        error: What the import raised.
        module: The compat module, by its full name.
        library: What pip and Python call the library.
        tested: The version of it that this module was tested with.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == library:
        return ImportError(f"{module} needs {library}: pip install {library}", name=library)
    if ((error.name or "") + ".").startswith(library + "."):
        return moved(library, tested, str(error))
    return error  # the library is there, and something that it needs in turn is not


@dataclass(frozen=True)
class PrivateName:
    """One name to replace.

    Args:
        module: The module that has it.
        path: Where it is in there: `name` or `Class.name`.
        replace: Makes the replacement out of the original.
        parameters: The names of the parameters that the original has to have; None: any.
        optional: Whether a module may be missing because something that it needs is not installed.
    """

    module: str
    path: str
    replace: Callable[[Any], object]
    parameters: tuple[str, ...] | None = None
    optional: bool = False

    def __str__(self) -> str:
        return f"{self.module}.{self.path}"


def _names_of(owner: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(owner))


@dataclass
class _Replaced:
    """What stands where, and what stood there."""

    name: PrivateName
    owner: Any
    attribute: str
    original: object
    replacement: object

    def stands(self) -> bool:
        return _names_of(self.owner).get(self.attribute) is self.replacement


class Installation:
    """Replace private names of one library for the whole process, and put them back.

    Args:
        distribution: What pip calls the library.
        tested: The version that the names are known from.
        names: What to replace.
    """

    def __init__(self, distribution: str, tested: str, names: Sequence[PrivateName]) -> None:
        self.distribution = distribution
        self.tested = tested
        self.names = names
        self._replaced: list[_Replaced] = []
        self._blocks = 0  # `with` blocks that last
        self._ends_with_blocks = False
        self._lock = threading.Lock()

    def install(self) -> Installed:
        """Let the library read its streams through seamstream, in the whole process.

        To install twice does nothing more.

        Returns:
            A context manager that uninstalls at its end, if this call installed; where blocks
            overlap, in several threads or tasks, at the end of the last one.

        Raises:
            ImportError: The library is not installed; or it has changed, and what was to be
                replaced is not there, or not what it was. Nothing is replaced then.
        """
        with self._lock:
            return Installed(self, None if self._replaced else self._replace())

    def uninstall(self) -> None:
        """Undo `install`: put back the originals. What is not installed stays as it is.

        Raises:
            RuntimeError: Something else has replaced the same names since. Nothing is put back
                then.
        """
        with self._lock:
            self._put_back()

    def _replace(self) -> object:
        found = [found for name in self.names if (found := self._look_up(name)) is not None]
        if not found:
            looked_for = ", ".join(map(str, self.names))
            raise moved(self.distribution, self.tested, f"none of {looked_for}")
        done: list[_Replaced] = []
        try:
            for each in found:
                setattr(each.owner, each.attribute, each.replacement)
                done.append(each)
        except (AttributeError, TypeError) as error:  # a class that was compiled, say
            for each in done:
                setattr(each.owner, each.attribute, each.original)
            what = f"{found[len(done)].name} cannot be replaced"
            raise moved(self.distribution, self.tested, what) from error
        self._replaced = found
        self._ends_with_blocks = False
        return found

    def _put_back(self) -> None:
        for each in self._replaced:
            if not each.stands():
                raise RuntimeError(
                    f"{each.name} was replaced once more since install(): undo that first"
                )
        for each in self._replaced:
            setattr(each.owner, each.attribute, each.original)
        self._replaced = []

    def begin_block(self, replaced: object) -> object:
        """Count a `with` block that begins, and see to it that all is installed.

        Where it was when `install` was called, the block that it was for may have ended since.

        Args:
            replaced: What `install` replaced for this block; None: it was installed already.

        Returns:
            The same, or what had to be replaced now.
        """
        with self._lock:
            if not self._replaced:
                replaced = self._replace()
            self._blocks += 1
        return replaced

    def end_block(self, replaced: object) -> None:
        """Count one that ends; uninstall with the last, if one had installed what is there.

        Raises:
            RuntimeError: As `uninstall`.
        """
        with self._lock:
            self._blocks -= 1
            self._ends_with_blocks |= replaced is self._replaced
            if self._ends_with_blocks and not self._blocks:
                self._put_back()

    def _look_up(self, name: PrivateName) -> _Replaced | None:
        try:
            owner: Any = importlib.import_module(name.module)
        except ModuleNotFoundError as error:
            if not (name.module + ".").startswith(f"{error.name}."):
                if name.optional:
                    return None
                raise  # the library is there, and something that it needs is not
            if _version_of(self.distribution) is None:
                raise ImportError(
                    f"{self.distribution} is not installed: pip install {self.distribution}",
                    name=self.distribution,
                ) from error
            raise moved(self.distribution, self.tested, f"no {name}") from error
        *classes, attribute = name.path.split(".")
        try:
            for each in classes:
                owner = getattr(owner, each)
            original = _names_of(owner)[attribute]
            found = getattr(owner, attribute)
        except (AttributeError, KeyError, TypeError) as error:
            raise moved(self.distribution, self.tested, f"no {name}") from error
        self._check_parameters(name, found)
        return _Replaced(name, owner, attribute, original, name.replace(original))

    def _check_parameters(self, name: PrivateName, original: Any) -> None:
        if name.parameters is None:
            return
        try:
            found = tuple(inspect.signature(original).parameters)
        except (TypeError, ValueError) as error:  # no function; or one that does not tell
            what = f"{name} is no function that takes ({', '.join(name.parameters)})"
            raise moved(self.distribution, self.tested, what) from error
        if found != name.parameters:
            raise moved(
                self.distribution,
                self.tested,
                f"{name} takes ({', '.join(found)}), not ({', '.join(name.parameters)})",
            )


class Installed:
    """What `install()` gives: as a context manager it uninstalls at the end what it installed.

    One that found everything installed already leaves it so, unless the block that had installed
    it has ended meanwhile.
    """

    __slots__ = ("_installation", "_replaced")

    def __init__(self, installation: Installation, replaced: object) -> None:
        self._installation = installation
        self._replaced = replaced  # None: by another call

    def __enter__(self) -> None:
        self._replaced = self._installation.begin_block(self._replaced)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._installation.end_block(self._replaced)
