"""Random actions of operators, tenants, failures and clocks: chance selects the action and its targets."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from random import Random

from fairwarning.control.draft import Draft
from fairwarning.control.maintenance import Maintained
from fairwarning.core.commands import ReportOutcomes
from fairwarning.core.errors import FairWarningError
from fairwarning.core.fleet import Observation, Progress
from fairwarning.core.maintenance.values import OnSilence
from fairwarning.core.model import OPERATOR, Event, HostId
from tests.fleet_harness import run, span
from tests.maintenance.world import GROUPS, World, later, minutes, random_budgets

CAUSES = ("host-reboot", "host-reboot", "host-update", "freeze", "live-migrate", "platform-redeploy")
PLAIN = ("restart", "restart", "redeploy", "freeze", "host-update", "platform-redeploy", "hardware-failure")


def announce(world: World, chance: Random) -> str:
    """Announce the maintenance of a host, or of some machines, at once or in a window."""
    control, machines, host = world.fleet.control.maintenances, list[str](), None
    if chance.random() < 0.85:
        host = chance.choice(world.hosts)
    else:
        names = [machine.full for machine in world.machines()]
        machines = chance.sample(names, min(len(names), chance.randint(1, 3)))
    opens = later(world, 1, chance.choice((60, 600)), chance) if chance.random() < 0.5 else None
    closes = later(world, 60, 900, chance) if chance.random() < 0.3 else None
    key = chance.choice(("", "", "CHG-1", "CHG-2", "CHG-3"))
    notice = chance.choice((None, "0s", "1m", "5m", "1h"))
    asked = partial(
        control.announce,
        OPERATOR,
        chance.choice(CAUSES),
        machines,
        host=host,
        notice=None if notice is None else span(notice),
        opens=opens,
        closes=closes,
        key=key,
        on_silence=chance.choice((OnSilence.PROCEED, OnSilence.PROCEED, *OnSilence)),
        over_budget=chance.random() < 0.15,
    )

    async def announced() -> None:
        maintained = await asked()
        world.promise(maintained.maintenance, opens, closes)
        if key:
            world.keyed.append((maintained.maintenance.id, asked))

    subject = host or ", ".join(machines)
    return f"announce {subject} {asked.keywords}" + world.ask(announced())


def repeat(world: World, chance: Random) -> str:
    """Ask for a known maintenance again, as a client does that has lost the answer (M-11)."""
    id, asked = chance.choice(world.keyed)
    before = world.fleet.engine.position
    again = run(_awaited(asked()))
    assert isinstance(again, Maintained)
    assert again.maintenance.id == id, "M-11: a key stands for two maintenances"
    assert world.fleet.engine.position == before, "M-11: a repetition changed something"
    return f"repeat {id}"


async def _awaited(asked: Awaitable[object]) -> object:
    return await asked


def cause(world: World, chance: Random) -> str:
    """Let something else happen to machines, with or without notice."""
    known, what = [machine.full for machine in world.machines()], chance.choice(PLAIN)
    machines = chance.sample(known, min(len(known), chance.choice((1, 1, 1, 2))))
    notice = None if what == "hardware-failure" else span(minutes(chance.randint(0, 30)))
    asked = world.fleet.control.cause(OPERATOR, what, machines, notice=notice)
    return f"{what} {', '.join(machines)}" + world.ask(asked)


def delete(world: World, chance: Random) -> str:
    machine = chance.choice(world.machines()).full
    try:
        world.fleet.cause("delete", machine, force=chance.random() < 0.5)
    except FairWarningError as refusal:
        return f"delete {machine} (refused: {refusal})"
    return f"delete {machine}"


def approve(world: World, chance: Random) -> str:
    event = chance.choice(world.events())
    return f"approve {_words(event)}" + world.ask(world.fleet.control.approve(OPERATOR, event.id))


def approve_all(world: World, chance: Random) -> str:
    scopes = [scope for scope in world.fleet.engine.scopes() if chance.random() < 0.7]
    waiting = [event for event in world.events() if event.waiting and event.scope in scopes]
    return f"approve all of {', '.join(scopes)}" + _answer(world, waiting)


def cancel(world: World, chance: Random) -> str:
    event = chance.choice(world.events())
    return f"cancel {_words(event)}" + world.ask(world.fleet.control.cancel(OPERATOR, event.id))


def cancel_host(world: World, chance: Random) -> str:
    host = chance.choice(world.pending_hosts())
    return f"cancel {host}" + world.ask(world.fleet.control.maintenances.cancel(OPERATOR, host))


def complete(world: World, chance: Random) -> str:
    """Report an event as done, or some of its machines."""
    event = chance.choice(_started(world))
    machines = chance.choice(((), event.undone[:1]))
    asked = world.fleet.control.complete(OPERATOR, event.id, machines)
    return f"complete {_words(event)} {machines}" + world.ask(asked)


def complete_some(world: World, chance: Random) -> str:
    scopes = [scope for scope in world.fleet.engine.scopes() if chance.random() < 0.6]
    started = [event for event in _started(world) if event.scope in scopes]
    return f"complete {', '.join(scopes)}" + _answer(world, started)


def complete_host(world: World, chance: Random) -> str:
    """Report all of a host as done; some of its machines are on other hosts now."""
    host = chance.choice(world.pending_hosts())
    scopes = world.fleet.engine.scopes().values()
    there = [ref.full for scope in scopes for ref in scope.refs() if scope.machines[ref.name].host == host]
    moved = {machine: chance.choice(world.hosts) for machine in there if chance.random() < 0.4}
    asked = world.fleet.control.maintenances.complete(OPERATOR, host, moved)
    return f"complete {host}, moved {moved}" + world.ask(asked)


def fail(world: World, chance: Random) -> str:
    event = chance.choice(_started(world))
    machine = chance.choice(event.resources)
    asked = world.fleet.control.fail(OPERATOR, event.id, machine, "no answer")
    return f"fail {machine} of {_words(event)}" + world.ask(asked)


def move(world: World, chance: Random) -> str:
    """Report that machines are on another host: they have left it together, or reached it together."""
    machines = chance.sample(world.machines(), min(len(world.machines()), chance.choice((1, 1, 2))))
    host = HostId(chance.choice(world.hosts))

    def fill(draft: Draft) -> None:
        for machine in machines:
            draft.move(machine, host)

    return f"{', '.join(machine.full for machine in machines)} to {host}" + world.ask(
        world.fleet.control.carry_out(OPERATOR, fill)
    )


def observe_move(world: World, chance: Random) -> str:
    """Let a driver see that an impact is done and has brought the machine to another host."""
    event, host = chance.choice(_started(world)), HostId(chance.choice(world.hosts))
    names = [name for name in event.undone if chance.random() < 0.8]
    observations = tuple(Observation(event.id, name, Progress.DONE, host=host) for name in names)
    world.fleet.do(ReportOutcomes(scope=event.scope, observations=observations))
    return f"{', '.join(names)} done, now on {host}"


def change_inventory(world: World, chance: Random) -> str:
    """Apply an inventory that moves, adds, removes and tags machines."""
    world.read_inventory()
    said: list[str] = []
    for scope, machines in list(world.inventory.items()):
        for machine in list(machines):
            if chance.random() < 0.15:
                machines[machine] = chance.choice(world.hosts)
                said.append(f"{machine} to {machines[machine]}")
            elif chance.random() < 0.03:
                del machines[machine]
                said.append(f"without {machine}")
            if chance.random() < 0.05:
                world.tags[machine] = chance.choice(GROUPS)
                said.append(f"{machine} in {world.tags[machine]}")
        if chance.random() < 0.1:
            said += [_add(world, scope, chance) for _ in range(chance.choice((1, 2)))]
    if len(world.inventory) < 8 and chance.random() < 0.1:
        scope = world.new_name()
        world.inventory[scope] = {}
        said += [_add(world, scope, chance) for _ in range(chance.randint(1, 3))]
    return f"inventory: {', '.join(said)}" + _apply(world)


def _add(world: World, scope: str, chance: Random) -> str:
    machine = world.new_name()
    world.inventory[scope][machine] = chance.choice(world.hosts)
    world.tags[machine] = chance.choice(GROUPS)
    return f"new {scope}/{machine} on {world.inventory[scope][machine]}"


def change_budgets(world: World, chance: Random) -> str:
    world.read_inventory()
    world.budgets = random_budgets(chance)
    return f"budgets {world.budgets}" + _apply(world)


def _apply(world: World) -> str:
    try:
        world.apply_inventory()
    except FairWarningError as refusal:
        return f" (refused: {refusal})"
    return ""


def tag(world: World, chance: Random) -> str:
    """Change the tag of a machine, as tools for Azure do."""
    machine = chance.choice(world.machines())
    tags = (("db", chance.choice(GROUPS)),) if chance.random() < 0.8 else ()
    asked = world.fleet.control.carry_out(OPERATOR, lambda draft: draft.set_tags(machine, tags))
    return f"tag {machine.full} {tags}" + world.ask(asked)


def postpone(world: World, chance: Random) -> str:
    """Postpone the maintenance of a host, or an event."""
    hosts, event = world.pending_hosts(), chance.choice(world.events())
    until = later(world, 1, 400, chance)
    name = chance.choice(hosts) if hosts and chance.random() < 0.6 else str(event.id)
    maintenances = world.fleet.control.maintenances

    async def postponed() -> None:
        for moved in await maintenances.postpone(OPERATOR, name, until):
            if (promise := world.promises.get(moved.barrier)) is not None:
                world.promises[moved.barrier] = replace(promise, opens=moved.not_before)

    return f"postpone {name} until {until}" + world.ask(postponed())


def hold(world: World, chance: Random) -> str:
    host = chance.choice((None, *world.hosts))
    world.fleet.hold("firmware", host)
    return f"hold {host or 'the fleet'}"


def unhold(world: World, chance: Random) -> str:
    host = chance.choice((None, *world.hosts))
    world.fleet.unhold(host)
    return f"unhold {host or 'the fleet'}"


def restart(world: World, chance: Random) -> str:
    """Open another node on what is stored, after a while."""
    away = minutes(chance.choice((0, 0, 1, 30, 300)))
    world.fleet.clock.set(world.fleet.now + span(away))
    world.fleet.restart()
    return f"restart after {away}"


def wait(world: World, chance: Random) -> str:
    """Let time pass from deadline to deadline."""
    by = minutes(chance.choice((1, 5, 15, 60, 300)))
    world.fleet.advance(by)
    return f"wait {by}"


def jump(world: World, chance: Random) -> str:
    """Let the clock jump over deadlines: all that was due is handled at once."""
    by = minutes(chance.choice((1, 16, 30, 60, 120, 300)))
    world.fleet.clock.set(world.fleet.now + span(by))
    run(world.fleet.engine.tick())
    return f"jump {by}"


def crowd(world: World, chance: Random) -> str:
    """Approve and complete everything at once, in one batch."""
    events = world.events()
    chance.shuffle(events)
    return "all at once" + _answer(world, events)


def _answer(world: World, events: Sequence[Event]) -> str:
    """Approve what waits of some events, and complete what has started."""
    control = world.fleet.control

    async def answer() -> None:
        asked: list[Awaitable[object]] = [
            control.approve(OPERATOR, event.id) if event.waiting else control.complete(OPERATOR, event.id, ())
            for event in events
        ]
        for answered in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answered, BaseException) and not isinstance(answered, FairWarningError):
                raise answered

    return world.ask(answer())


def behave(world: World) -> None:
    """Let everybody do what is asked of them, until nothing is left to do."""
    for host in (None, *world.hosts):
        world.fleet.unhold(host)
    for _ in range(20):
        if not world.events():
            return
        _answer(world, world.events())
        world.fleet.advance("3h")
    for event in world.events():
        # Its budget has become smaller since it was announced, and it is no maintenance, which would end.
        if event.barrier not in world.promises:
            world.ask(world.fleet.control.cancel(OPERATOR, event.id))
            world.met["never fits"] += 1
    # Without the cancelled events, others behind their barriers fit.
    _answer(world, world.events())
    world.fleet.advance("3h")
    assert not world.events(), f"events are left: {world.events()}"


def _started(world: World) -> list[Event]:
    return [event for event in world.events() if not event.waiting]


def _words(event: Event) -> str:
    return f"{event.cause} of {', '.join(event.resources)} ({event.id[:8]})"


Action = Callable[[World, Random], str]

#: The actions and their relative frequencies.
ACTIONS: Mapping[Action, int] = {
    announce: 30,
    repeat: 4,
    cause: 8,
    delete: 2,
    approve: 6,
    approve_all: 10,
    cancel: 2,
    cancel_host: 2,
    complete: 6,
    complete_some: 8,
    complete_host: 5,
    fail: 3,
    move: 8,
    observe_move: 4,
    change_inventory: 7,
    change_budgets: 3,
    tag: 2,
    postpone: 3,
    hold: 3,
    unhold: 4,
    restart: 3,
    wait: 10,
    jump: 6,
    crowd: 3,
}


def possible(action: Action, world: World) -> bool:
    """Whether the fleet has what an action needs."""
    if action is repeat:
        return bool(world.keyed)
    if action in (cause, delete, tag, announce, move):
        return bool(world.machines())
    if action in (approve, cancel, postpone):
        return bool(world.events())
    if action in (complete, fail, observe_move):
        return bool(_started(world))
    return action not in (cancel_host, complete_host) or bool(world.pending_hosts())
