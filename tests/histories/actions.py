"""Random actions on a fleet: chance selects the action and its targets."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.causes import CAUSES
from fairwarning.core.commands import (
    AddMachines,
    Approve,
    Command,
    CreateSet,
    Poll,
    Protect,
    Schedule,
    SetPower,
    StopRollout,
)
from fairwarning.core.errors import FairWarningError, UnknownEventError
from fairwarning.core.model import (
    ApprovalSettings,
    Event,
    EventStatus,
    EventType,
    EvictionPolicy,
    HostId,
    MachineRef,
    PowerState,
    Scope,
    ScopeKind,
)
from fairwarning.drivers.simulated import Mishap
from fairwarning.engine.ports import Batch, Entry, Store
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import FleetHarness, run, span

RACK = HostId("rack-7")
BLUEPRINTS = (
    Blueprint(name="web", count=3, terminate_notice=span("5m")),
    Blueprint(name="db", count=3, zones=("1", "2"), terminate_notice=span("7m")),
    Blueprint(name="gpu", count=2, fault_domains=1, broadcast=False),
    Blueprint(
        name="app", kind=ScopeKind.AVAILABILITY_SET, count=3, update_domains=2, fault_domains=1, host=RACK
    ),
    Blueprint(name="batch", count=2, spot=True, update_domains=1, fault_domains=1),
    Blueprint(name="flex", kind=ScopeKind.FLEXIBLE_SET, count=2, spot=True, eviction=EvictionPolicy.DELETE),
    Blueprint(name="red", kind=ScopeKind.STANDALONE, host=RACK, spot=True),
    Blueprint(name="blue", kind=ScopeKind.STANDALONE, host=RACK, terminate_notice=span("5m")),
)
NOTICES = (None, None, None, "0s", "10s", "30s", "5m", "20m")
SPANS = ("300ms", "1s", "5s", "5s", "6s", "29s", "30s", "36s", "1m", "5m", "15m", "2h", "1d")
#: Causes that may be requested for one machine at the same instant.
PILE = ("delete", "evict", "redeploy", "platform-redeploy", "hardware-failure", "restart", "freeze")


class FailingStore(MemoryStore):
    """A store that fails a given number of times."""

    failures = 0

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        if self.failures:
            self.failures -= 1
            raise OSError("disk full")
        return await super().commit(batch)


class World:
    """A fleet, and what has happened to it."""

    def __init__(self, store: Store, reopen: Callable[[], Store]) -> None:
        self.stage = FleetHarness(store=store)
        self.reopen = reopen
        #: How often each outcome occurred.
        self.met: Counter[str] = Counter()
        #: Whether the last action forced a delete, which ignores its barrier (T-09).
        self.forced = False

    def machines(self) -> list[MachineRef]:
        return list(self.stage.engine.refs())

    def events(self) -> list[Event]:
        return [one for scope in self.stage.engine.scopes().values() for one in scope.events.values()]

    def machine(self, chance: Random) -> MachineRef:
        """Return a random machine, preferably one with pending events."""
        scopes = self.stage.engine.scopes()
        busy = [
            MachineRef(event.scope, name)
            for event in self.events()
            for name in event.resources
            if name in scopes[event.scope].machines
        ]
        return chance.choice(busy if busy and chance.random() < 0.6 else self.machines())

    def scope(self, chance: Random) -> Scope:
        return chance.choice(list(self.stage.engine.scopes().values()))

    def try_to(self, command: Command) -> str:
        """Carry out a command, which may be refused, and return the outcome in words."""
        try:
            self.stage.do(command)
        except FairWarningError as refusal:
            return f" (refused: {refusal})"
        return ""


def make(world: World, chance: Random) -> str:
    blueprint = chance.choice(BLUEPRINTS)
    return f"make {blueprint.name}" + world.try_to(CreateSet(seed=world.stage.new_id(), blueprint=blueprint))


def cause(world: World, chance: Random) -> str:
    machines = dict.fromkeys(world.machine(chance) for _ in range(chance.choice((1, 1, 2, 3))))
    return _cause(world, chance, chance.choice(sorted(CAUSES)), tuple(machines), chance.choice(NOTICES))


def pile_up(world: World, chance: Random) -> str:
    """Request several events on one machine, mostly to start at the same instant."""
    machine, notice = world.machine(chance), chance.choice(NOTICES)
    causes = chance.sample(PILE, chance.choice((2, 3)))
    if world.stage.engine.machine(machine).spot and "evict" not in causes:
        causes[0] = "evict"
    return "; ".join(_cause(world, chance, one, (machine,), notice) for one in causes)


def _cause(
    world: World, chance: Random, cause: str, machines: tuple[MachineRef, ...], notice: str | None
) -> str:
    force = cause == "delete" and chance.random() < 0.4
    world.forced |= force
    command = Schedule(
        id=world.stage.new_id(),
        cause=cause,
        machines=machines,
        notice=None if notice is None else span(notice),
        kind=chance.choice((None, EventType.REBOOT)) if CAUSES[cause].sudden else None,
        force=force,
    )
    names = ", ".join(machine.full for machine in machines)
    return f"{cause} {names} notice={notice} force={force}" + world.try_to(command)


def approve(world: World, chance: Random) -> str:
    event, machine = chance.choice(world.events()), world.machine(chance)
    theirs = any(one.id == event.id for one in world.stage.shown(machine.full))
    try:
        world.stage.approve(event.id, by=machine.full)
    except UnknownEventError:
        assert not theirs, f"{machine.full} sees {event.id} and may not approve it"
    else:
        assert theirs, f"{machine.full} approved {event.id}, which it does not see"
    return f"approve {event.cause} {event.id[:8]} by {machine.full}"


def approve_all(world: World, chance: Random) -> str:
    scope = chance.choice(world.events()).scope
    ids = tuple(event.id for event in world.stage.pending(scope))
    return f"approve all of {scope}" + world.try_to(Approve(scope=scope, ids=ids))


def cancel(world: World, chance: Random) -> str:
    event = chance.choice(world.events())
    try:
        world.stage.cancel(event.id)
    except FairWarningError:
        assert event.status is EventStatus.STARTED, f"{event.id} waits and cannot be cancelled"
    else:
        assert event.status is EventStatus.SCHEDULED, f"{event.id} was cancelled after its start"
    return f"cancel {event.cause} {event.id[:8]}"


def poll(world: World, chance: Random) -> str:
    machine = world.machine(chance)
    world.stage.poll(machine.full)
    assert world.stage.scope(machine.scope).enabled, f"{machine.scope} was polled and is off"
    return f"poll {machine.full}"


def wait(world: World, chance: Random) -> str:
    by = chance.choice(SPANS)
    world.stage.advance(by)
    return f"wait {by}"


def wait_for_deadline(world: World, chance: Random) -> str:
    deadline = world.stage.engine.next_deadline()
    if deadline is not None:
        world.stage.wait_until(deadline)
    return f"wait until {deadline}"


def oversleep(world: World, chance: Random) -> str:
    """Let time pass without ticks: everything that was due is handled at once."""
    away = chance.choice(SPANS)
    world.stage.clock.set(world.stage.now + span(away))
    run(world.stage.engine.tick())
    return f"oversleep {away}"


def restart(world: World, chance: Random) -> str:
    away = chance.choice(("0s", *SPANS))
    struck = Counter(
        (event.scope, name) for event in world.events() if not event.waiting for name in event.undone
    )
    world.met["restarts while two impacts of one machine run"] += any(count > 1 for count in struck.values())
    run(world.stage.engine.close())
    world.stage.store = world.reopen()
    world.stage.clock.set(world.stage.now + span(away))
    world.stage.restart()
    return f"restart after {away}"


def switch(world: World, chance: Random) -> str:
    machine, power = world.machine(chance), chance.choice(list(PowerState))
    return f"switch {machine.full} {power}" + world.try_to(SetPower(machine=machine, power=power))


def break_machine(world: World, chance: Random) -> str:
    # A mishap must not change impacts in progress: their end is already scheduled.
    struck = {name for event in world.events() for name in event.resources}
    machine, mishap, attempts = world.machine(chance), chance.choice(list(Mishap)), chance.choice((1, 2, 3))
    if machine.name in struck:
        return "break nothing"
    world.stage.break_machine(machine.name, mishap, attempts)
    return f"break {machine.full}: {mishap} {attempts} times"


def start_rollout(world: World, chance: Random) -> str:
    scope, cause = world.scope(chance), chance.choice(("host-update", "host-reboot", "platform-redeploy"))
    try:
        world.stage.walk(scope.id, cause, notice=chance.choice((None, "0s", "30s")))
    except FairWarningError:
        assert scope.facts.walk is not None or not scope.machines, f"no rollout in {scope.id}"
    return f"roll {cause} out to {scope.id}"


def stop_rollout(world: World, chance: Random) -> str:
    scope = world.scope(chance)
    return f"stop the rollout in {scope.id}" + world.try_to(StopRollout(scope=scope.id))


def set_approvals(world: World, chance: Random) -> str:
    scope, said = world.scope(chance), (True, False)
    approvals = ApprovalSettings(
        user_reboot=chance.choice(said),
        user_redeploy=chance.choice(said),
        all_instances_down=chance.choice(said),
    )
    world.stage.set_approvals(scope.id, approvals)
    return f"let {scope.id} approve by itself: {approvals}"


def change_model(world: World, chance: Random) -> str:
    set_name, machine = world.scope(chance).facts.set_name, world.machine(chance)
    notice = chance.choice((None, "5m", "15m"))
    # T-05: Spot machines get no notice.
    with suppress(FairWarningError):
        world.stage.change_notice(set_name, notice)
    world.stage.upgrade(machine.full)
    return f"change the notice of {set_name} to {notice}, upgrade {machine.full}"


def protect(world: World, chance: Random) -> str:
    command = Protect(machine=world.machine(chance), protected=chance.choice((True, False)))
    return f"protect {command.machine.full}: {command.protected}" + world.try_to(command)


def grow(world: World, chance: Random) -> str:
    """Add a machine; in an availability set under the name of a machine that was removed."""
    scope = world.scope(chance)
    names = ("app-0",) if scope.facts.kind is ScopeKind.AVAILABILITY_SET else ()
    command = AddMachines(seed=world.stage.new_id(), scope=scope.id, names=names)
    return f"add to {scope.id}" + world.try_to(command)


def remove(world: World, chance: Random) -> str:
    set_name, force = world.scope(chance).facts.set_name, chance.choice((True, False))
    world.forced |= force
    world.stage.remove(set_name, force=force)
    return f"remove {set_name} force={force}"


def crowd(world: World, chance: Random) -> str:
    """Send several commands at once, before any of them is committed."""
    machine = world.machine(chance)
    commands: list[Command] = [
        Schedule(id=world.stage.new_id(), cause=cause, machines=(machine,))
        for cause in chance.sample(PILE, 2)
    ]
    commands += [
        Poll(machine=machine),
        SetPower(machine=machine, power=chance.choice(list(PowerState))),
    ]
    events = world.stage.pending(machine.scope)
    commands += [Approve(scope=event.scope, ids=(event.id,)) for event in events]
    chance.shuffle(commands)

    async def at_once() -> list[object]:
        handled = (world.stage.engine.handle(command) for command in commands)
        return list(await asyncio.gather(*handled, return_exceptions=True))

    for result in run(at_once()):
        if isinstance(result, BaseException) and not isinstance(result, FairWarningError):
            raise result
    return f"at once: {commands}"


def lose_a_commit(world: World, chance: Random) -> str:
    """Let the disk be full for a moment, during a command or a tick."""
    store = world.stage.store
    if not isinstance(store, FailingStore):
        return "lose nothing"
    store.failures = 1
    try:
        description = chance.choice((pile_up, remove, wait_for_deadline))(world, chance)
    except OSError:
        description = "lost a commit"
        world.met["commits lost"] += 1
    store.failures = 0
    # A scope that could not be handled is still due.
    run(world.stage.engine.tick())
    return f"with a full disk: {description}"


Action = Callable[[World, Random], str]

#: The actions and their relative frequencies.
ACTIONS: Mapping[Action, int] = {
    make: 3,
    cause: 10,
    pile_up: 10,
    approve: 8,
    approve_all: 3,
    cancel: 4,
    poll: 5,
    wait: 6,
    wait_for_deadline: 14,
    oversleep: 6,
    restart: 5,
    switch: 6,
    break_machine: 2,
    start_rollout: 4,
    stop_rollout: 2,
    set_approvals: 2,
    change_model: 2,
    protect: 1,
    grow: 4,
    remove: 2,
    crowd: 3,
    lose_a_commit: 3,
}
NEEDS_NOTHING = frozenset({make, wait, wait_for_deadline, oversleep, restart})
NEEDS_A_SCOPE = frozenset({start_rollout, stop_rollout, set_approvals, grow, remove})
NEEDS_AN_EVENT = frozenset({approve, approve_all, cancel})


def possible(action: Action, world: World) -> bool:
    """Whether the fleet has a target for the action."""
    if action in NEEDS_NOTHING:
        return True
    if action in NEEDS_A_SCOPE:
        return bool(world.stage.engine.scopes())
    return bool(world.machines()) and (action not in NEEDS_AN_EVENT or bool(world.events()))
