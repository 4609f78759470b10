"""What every route of the management face works with: the engine, and the documents Azure keeps of things."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fairwarning.arm.errors import group_not_found
from fairwarning.arm.templates.evaluator import Evaluator
from fairwarning.core.changes import Change, MachineChanged
from fairwarning.core.commands import Command
from fairwarning.core.document.render import Json
from fairwarning.core.model import HOME_GROUP, MachineRef
from fairwarning.engine.engine import Engine

TENANT = "11111111-1111-4111-8111-111111111111"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"

Document = dict[str, Json]
#: What documents a decision leaves behind, given what it changed; None removes one.
Also = Callable[[tuple[Change, ...]], Mapping[str, Document | None]]


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """How soon clients are told to ask again."""

    header: str = "Retry-After"
    value: str = "1"


class ArmContext:
    """The engine, the documents of resources by their id in lower case, and the doors of new machines."""

    def __init__(
        self,
        engine: Engine,
        *,
        welcome: Callable[[Sequence[MachineRef]], Awaitable[None]],
        pace: RetryAfter | None = None,
        evaluator: Evaluator | None = None,
    ) -> None:
        self.engine = engine
        self.evaluator = evaluator or Evaluator()
        self.pace = pace or RetryAfter()
        self._welcome = welcome
        self._documents: dict[str, Document] = {}
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def open(self) -> None:
        """Read what was kept, and see to it that the home group is there."""
        kept = await self.engine.store.documents()
        self._documents = {key: json.loads(text) for key, text in kept.items()}
        home = group_id(HOME_GROUP)
        if self.document(home) is None:
            await self.keep({home: group_document(HOME_GROUP, "westeurope", {})})

    def document(self, resource_id: str) -> Document | None:
        """Return what is kept of a resource."""
        return self._documents.get(resource_id.lower())

    def documents(self, prefix: str) -> Iterator[tuple[str, Document]]:
        """Yield what is kept below a path, in order of its making."""
        wanted = prefix.lower()
        for key, document in list(self._documents.items()):
            if key.startswith(wanted):
                yield key, document

    def group(self, name: str) -> Document:
        """Return a resource group, or refuse."""
        found = self.document(group_id(name))
        if found is None:
            raise group_not_found(name)
        return found

    def lock(self, resource_id: str) -> asyncio.Lock:
        """Return what keeps two changes of one resource apart."""
        return self._locks[resource_id.lower()]

    async def keep(self, documents: Mapping[str, Document | None]) -> None:
        """Keep documents that no decision goes with."""
        await self.engine.keep(_texts(documents))
        self._remember(documents)

    async def handle(self, command: Command, also: Also | None = None) -> tuple[Change, ...]:
        """Carry out a command, with its documents in the same transaction, and open new machines' doors."""
        left: dict[str, Document | None] = {}

        def texts(changes: tuple[Change, ...]) -> Mapping[str, str | None]:
            left.clear()
            left.update(also(changes) if also is not None else {})
            return _texts(left)

        changes = await self.engine.handle(command, texts)
        self._remember(left)
        await self._welcome([c.machine.ref for c in changes if isinstance(c, MachineChanged)])
        return changes

    def _remember(self, documents: Mapping[str, Document | None]) -> None:
        for key, document in documents.items():
            if document is None:
                self._documents.pop(key.lower(), None)
            else:
                self._documents[key.lower()] = document


def _texts(documents: Mapping[str, Document | None]) -> Mapping[str, str | None]:
    return {key.lower(): None if body is None else json.dumps(body) for key, body in documents.items()}


def group_id(name: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{name}"


def group_document(name: str, location: str, tags: Json) -> Document:
    """Return a resource group as it is shown."""
    return {
        "id": group_id(name),
        "name": name,
        "type": "Microsoft.Resources/resourceGroups",
        "location": location,
        "tags": tags,
        "properties": {"provisioningState": "Succeeded"},
    }


def core_group(group: str) -> str:
    """Return what the core calls a resource group; the home group has no name there."""
    return "" if group.lower() == HOME_GROUP else group.lower()
