"""Pydantic models straight from the bytes of a payload.

The bytes go to pydantic-core's own JSON parser: no text and no dict in between. What is JSON
stays seamstream's decision, the same for `json()` and `validate()`: RFC 8259, well-formed UTF-8,
no NaN. Where pydantic-core is more lenient (it takes `NaN` and `Infinity`) the payload is refused
all the same. Three differences remain, all of them in numbers and nesting:

* a number beyond the range of a double, which `json()` refuses, is in an event what pydantic makes
  of it: an exact `int`, or an infinite `float` (a model refuses that with `allow_inf_nan=False`).
  In a frame it is a syntax error for both;
* integers beyond 64 bits stay exact, where `json()` gives floats;
* JSON nested deeper than some 200 levels, which `json()` takes, is a `SchemaError`.

pydantic is an extra, and imported only when something is validated.
"""

# pyright: reportUnnecessaryIsInstance=false

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .errors import JSONDecodeError, SchemaError, TornError

if TYPE_CHECKING:
    from typing import Protocol

    from pydantic import TypeAdapter

    class Event(Protocol):
        """An event of either backend."""

        @property
        def raw(self) -> bytes: ...
        @property
        def torn(self) -> bool: ...
        @property
        def offset(self) -> int: ...

    class Frame(Event, Protocol):
        """A frame of either backend."""

        @property
        def kind(self) -> str | None: ...
        def json(self) -> Any: ...


__all__ = [
    "Target",
    "event_loader",
    "frame_loader",
    "validate_event",
    "validate_frame",
    "validate_text",
]

T = TypeVar("T")
Target = Any  # a model, a TypeAdapter, or what a TypeAdapter takes

ADAPTERS_KEPT = 128
TYPES_NAMED = 5  # in the message of a SchemaError

_N, _I = b"NI"  # looked for as numbers: three times as fast as looking for bytes

# What pydantic's classes are, set when it is first needed. Until then nothing is one of them.
_adapter_class: type = type("", (), {})
_model_metaclass: type = _adapter_class


@overload
def validate_event(event: Event, target: type[T] | TypeAdapter[T]) -> T: ...
@overload
def validate_event(event: Event, target: Target) -> Any: ...
def validate_event(event: Event, target: Target) -> Any:
    """Validate the payload of an event, on every call.

    Args:
        event: Any event.
        target: A subclass of `pydantic.BaseModel`, a `pydantic.TypeAdapter`, or a type that one
            can be made for. Adapters that are made here are kept for the next call, up to 128;
            models and adapters of the caller's are the quickest.

    Raises:
        JSONDecodeError: The payload is not JSON, as for `json()`.
        SchemaError: It is JSON that the model refuses. pydantic's error is the cause.
        TornError: The stream ended inside this event.
        ImportError: pydantic 2 is not installed.
        PydanticUserError: `target` is nothing that pydantic can validate.
    """
    if event.torn:
        raise TornError(event.offset)
    return _validate(event.raw, _validate_json_of(target))


@overload
def validate_frame(frame: Frame, target: type[T] | TypeAdapter[T]) -> T: ...
@overload
def validate_frame(frame: Frame, target: Target) -> Any: ...
def validate_frame(frame: Frame, target: Target) -> Any:
    """Validate the value of a frame, on every call.

    Args:
        frame: Any frame.
        target: As for `validate_event`.

    Raises:
        JSONDecodeError: This is an error frame. `kind` is the frame's.
        SchemaError: The model refuses the value. pydantic's error is the cause.
        TornError: The stream ended inside this value.
        ImportError: pydantic 2 is not installed.
        PydanticUserError: `target` is nothing that pydantic can validate.
    """
    if frame.kind is not None or frame.torn:
        frame.json()  # raises
    return validate_text(frame.raw, target)  # its decoder has found that it is JSON


def validate_text(raw: bytes, target: Target) -> Any:
    """Validate bytes that have no `NaN` and no `Infinity` outside of strings.

    Raises:
        JSONDecodeError: They are not JSON.
        SchemaError: The model refuses the value. pydantic's error is the cause.
        ImportError: pydantic 2 is not installed.
        PydanticUserError: `target` is nothing that pydantic can validate.
    """
    validate_json = _validate_json_of(target)
    try:
        return validate_json(raw)
    except ValueError as error:
        refused = error
    raise _refusal(raw, refused)


