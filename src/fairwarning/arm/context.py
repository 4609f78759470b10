"""What every route works with: the state to read, and one way to change it.

``ArmContext.state`` is the committed state. ``ArmContext.change`` carries out a request: its function fills
an ``Edit`` from the state that the request is decided on, and everything in the edit becomes one commit. The
function may be called several times, so it has no effects but those on its edit.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import NamedTuple, TypeVar

from fairwarning.arm.documents import Document
from fairwarning.arm.errors import translate
from fairwarning.arm.state import ArmState, DocumentCache
from fairwarning.arm.templates.evaluator import Evaluator
from fairwarning.arm.templates.secrets import redacted_text
from fairwarning.control.control import Control
from fairwarning.control.draft import Draft
from fairwarning.core.azure import identity
from fairwarning.core.changes import Change, MachineChanged
from fairwarning.core.errors import StorageError
from fairwarning.core.model import MachineRef, Principal
from fairwarning.engine.engine import Engine
from fairwarning.engine.leases import LASTS, Leases
from fairwarning.engine.requests import View

TENANT = "11111111-1111-4111-8111-111111111111"
SUBSCRIPTION = identity.SUBSCRIPTION

T = TypeVar("T")

#: The header that says when to poll again; without it clients wait for half a minute.
RETRY_AFTER = ("Retry-After", "1")

#: How often the lease of a deployment is renewed while a node works on it.
RENEW = LASTS / 4

#: Documents by key; None removes a document.
Documents = Mapping[str, Document | None]


class Edit(NamedTuple):
    """What one request changes: commands in ``draft``, and documents; ``state`` is as before the request."""

    draft: Draft
    state: ArmState

    def put(self, documents: Documents) -> None:
        """Store documents with the request."""
        self.draft.put_texts(_texts(documents))

    def put_after(self, documents: Callable[[tuple[Change, ...]], Documents]) -> None:
        """Store documents that depend on what the request changes."""
        self.draft.put_texts_after(lambda changes: _texts(documents(changes)))


class ArmContext:
    """The state, the way to change it, and the evaluator of templates.

    ``open_endpoints`` opens the metadata endpoints of new machines.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        open_endpoints: Callable[[Sequence[MachineRef]], Awaitable[None]],
        retry_after: tuple[str, str] = RETRY_AFTER,
        evaluator: Evaluator | None = None,
    ) -> None:
        self.engine = engine
        self.evaluator = evaluator or Evaluator()
        self.retry_after = retry_after
        #: How often requests have read the state.
        self.reads = 0
        #: The deployments that this node is working on, and those that a request has left unfinished.
        self.deploying: set[str] = set()
        self.interrupted: set[str] = set()
        #: Ends the wait of the worker (see ``upkeep``).
        self.wake_worker: Callable[[], None] = lambda: None
        self._open_endpoints = open_endpoints
        self._control = Control(engine)
        self._cache = DocumentCache()
        #: What the history must not say about requests that are refused.
        self._secrets = frozenset[str]()

    def for_deployment(self, secrets: frozenset[str]) -> "ArmContext":
        """Return the context of a deployment: the refusals of its requests are noted without its secrets."""
        context = copy(self)
        context._secrets = secrets
        return context

    def interrupt(self, deployment: str) -> None:
        """Leave a deployment to the worker."""
        self.interrupted.add(deployment.lower())
        self.wake_worker()

    @asynccontextmanager
    async def work_on(self, deployment: str) -> AsyncIterator[bool]:
        """Keep other nodes from a deployment for as long as the block lasts; False if one is at work on it.

        A node that dies loses its lease, and ``upkeep`` on another node carries the deployment on.
        """
        name, leases = deployment.lower(), self.engine.leases
        key = f"deployment/{name}"
        self.deploying.add(name)
        try:
            alone = await leases.hold(key) is not None
            renewing = asyncio.create_task(_renew(leases, key))
            try:
                yield alone
            finally:
                renewing.cancel()
                await asyncio.wait([renewing])
                await leases.release(key)
        finally:
            self.deploying.discard(name)

    def state(self) -> ArmState:
        """Return the committed state, for a request."""
        self.reads += 1
        return self.committed()

    def committed(self) -> ArmState:
        """Return the committed state."""
        self._cache.trim(len(self.engine.texts()))
        return self._state(self.engine.view())

    async def look_up(self, read: Callable[[], Awaitable[T]]) -> T:
        """Return what ``read`` finds; what another node has just stored is found, too."""
        return await self._control.look_up(read, lambda problem: translate(problem).status == 404)

    async def change(self, principal: Principal, fill: Callable[[Edit], T]) -> T:
        """Carry out what ``fill`` puts into an edit, as one commit, and return what it returned."""
        returned: list[T] = []

        def fill_draft(draft: Draft) -> None:
            returned[:] = [fill(Edit(draft, self._state(draft.view)))]

        result = await self._control.carry_out(principal, fill_draft, redact=self._redact)
        await self._open_endpoints([c.machine.ref for c in result.changes if isinstance(c, MachineChanged)])
        return returned[0]

    def _redact(self, text: str) -> str:
        return redacted_text(text, self._secrets)

    def _state(self, view: View) -> ArmState:
        return ArmState(view, self._cache, self.engine.clock.now())


async def _renew(leases: Leases, key: str) -> None:
    while True:
        await asyncio.sleep(RENEW.total_seconds())
        with suppress(StorageError):
            await leases.hold(key)


def _texts(documents: Documents) -> Mapping[str, str | None]:
    return {key.lower(): None if body is None else json.dumps(body) for key, body in documents.items()}
