"""Conditional requests: a change is carried out only if the resource is as the client last saw it (T-25).

The etag of a resource is a digest of its document. Nothing about it is stored: every node computes the same
etag, and every change of the document changes the etag. The digest leaves out the provisioning state.
"""

from collections.abc import Callable

import msgspec

from fairwarning.arm.documents import Document, get_fields
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest
from fairwarning.core.model import derive_id

#: The first api-version whose documents have an etag.
SINCE = "2024-03-01"
#: Stands for any etag.
_ANY = "*"
_canonical = msgspec.json.Encoder(order="deterministic")
_TRANSIENT = frozenset({"provisioningstate", "instanceview"})


def etag_of(document: Document) -> str:
    """Return the etag of a document."""
    properties = get_fields(document, "properties")
    content = {name: value for name, value in document.items() if name.lower() != "etag"}
    content["properties"] = {
        name: value for name, value in properties.items() if name.lower() not in _TRANSIENT
    }
    return f'"{derive_id(_canonical.encode(content).decode()).lower()}"'


def check(
    request: ArmRequest, document: Document | None, etag_of: Callable[[Document], str] = etag_of
) -> None:
    """Refuse a change whose condition does not hold; ``document`` is None if the resource does not exist.

    Raises:
        AzureError: the resource is not as the client expects, or the condition is not supported.
    """
    if request.if_none_match not in ("", _ANY):
        raise invalid("If-None-Match", "only * is supported")
    if request.if_none_match and document is not None:
        raise _failed("The resource exists, and the if-none-match header allows only to create it.")
    if request.if_match and document is None:
        raise _failed(f"Etag provided in if-match header {request.if_match} matches no resource.")
    if request.if_match not in ("", _ANY) and document is not None:
        etag = etag_of(document)
        if request.if_match != etag:
            raise _failed(
                f"Etag provided in if-match header {request.if_match} does not match etag {etag} of resource."
            )


def _failed(message: str) -> AzureError:
    return AzureError(412, "PreconditionFailed", message)