def event_loader(target: Target) -> Callable[[Event], Any]:
    """Give what validates events with one target, which is looked up once.

    Raises:
        ImportError: pydantic 2 is not installed.
        PydanticUserError: `target` is nothing that pydantic can validate.
    """
    validate_json = _validate_json_of(target)

    def load(event: Event) -> Any:
        if event.torn:
            raise TornError(event.offset)
        return _validate(event.raw, validate_json)

    return load


def frame_loader(target: Target) -> Callable[[Frame], Any]:
    """Do as `event_loader`, for frames."""
    validate_json = _validate_json_of(target)

    def load(frame: Frame) -> Any:
        if frame.kind is not None or frame.torn:
            frame.json()  # raises
        try:
            return validate_json(frame.raw)
        except ValueError as error:
            refused = error
        raise _refusal(frame.raw, refused)

    return load


def _validate(raw: bytes, validate_json: Callable[[bytes], Any]) -> Any:
    # Two bytes that most payloads lack, before the words that hardly any has outside a string;
    # of the ways to look for these the quickest.
    if (_N in raw and raw.partition(b"NaN")[1]) or (_I in raw and raw.partition(b"Infinity")[1]):
        error = _syntax_error(raw)
        if error is not None:
            raise error
    try:
        return validate_json(raw)
    except ValueError as error:
        refused = error
    raise _refusal(raw, refused)


def _refusal(raw: bytes, error: ValueError) -> Exception:
    """Say why a payload was refused: pydantic's error in our terms."""
    from pydantic_core import ValidationError  # noqa: PLC0415 - an extra

    if not isinstance(error, ValidationError):
        return error
    # Not by the type of pydantic's errors: where a payload is no JSON for us but is for pydantic,
    # the model may have refused it for another reason.
    syntax_error = _syntax_error(raw)
    if syntax_error is not None:
        return syntax_error
    errors = error.errors(include_url=False, include_input=False)
    types = list(dict.fromkeys(entry["type"] for entry in errors))
    named = ", ".join(types[:TYPES_NAMED]) + (", ..." if len(types) > TYPES_NAMED else "")
    count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
    made = SchemaError(f"{error.title} refused the value, {count}: {named}", errors)
    made.__cause__ = error
    return made


def _syntax_error(raw: bytes) -> JSONDecodeError | None:
    """Give the error of `json()`, if there is one."""
    from ._backend import Event  # noqa: PLC0415 - the events of both backends call this module

    try:
        Event(data=raw).json()
    except JSONDecodeError as error:
        return error.with_traceback(None)
    return None


def _validate_json_of(target: Target) -> Callable[[bytes], Any]:
    """Find what validates JSON in pydantic-core.

    It is looked up each time and never kept: a model that is rebuilt has another one.
    """
    kind = type(target)  # pyright: ignore[reportUnknownVariableType]
    if kind is _model_metaclass:
        validator = target.__pydantic_validator__
    elif kind is _adapter_class:
        validator = target.validator
    else:
        validator = _find_validator(target)
    return validator.validate_json  # type: ignore[no-any-return]


def _find_validator(target: Target) -> Any:
    global _adapter_class, _model_metaclass
    try:
        from pydantic import BaseModel, TypeAdapter  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = "validation needs pydantic 2: pip install 'seamstream[pydantic]'"
        raise ImportError(message, name=error.name, path=error.path) from error
    _adapter_class, _model_metaclass = TypeAdapter, type(BaseModel)
    if isinstance(target, TypeAdapter):
        return target.validator
    if isinstance(target, type):
        # A model's or a dataclass's own, not one that a plain subclass inherits.
        own = target.__dict__.get("__pydantic_validator__")
        if own is not None:
            return own
    try:
        hash(target)
    except TypeError:
        return TypeAdapter(target).validator
    # `int | str` equals `str | int`, and validates differently.
    return _make_adapter(target, "" if type(target) is type else repr(target)).validator


@lru_cache(maxsize=ADAPTERS_KEPT)
def _make_adapter(target: Target, spelling: str) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - an extra

    return TypeAdapter(target)
