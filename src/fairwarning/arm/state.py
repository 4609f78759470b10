"""The fleet and the documents of resources, as one request sees them.

The core knows machines, scopes and events. Everything else that a client sends (tags, sizes, networks) is
kept as a document under the id of its resource, in lower case; the engine stores documents as texts. A
document does not make a resource: a machine or a set exists if the core has it, and a document that stayed
behind is ignored until ``upkeep`` removes it.

``ArmState`` shows the committed state to requests that read, and the state that a request is decided on to
requests that change something.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from functools import cache

from fairwarning.arm.documents import Document, get_path
from fairwarning.arm.errors import AzureError
from fairwarning.core.azure.identity import DEFAULT_LOCATION, Alike, MachineIdentity, group_id, identify
from fairwarning.core.document.render import Json
from fairwarning.core.model import HOME_GROUP, Machine, Scope, ScopeId
from fairwarning.engine.requests import View

#: The cache of documents is trimmed when it holds this many more than there are, and twice as many.
_SPARE = 100


class DocumentCache:
    """Parsed documents; a document is parsed again when its text is another object."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[str, Document]] = {}

    def parse(self, key: str, text: str) -> Document:
        """Return the document that a text is."""
        cached = self._parsed.get(key)
        if cached is not None and cached[0] is text:
            return cached[1]
        document: Document = json.loads(text)
        self._parsed[key] = text, document
        return document

    def trim(self, count: int) -> None:
        """Drop all documents if there are far more than ``count``."""
        if len(self._parsed) > 2 * count + _SPARE:
            self._parsed.clear()


class ArmState:
    """The fleet, the documents and the time, as committed or as a request is decided on."""

    def __init__(self, view: View, cache: DocumentCache, now: datetime) -> None:
        self.view = view
        self.now = now
        self._cache = cache
        #: The documents of scale sets, rendered once for all of their instances.
        self.models: dict[tuple[ScopeId, ...], Document] = {}
        self._alike: Alike = {}

    def document(self, resource_id: str) -> Document | None:
        """Return the document of a resource."""
        key = resource_id.lower()
        text = self.view.text(key)
        return None if text is None else self._cache.parse(key, text)

    def documents(self, prefix: str) -> Iterator[tuple[str, Document]]:
        """Yield the documents whose keys start with a prefix, in order of their keys."""
        for key in list(self.view.keys_under(prefix.lower())):
            document = self.document(key)
            if document is not None:
                yield key, document

    def existing_documents(self, prefix: str) -> Iterator[tuple[str, Document]]:
        """Yield documents like ``documents``, without those that a deleted group has left behind."""
        exists = cache(lambda group: self.find_group(group) is not None)
        for key, document in self.documents(prefix):
            _, _, below = key.partition("/resourcegroups/")
            if not below or exists(below.partition("/")[0]):
                yield key, document

    def identify(self, machine: Machine) -> MachineIdentity:
        """Return what Azure says a machine is."""
        return identify(machine, self.scope_of(machine).facts, self.document, self._alike)

    def scope_of(self, machine: Machine) -> Scope:
        """Return the scope of a machine."""
        return self.view.scope(machine.scope)

    def scopes_in_group(self, group: str | None) -> tuple[Scope, ...]:
        """Return the scopes of a resource group; None stands for all groups."""
        if group is None:
            return self.view.scopes()
        name = core_group(group)
        return tuple(scope for scope in self.view.scopes() if scope.facts.group == name)

    def find_group(self, name: str) -> Document | None:
        """Return a resource group; the home group exists unless a client has deleted it.

        A group in deletion is gone once its last scope is. If a delete of one of its machines is cancelled,
        the group stays.
        """
        group = self.document(group_id(name))
        if group is None:
            return group_document(HOME_GROUP, DEFAULT_LOCATION, {}) if name.lower() == HOME_GROUP else None
        if not _is_deleting(group):
            return group
        scopes = self.scopes_in_group(name)
        if any(scope.facts.deleting or _has_deletes(scope) for scope in scopes):
            return group
        return {**group, "properties": {"provisioningState": "Succeeded"}} if scopes else None

    def require_group(self, name: str) -> Document:
        """Return a resource group.

        Raises:
            AzureError: there is no such group.
        """
        group = self.find_group(name)
        if group is None:
            raise AzureError(404, "ResourceGroupNotFound", f"Resource group '{name}' could not be found.")
        return group

    def require_active_group(self, name: str) -> Document:
        """Return a group in which resources can be created.

        Raises:
            AzureError: there is no such group, or it is being deleted.
        """
        group = self.require_group(name)
        if _is_deleting(group):
            message = (
                f"The resource group '{name}' is in deprovisioning state and cannot perform this operation."
            )
            raise AzureError(409, "ResourceGroupBeingDeleted", message)
        return group


def group_document(name: str, location: str, tags: Json) -> Document:
    """Return the document of a new resource group."""
    return {
        "id": group_id(name),
        "name": name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": location,
        "tags": tags,
        "properties": {"provisioningState": "Succeeded"},
    }


def core_group(group: str) -> str:
    """Return the core's name of a resource group; the home group's is empty."""
    return "" if group.lower() == HOME_GROUP else group.lower()


def _is_deleting(group: Document) -> bool:
    return get_path(group, "properties", "provisioningState") == "Deleting"


def _has_deletes(scope: Scope) -> bool:
    return any(event.cause == "delete" for event in scope.events.values())
