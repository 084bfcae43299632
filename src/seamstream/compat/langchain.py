"""Let LangChain's chat models read their streams through seamstream.

    llm = patch(ChatOpenAI(model=…))

A model of langchain-openai, langchain-anthropic or langchain-groq holds clients of that provider's
SDK: these are what is patched. LangChain itself is not imported.
"""

from __future__ import annotations

import importlib
from typing import Any, TypeVar

__all__ = ["patch", "unpatch"]

ModelT = TypeVar("ModelT")

# Where the models keep their clients, or a resource of one, which has it as `_client`.
_PLACES = (
    *("root_client", "root_async_client"),  # langchain-openai
    *("_client", "_async_client"),  # langchain-anthropic
    *("client", "async_client"),  # langchain-groq, and completion models of langchain-openai
)
_SDKS = ("openai", "anthropic", "groq")


def patch(model: ModelT) -> ModelT:
    """Let the clients of a model, sync and async, read their streams through seamstream.

    Gives the model back. Copies of a model share its clients, and so are patched with it.

    Raises:
        TypeError: The model has no client of a known SDK, or one with a decoder of its own.
    """
    for sdk, client in _clients_of(model):
        importlib.import_module(f"seamstream.compat.{sdk}").patch(client)
    return model


def unpatch(model: ModelT) -> ModelT:
    """Undo `patch`; give the model back.

    Raises:
        TypeError: The model has no client of a known SDK.
    """
    for sdk, client in _clients_of(model):
        importlib.import_module(f"seamstream.compat.{sdk}").unpatch(client)
    return model


def _clients_of(model: object) -> list[tuple[str, Any]]:
    found: dict[int, tuple[str, Any]] = {}
    for place in _PLACES:
        holder = getattr(model, place, None)
        for candidate in (holder, getattr(holder, "_client", None)):
            sdk = _sdk_of(candidate)
            if sdk is not None:
                found[id(candidate)] = (sdk, candidate)
                break
    if not found:
        raise TypeError(
            f"{type(model).__name__} has no client of {', '.join(_SDKS)}"
            f" in any of {', '.join(_PLACES)}"
        )
    return list(found.values())


def _sdk_of(candidate: object) -> str | None:
    for each in type(candidate).__mro__:
        package, _, rest = each.__module__.partition(".")
        if package in _SDKS and rest == "_base_client" and each.__name__ == "BaseClient":
            return package
    return None
