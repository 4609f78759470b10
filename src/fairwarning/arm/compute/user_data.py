"""User data: a text that a client gives a machine, and gets back only by ``$expand=userData``.

The machine itself reads it as ``compute.userData`` (I-20).

The documents of resources are in journal lines. User data must not be there, so it is encrypted with a key
that is in the store, but in no journal line and in no backup. It is a document of its own below its resource,
and goes with it.
"""

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fairwarning.access import stored_secret
from fairwarning.arm.context import ArmContext, Documents
from fairwarning.arm.documents import Document, get_path
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import FindDocument, machine_id, set_id, stored_documents
from fairwarning.core.model import MachineRef
from fairwarning.engine.engine import Engine

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: The name of the key in the store.
KEY_NAME = "user-data-key"


async def read_key(context: ArmContext) -> bytes:
    """Return the key; the first call creates it."""
    return bytes.fromhex(await stored_secret(context.engine.store, KEY_NAME))


def documents(state: ArmState, key: bytes, resource: str, text: str) -> Documents:
    """Return what stores the user data of a resource; an empty text removes it."""
    if not text:
        return {} if state.document(document_id(resource)) is None else {document_id(resource): None}
    sealed = _cipher(key).encrypt(text.encode(), [resource.lower().encode()])
    return {document_id(resource): {"sealed": base64.b64encode(sealed).decode()}}


async def read(context: ArmContext, resource: Document) -> str:
    """Return the user data of a machine or a set; an instance without any has that of its set."""
    sealed = _find_sealed(context.state().document, _sources(resource))
    return "" if sealed is None else _open(await read_key(context), *sealed)


def machine_user_data(engine: Engine, key: str, ref: MachineRef) -> str:
    """Return the user data that a machine reads on itself; ``key`` is the stored key."""
    scope, find = engine.scope(ref.scope).facts, stored_documents(engine.stored)
    sets = [set_id(scope, find)] if scope.kind.scales else []
    sealed = _find_sealed(find, [machine_id(engine.machine(ref), scope, find), *sets])
    return "" if sealed is None else _open(bytes.fromhex(key), *sealed)


def document_id(resource: str) -> str:
    """Return the id of the document that holds the user data of a resource."""
    return f"{resource}/userData"


def _sources(resource: Document) -> list[str]:
    own, flexible_set = str(resource["id"]), get_path(resource, "properties", "virtualMachineScaleSet", "id")
    sets = [str(flexible_set)] if flexible_set is not None else []
    uniform_set, _, instance = own.partition("/virtualMachines/")
    return [own, *sets, *([uniform_set] if instance and "/virtualMachineScaleSets/" in uniform_set else [])]


def _find_sealed(find: FindDocument, resources: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of these resources that has user data, and the data, encrypted."""
    for resource in resources:
        sealed = get_path(find(document_id(resource)), "sealed")
        if sealed is not None:
            return resource, str(sealed)
    return None


def _open(key: bytes, resource: str, sealed: str) -> str:
    from cryptography.exceptions import InvalidTag

    try:
        return _cipher(key).decrypt(base64.b64decode(sealed), [resource.lower().encode()]).decode()
    except InvalidTag:
        # The database was restored from a backup, which has no key.
        return ""


def _cipher(key: bytes) -> "AESSIV":
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV(key)
