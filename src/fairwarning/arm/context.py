"""What every route works with: the engine, and one JSON document per resource.

The core knows machines, scopes and events. Everything else that a client sends (tags, sizes, networks) is
kept as a document under the id of its resource, in lower case. Documents are stored with the engine's state:
a command and the documents that go with it are one transaction.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairwarning.arm.documents import Document
from fairwarning.arm.errors import group_not_found
from fairwarning.arm.templates.evaluator import Evaluator
from fairwarning.core.changes import Change, MachineChanged
from fairwarning.core.commands import Command
from fairwarning.core.document.render import Json
from fairwarning.core.model import HOME_GROUP, MachineRef, Principal, PrincipalKind
from fairwarning.engine.clock import new_request_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.requests import Caller, Plan

TENANT = "11111111-1111-4111-8111-111111111111"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"

#: Builds the documents that are stored with a command, from the changes it made; None deletes a document.
DocumentBuilder = Callable[[tuple[Change, ...]], Mapping[str, Document | None]]


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """The header that says when a client should ask again."""

    header: str = "Retry-After"
    value: str = "1"


class ArmContext:
    """The engine, the documents of resources, and the evaluator of templates.

    ``open_endpoints`` opens the metadata endpoints of new machines.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        open_endpoints: Callable[[Sequence[MachineRef]], Awaitable[None]],
        retry_after: RetryAfter | None = None,
        evaluator: Evaluator | None = None,
    ) -> None:
        self.engine = engine
        self.evaluator = evaluator or Evaluator()
        self.retry_after = retry_after or RetryAfter()
        self._open_endpoints = open_endpoints
        self._documents: dict[str, Document] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def open(self) -> None:
        """Read the stored documents, and create the home group if it is missing."""
        stored = self.engine.texts()
        self._documents = {key: json.loads(text) for key, text in stored.items()}
        home = group_id(HOME_GROUP)
        if self.document(home) is None:
            await self.put_documents({home: group_document(HOME_GROUP, "westeurope", {})})

    def document(self, resource_id: str) -> Document | None:
        """Return the document of a resource."""
        return self._documents.get(resource_id.lower())

    def documents(self, prefix: str) -> Iterator[tuple[str, Document]]:
        """Yield the documents whose keys start with a prefix, oldest first."""
        prefix = prefix.lower()
        for key, document in list(self._documents.items()):
            if key.startswith(prefix):
                yield key, document

    def require_group(self, name: str) -> Document:
        """Return the document of a resource group.

        Raises:
            AzureError: there is no such group.
        """
        group = self.document(group_id(name))
        if group is None:
            raise group_not_found(name)
        return group

    def lock(self, resource_id: str) -> asyncio.Lock:
        """Return the lock under which a resource is changed."""
        return self._locks[resource_id.lower()]

    async def put_documents(self, documents: Mapping[str, Document | None]) -> None:
        """Store documents that belong to no command; None deletes a document."""
        await self.engine.submit(_caller(), lambda view: Plan(texts=lambda changes: _texts(documents)))
        self._apply(documents)

    async def handle(
        self, command: Command, build_documents: DocumentBuilder | None = None
    ) -> tuple[Change, ...]:
        """Carry out a command and store its documents with it; then open the endpoints of new machines."""
        documents: dict[str, Document | None] = {}

        def texts(changes: tuple[Change, ...]) -> Mapping[str, str | None]:
            documents.clear()
            documents.update(build_documents(changes) if build_documents is not None else {})
            return _texts(documents)

        changes = (await self.engine.submit(_caller(), lambda view: Plan((command,), texts))).changes
        self._apply(documents)
        await self._open_endpoints([c.machine.ref for c in changes if isinstance(c, MachineChanged)])
        return changes

    def _apply(self, documents: Mapping[str, Document | None]) -> None:
        for key, document in documents.items():
            if document is None:
                self._documents.pop(key.lower(), None)
            else:
                self._documents[key.lower()] = document


def _caller() -> Caller:
    return Caller(Principal(PrincipalKind.MANAGEMENT, "az"), new_request_id())


def _texts(documents: Mapping[str, Document | None]) -> Mapping[str, str | None]:
    return {key.lower(): None if body is None else json.dumps(body) for key, body in documents.items()}


def group_id(name: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}"


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
