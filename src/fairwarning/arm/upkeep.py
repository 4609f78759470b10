"""Work that follows from requests without being part of them.

Requests that read never write, so three things are left to a worker: documents of machines, sets and groups
that are gone are removed, operations that ended long ago are forgotten, and deployments that a request or
another process left unfinished are carried on. Clients get the same answers before and after the cleaning up.

``run`` is woken by the feed and by time. On a manual clock, whoever moves it awaits ``rest`` at every step.
Of several nodes one works, the one with the lease; a node that takes over looks at everything once.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta

from fairwarning.arm import deployments, operations, resource_ids
from fairwarning.arm.compute import disks, older_documents
from fairwarning.arm.context import ArmContext, Documents, Edit
from fairwarning.arm.documents import Document, get_path, without_secrets
from fairwarning.arm.groups import documents_below, documents_of_deleted
from fairwarning.arm.state import ArmState
from fairwarning.core.azure.identity import RESOURCE_TYPES, SCALE_SETS, VMS, group_id, resource_id
from fairwarning.core.changes import EventChanged, EventMilestone, MachineRemoved, ScopeRemoved, TextChanged
from fairwarning.core.document.render import Json
from fairwarning.core.errors import StorageError
from fairwarning.core.model import HOME_GROUP, PLATFORM, Machine, MachineRef
from fairwarning.core.stored.codecs import Operation
from fairwarning.core.stored.kinds import OPERATION
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.feed import LaggingError
from fairwarning.formats.log_messages import LogMessage

log = logging.getLogger("fairwarning.arm")

#: How long a finished operation can still be looked up, at least.
RETENTION = timedelta(hours=1)
#: How long the worker gathers lines before it looks at them.
PAUSE = timedelta(seconds=1)
#: How long the worker waits at most: it tries again what failed, keeps its lease, or tries to get it.
SOON = timedelta(seconds=5)
#: The key of the worker's lease.
LEASE = "management-upkeep"
#: How many documents are looked at in one turn of the loop.
SLICE = 64

_TYPES = {kind.lower(): kind for kind in RESOURCE_TYPES.values()}
#: The keys of groups, and of resources that are scopes or machines of the core.
_CORE_RESOURCE = re.compile(
    r"/subscriptions/[^/]+/resourcegroups/(?P<group>[^/]+)"
    rf"(?:/providers/microsoft\.compute/(?P<kind>{'|'.join(_TYPES)})/(?P<name>[^/]+)"
    r"(?:/virtualmachines/(?P<instance>[^/]+))?)?"
)


class Upkeep:
    """The worker of a context."""

    def __init__(self, context: ArmContext) -> None:
        self._context = context
        self._working = asyncio.Lock()
        self._stack = ExitStack()
        self._lines = self._stack.enter_context(context.engine.feed.subscribe())
        #: The keys of documents whose resource may be gone; None at first, when all are looked at.
        self._doubtful: set[str] | None = None
        #: Whether documents of release 0.2 were looked at since they may be converted.
        self._converted = False
        #: The deployments that had not ended when they were last looked at.
        self._running: set[str] = set()
        #: When each operation is looked at next, and how often clients had asked when its end was seen.
        self._looks: dict[str, tuple[datetime, int | None]] = {}
        context.engine.upkeep.append(self.rest)

    async def run(self) -> None:
        """Work for as long as the server runs."""
        with self._stack, self._context.engine.feed.subscribe(size=1) as wakeups:
            self._context.wake_worker = wakeups.wake
            while True:
                await self._try(self.rest())
                with suppress(LaggingError):
                    await wakeups.next_batch(SOON)
                await asyncio.sleep(PAUSE.total_seconds())

    async def rest(self) -> None:
        """Return once there is nothing left to do at this moment."""
        async with self._working:
            await self._read_lines()
            if not await self._is_leading():
                self._doubtful = None
                return
            for key in sorted(self._unfinished() - self._context.deploying):
                await self._try(deployments.resume(self._context, key))
            await self._remove_documents()
            await self.convert()
            self._doubtful = set()
            await self._forget_operations()

    async def convert(self) -> None:
        """Convert what release 0.2 has stored, once, as soon as no node of that release may read it."""
        if not self._converted and older_documents.may_convert(self._context):
            await older_documents.convert(self._context)
            self._converted = True

    async def _is_leading(self) -> bool:
        try:
            return await self._context.engine.leases.hold(LEASE) is not None
        except StorageError:  # the node says so in the log
            return False

    async def _try(self, work: Awaitable[None]) -> None:
        """Await ``work``; a failure must not end the worker, or stop its other work."""
        try:
            await work
        except Exception:
            log.exception(LogMessage("upkeep_failed"))

    def _unfinished(self) -> set[str]:
        """Return the deployments that may have to be carried on."""
        state = self._context.committed()
        among = deployments.keys(state) if self._doubtful is None else self._running
        self._running = {key for key in among if deployments.is_running(state.document(key))}
        outermost = {key for key in self._running if not deployments.is_part_of_running(state, key)}
        return outermost | self._context.interrupted

    async def _read_lines(self) -> None:
        try:
            lines = await self._lines.next_batch(timedelta(0))
        except LaggingError:
            self._doubtful = None
            return
        if self._doubtful is None:
            return
        for line in lines:
            match line.change:
                case TextChanged(key=key) if deployments.is_deployment(key):
                    self._running.add(key)
                case MachineRemoved(scope=scope, name=name):
                    self._doubtful |= _machine_keys(MachineRef(scope, name))
                case ScopeRemoved(set_id=set_id):
                    self._doubtful |= _set_keys(set_id)
                case EventChanged(scope=scope, what=EventMilestone.CANCELLED):
                    self._doubtful.add(group_id(_split(scope)[0]))
                case _:
                    pass

    async def _remove_documents(self) -> None:
        """Remove what is doubtful and gone; what seems to be gone is looked at again when it is decided."""
        state = self._context.committed()
        if self._doubtful is None:
            doubtful = list(state.view.keys_under(group_id("").lower()))
        else:
            doubtful = sorted(key.lower() for key in self._doubtful)
        gone: list[str] = []
        for start in range(0, len(doubtful), SLICE):
            state = self._context.committed()
            gone += [key for key in doubtful[start : start + SLICE] if _after(state, key)]
            await asyncio.sleep(0)

        def fill(edit: Edit) -> None:
            for key in gone:
                edit.put(_after(edit.state, key))

        if gone:
            await self._context.change(PLATFORM, fill)

    async def _forget_operations(self) -> None:
        state, looks = self._context.committed(), self._looks
        self._looks = {}
        old: dict[str, Operation] = {}
        for name, operation in operations.all_operations(state.view):
            due, reads = self._looks[name] = looks.get(name, (operation.started_at + RETENTION, None))
            if due > state.now:
                continue
            # Under a manual clock hours pass at once: a client must have had the chance to ask since the end.
            hours_pass = not isinstance(self._context.engine.clock, ManualClock)
            if reads is not None and (hours_pass or reads != self._context.reads):
                old[name] = operation
            elif reads is None and not operations.any_pending(state, operation):
                self._looks[name] = state.now + RETENTION, self._context.reads
        if old:
            await self._forget(old)

    async def _forget(self, old: Mapping[str, Operation]) -> None:
        """Forget operations, and keep their errors in the deployments that started them."""
        errors: dict[str, Json] = {}
        for name, operation in old.items():
            end = await operations.read_end(self._context, operation)
            if "error" in end:
                errors[name] = end["error"]
        state = self._context.committed()
        failed = [*deployments.failed_by(state, deployments.keys(state), errors)] if errors else []

        def fill(edit: Edit) -> None:
            edit.draft.put_texts(dict.fromkeys(map(OPERATION.key, old)))
            edit.put(deployments.failed_by(edit.state, failed, errors))

        await self._context.change(PLATFORM, fill)


def _after(state: ArmState, key: str) -> Documents:
    """Return the documents to change: a resource of the core is gone, or an old document has secrets."""
    parts, document = _CORE_RESOURCE.fullmatch(key), state.document(key)
    if parts is None:
        return _without_secrets(key, document)
    names = parts.groupdict()
    if document is None and names["instance"] is None:
        return {}
    if names["kind"] is None:
        group = state.find_group(names["group"])
        if group is None:
            return documents_of_deleted(state, key)
        return {} if group == document else {key: group}
    if names["instance"] is not None:
        machine = resource_ids.find_instance(state, names)
        # An instance may have extensions, and no document of its own.
        exists = machine is not None if document is None else _describes(document, machine)
    elif _TYPES[names["kind"]] == VMS:
        exists = _describes(document, resource_ids.find_vm(state, names))
    else:
        exists = bool(resource_ids.find_scopes(state, _TYPES[names["kind"]], names))
    if exists:
        return _without_secrets(key, document)
    own = {} if document is None else {**disks.documents_after(state, document), key: None}
    return documents_below(state, key) | own


def _without_secrets(key: str, document: Document | None) -> Documents:
    """Return a document of an earlier release without what is not stored in documents any more."""
    # Deployments blank the secrets of their templates themselves.
    clean = document if deployments.is_deployment(key) else without_secrets(document)
    return {key: clean} if isinstance(clean, dict) and clean != document else {}


def _describes(document: Document | None, machine: Machine | None) -> bool:
    return machine is not None and get_path(document, "properties", "vmId") == machine.vm_id


def _split(name: str) -> tuple[str, str]:
    """Return the group in the full name of a scope or set, and the rest of the name."""
    group, _, rest = name.rpartition("/")
    return group or HOME_GROUP, rest


def _machine_keys(ref: MachineRef) -> set[str]:
    group, _ = _split(ref.scope)
    set_name, _, instance = ref.name.rpartition("_")
    part = f"{resource_id(group, SCALE_SETS, set_name)}/{VMS}/{instance}"
    return {resource_id(group, VMS, ref.name), part}


def _set_keys(set_id: str) -> set[str]:
    group, name = _split(set_id)
    return {group_id(group), *(resource_id(group, kind, name) for kind in _TYPES.values())}
