"""Let the SDK of Mistral AI read its streams through seamstream, in the whole process.

    seamstream.compat.mistralai.install()

Streams give the same objects. What is different: docs/coming-from/other-sdks.md.
"""

from __future__ import annotations

from . import _speakeasy
from ._private_names import Installation

__all__ = ["install", "uninstall"]

TESTED = "3.7.0"

_installation = Installation(
    "mistralai",
    TESTED,
    [
        *_speakeasy.names_in("mistralai.client.utils.eventstreaming"),
        # These need extras of the SDK.
        *_speakeasy.names_in("mistralai.azure.client.utils.eventstreaming", optional=True),
        *_speakeasy.names_in("mistralai.gcp.client.utils.eventstreaming", optional=True),
    ],
)
install, uninstall = _installation.install, _installation.uninstall
