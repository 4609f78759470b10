"""Several nodes that know each other: who acts when, and what a wrong clock or a wrong list costs."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from functools import partial

import pytest

from fairwarning.core.changes import EventChanged, EventMilestone
from fairwarning.core.commands import Approve, Schedule
from fairwarning.core.errors import StorageError
from fairwarning.core.fleet import Impact, Observation, Progress
from fairwarning.core.model import EventStatus, HostId, MachineRef, ScopeId, derive_id
from fairwarning.engine.leases import LASTS
from fairwarning.engine.membership import ClockOffError, ClockState
from fairwarning.engine.ports import Lease, NodeReport, StoreState
from tests.deciders.cluster import ref, restart
from tests.deciders.link import Weather
from tests.deciders.members import SECOND, MemberNode, Members, NodeTable, open_members
from tests.deciders.virtual_time import run

NOTICE = timedelta(seconds=30)
WEB = ScopeId("web")


async def joined(cluster: Members, count: int) -> list[MemberNode]:
    """Return nodes that all know each other."""
    nodes = [await cluster.join() for _ in range(count)]
    await cluster.create(nodes[0], "first")
    await asyncio.sleep(2.5)
    return nodes


async def announce(cluster: Members, node: MemberNode, *scopes: str) -> datetime:
    """Create sets of one machine, announce a restart of each, and return when the restarts are due."""
    for scope in scopes:
        await cluster.create(node, scope)
    for scope in scopes:
        machines = (ref(f"{scope}_0"),)
        command = Schedule(id=derive_id(scope), cause="restart", machines=machines, notice=NOTICE)
        await cluster.do(node, command)
    return max(cluster.event_of(scope).not_before for scope in scopes)


def ranked(nodes: Sequence[MemberNode], scope: ScopeId = WEB) -> list[MemberNode]:
    """Return nodes in the order in which they act on a scope."""
    in_order = sorted(nodes, key=lambda node: node.membership.rank(scope))
    assert [node.membership.rank(scope) for node in in_order] == list(range(len(nodes)))
    return in_order


def starts(cluster: Members) -> Counter[ScopeId]:
    """Return how often an event of each scope was started."""
    changes = (entry.change for entry in cluster.store.entries)
    return Counter(
        change.scope
        for change in changes
        if isinstance(change, EventChanged) and change.what is EventMilestone.STARTED
    )


async def haunt(cluster: Members, ghosts: int) -> None:
    """Send heartbeats of nodes that do nothing else."""
    while True:
        for number in range(ghosts):
            cluster.table.beat(NodeReport(f"ghost {number}", "", "", 1, timedelta(0), ""))
        await asyncio.sleep(1)


def lateness(cluster: Members, scope: str = "web") -> timedelta:
    """Return how long after its time the only event of a scope was started."""
    event = cluster.event_of(scope)
    assert event.started_at is not None
    return event.started_at - event.not_before


def test_nodes_that_are_alive_share_the_work_and_throw_nothing_away() -> None:
    async def story() -> None:
        cluster = await open_members()
        nodes = await joined(cluster, 3)
        scopes = [f"set{number}" for number in range(60)]
        due = await announce(cluster, nodes[0], *scopes)
        before = [node.link.counts["commit"] for node in nodes]

        await cluster.sleep_until(due + SECOND / 2)

        spent = [node.link.counts["commit"] - count for node, count in zip(nodes, before, strict=True)]
        assert starts(cluster) == dict.fromkeys(map(ScopeId, scopes), 1)
        assert cluster.store.counts["stale"] == 0
        assert all(spent), "a node did nothing"
        await cluster.check()

    run(story())


def test_if_a_node_dies_another_acts_one_second_later() -> None:
    async def story() -> None:
        cluster = await open_members()
        nodes = await joined(cluster, 3)
        due = await announce(cluster, nodes[0], "web")
        first, second, _ = ranked(nodes)
        await cluster.sleep_until(due - SECOND / 10)

        first.kill()
        await cluster.sleep_until(due + 2 * SECOND)

        assert SECOND <= lateness(cluster) < 1.1 * SECOND
        assert second.link.counts["commit"] > 0
        assert starts(cluster)[WEB] == 1

    run(story())


def test_a_node_that_died_long_ago_costs_nothing() -> None:
    async def story() -> None:
        cluster = await open_members()
        nodes = await joined(cluster, 3)
        due = await announce(cluster, nodes[0], "web")
        ranked(nodes)[0].kill()

        await cluster.sleep_until(due + SECOND)

        assert lateness(cluster) < SECOND / 10

    run(story())


def test_a_node_that_leaves_costs_nothing_either() -> None:
    async def story() -> None:
        cluster = await open_members()
        nodes = await joined(cluster, 3)
        due = await announce(cluster, nodes[0], "web")
        await cluster.sleep_until(due - 1.5 * SECOND)

        await ranked(nodes)[0].end()
        await cluster.sleep_until(due + SECOND)

        assert lateness(cluster) < SECOND / 10

    run(story())


def test_a_node_that_does_nothing_costs_a_second() -> None:
    async def story() -> None:
        cluster = await open_members()
        (node,) = await joined(cluster, 1)
        due = await announce(cluster, node, "web")
        haunting = asyncio.create_task(haunt(cluster, 20))
        await cluster.sleep_until(due - SECOND / 2)
        rank = node.membership.rank(WEB)
        await cluster.sleep_until(due + (rank + 1) * SECOND)

        haunting.cancel()
        assert rank > 0
        assert rank * SECOND <= lateness(cluster) < (rank + 0.1) * SECOND

    run(story())


def test_nodes_that_do_not_know_each_other_act_at_the_same_time_and_only_once() -> None:
    async def story() -> None:
        cluster = await open_members()
        nodes = [await cluster.join(weather=Weather(delay=0.02), table=NodeTable()) for _ in range(3)]
        scopes = [f"set{number}" for number in range(20)]
        due = await announce(cluster, nodes[0], *scopes)

        await cluster.sleep_until(due + SECOND)

        assert starts(cluster) == dict.fromkeys(map(ScopeId, scopes), 1)
        assert cluster.store.counts["stale"] > 0, "the nodes never met"
        await cluster.check()

    run(story())


def test_after_an_outage_nodes_share_what_has_become_due_meanwhile() -> None:
    async def story() -> None:
        cluster = await open_members()
        nodes = await joined(cluster, 3)
        scopes = [f"set{number}" for number in range(30)]
        due = await announce(cluster, nodes[0], *scopes)
        cluster.table.state = StoreState.AWAY
        await cluster.sleep_until(due + 60 * SECOND)
        assert not starts(cluster)

        cluster.table.state = StoreState.READY
        await asyncio.sleep(5)

        assert starts(cluster) == dict.fromkeys(map(ScopeId, scopes), 1)
        assert cluster.store.counts["stale"] == 0
        await cluster.check()

    run(story())


def test_a_node_whose_clock_runs_five_seconds_ahead_starts_nothing_early_and_refuses_commands() -> None:
    async def story() -> None:
        cluster = await open_members()
        ahead = timedelta(0)
        fast = await cluster.join(ahead=lambda: ahead)
        due = await announce(cluster, fast, "web")
        await cluster.sleep_until(due - 10 * SECOND)

        ahead = 5 * SECOND
        await cluster.sleep_until(due - SECOND / 10)
        assert cluster.event_of("web").status is EventStatus.SCHEDULED
        with pytest.raises(StorageError, match=r"5\.000 s ahead of the database's"):
            await cluster.do(fast, Approve(scope=WEB, ids=(derive_id("web"),)))
        assert fast.record_poll(ref("web_0"))
        ahead = timedelta(0)
        await cluster.sleep_until(due + 2 * SECOND)

        event = cluster.event_of("web")
        assert event.status is EventStatus.STARTED

    run(story())


@pytest.mark.rule("L-05")
def test_a_node_whose_clock_runs_five_seconds_behind_announces_nothing() -> None:
    async def story() -> None:
        cluster = await open_members()
        ahead = timedelta(0)
        slow = await cluster.join(ahead=lambda: ahead)
        await cluster.create(slow, "web")

        ahead = -5 * SECOND
        await asyncio.sleep(1.5)

        # The other nodes would start the event after five seconds less than its notice.
        with pytest.raises(StorageError, match=r"5\.000 s behind the database's"):
            await cluster.do(slow, Schedule(id=derive_id("web"), cause="restart", machines=(ref("web_0"),)))
        assert slow.record_poll(ref("web_0"))

    run(story())


@pytest.mark.rule("L-05")
def test_a_clock_that_is_set_back_is_noticed_before_the_next_heartbeat() -> None:
    async def story() -> None:
        cluster = await open_members()
        ahead = timedelta(0)
        node = await cluster.join(ahead=lambda: ahead)
        await cluster.create(node, "web")
        await asyncio.sleep(1.5)

        ahead = timedelta(minutes=-10)

        with pytest.raises(StorageError, match=r"600\.000 s behind the database's"):
            await cluster.do(node, Schedule(id=derive_id("web"), cause="restart", machines=(ref("web_0"),)))

    run(story())


@pytest.mark.rule("L-05")
def test_a_clock_that_is_set_back_while_a_request_waits_announces_nothing() -> None:
    async def story() -> None:
        cluster = await open_members()
        ahead = timedelta(0)
        node = await cluster.join(ahead=lambda: ahead)
        await cluster.create(node, "web")
        node.link.weather = Weather(delay=0.5)
        first, second = (
            cluster.do(node, Schedule(id=derive_id(cause), cause=cause, machines=(ref("web_0"),)))
            for cause in ("restart", "freeze")
        )
        being_stored = asyncio.create_task(first)
        await asyncio.sleep(0.001)
        waiting = asyncio.create_task(second)
        await asyncio.sleep(0)

        ahead = timedelta(minutes=-10)
        await being_stored

        with pytest.raises(StorageError, match=r"600\.000 s behind the database's"):
            await waiting

    run(story())


@pytest.mark.parametrize("offset", [5 * SECOND, -5 * SECOND])
def test_the_other_nodes_do_not_wait_for_a_node_whose_clock_is_wrong(offset: timedelta) -> None:
    async def story() -> None:
        cluster = await open_members()
        ahead = [timedelta(0)] * 3
        nodes = [await cluster.join(ahead=partial(ahead.__getitem__, one)) for one in range(3)]
        await cluster.create(nodes[0], "first")
        await asyncio.sleep(2.5)
        due = await announce(cluster, nodes[0], "web")

        ahead[nodes.index(ranked(nodes)[0])] = offset
        await cluster.sleep_until(due + SECOND)

        assert timedelta(0) <= lateness(cluster) < SECOND / 10

    run(story())


@pytest.mark.parametrize(
    ("offset", "state"),
    [
        pytest.param(0.2, ClockState.GOOD, id="200 ms ahead are good enough"),
        pytest.param(-0.2, ClockState.GOOD, id="200 ms behind are good enough"),
        pytest.param(0.3, ClockState.OFF, id="300 ms ahead are worth a warning"),
        pytest.param(-0.3, ClockState.OFF, id="300 ms behind are worth a warning"),
        pytest.param(1.1, ClockState.AHEAD, id="1.1 s ahead are too much"),
        pytest.param(-1.1, ClockState.BEHIND, id="1.1 s behind are too much"),
    ],
)
def test_a_node_knows_how_far_its_clock_is_off(offset: float, state: ClockState) -> None:
    async def story() -> None:
        cluster = await open_members()
        ahead = timedelta(0)
        node = await cluster.join(ahead=lambda: ahead)

        ahead = timedelta(seconds=offset)
        await asyncio.sleep(1.5)

        assert abs(node.membership.offset - ahead) < timedelta(milliseconds=5)
        assert node.membership.clock_state is state

    run(story())


def test_a_slow_heartbeat_is_no_reason_to_doubt_the_clock() -> None:
    async def story() -> None:
        cluster = await open_members()
        node = await cluster.join()

        node.link.weather = Weather(delay=8)
        await asyncio.sleep(120)

        assert node.membership.clock_state is ClockState.GOOD

    run(story())


@pytest.mark.parametrize("offset", [1.5, -1.5])
def test_a_node_whose_clock_is_off_by_more_than_a_second_does_not_start(offset: float) -> None:
    async def story() -> None:
        cluster = await open_members()
        other = await cluster.join()

        with pytest.raises(ClockOffError, match="synchronise the clocks"):
            await cluster.join(weather=Weather(delay=1), ahead=lambda: timedelta(seconds=offset))

        await asyncio.sleep(1.5)
        assert [member.report.name for member in other.membership.members] == ["node 0"]

    run(story())


class ActingDriver:
    """A driver that acts: an impact begins when it is applied, and is done five seconds later."""

    name = "acting"

    def __init__(self, begun: dict[tuple[str, str], datetime], leases: list[Lease]) -> None:
        self._begun = begun
        self._leases = leases
        self.hangs = False

    def reaches(self, host: HostId) -> bool:
        return True

    async def observe(self, impacts: Sequence[Impact], now: datetime) -> Sequence[Observation]:
        return [self._observe(impact, now) for impact in impacts]

    async def apply(self, impacts: Sequence[Impact], lease: Lease) -> None:
        if self.hangs:
            await asyncio.sleep(3600)
        self._leases.append(lease)
        for impact in impacts:
            assert (impact.event, impact.machine.name) not in self._begun, "begun twice"
            self._begun[impact.event, impact.machine.name] = lease.until

    async def watch(self) -> AsyncIterator[MachineRef]:
        return
        yield

    def _observe(self, impact: Impact, now: datetime) -> Observation:
        if (impact.event, impact.machine.name) not in self._begun:
            return impact.observed(Progress.NOT_BEGUN)
        done_at = impact.since + 5 * SECOND
        if now < done_at:
            return impact.observed(Progress.ACTING, again_at=done_at)
        return impact.observed(Progress.DONE)


def test_one_node_begins_an_impact_with_a_lease_whose_fence_grows() -> None:
    async def story() -> None:
        cluster = await open_members()
        begun: dict[tuple[str, str], datetime] = {}
        leases: list[Lease] = []
        nodes = [await cluster.join(driver=ActingDriver(begun, leases)) for _ in range(3)]
        await cluster.create(nodes[0], "web", machines=2)
        await asyncio.sleep(2.5)

        for machine in ("web_0", "web_1"):
            await cluster.do(nodes[0], restart(machine, machine))
            await cluster.do(nodes[0], Approve(scope=WEB, ids=(derive_id(machine),)))
            await asyncio.sleep(10)

        assert not cluster.scope("web").events
        assert [(lease.key, lease.owner, lease.fence) for lease in leases] == [
            ("driver/acting/web", ranked(nodes)[0].membership.id, fence) for fence in (1, 2)
        ]

    run(story())


def test_an_impact_whose_node_hangs_is_begun_by_another_once_the_lease_has_ended() -> None:
    async def story() -> None:
        cluster = await open_members()
        begun: dict[tuple[str, str], datetime] = {}
        leases: list[Lease] = []
        drivers = [ActingDriver(begun, leases) for _ in range(2)]
        nodes = [await cluster.join(driver=driver) for driver in drivers]
        await cluster.create(nodes[0], "web")
        await asyncio.sleep(2.5)
        first, second = ranked(nodes)
        drivers[nodes.index(first)].hangs = True

        await cluster.do(nodes[0], restart("web", "web_0"))
        await cluster.do(nodes[0], Approve(scope=WEB, ids=(derive_id("web"),)))
        await asyncio.sleep(60)

        assert not cluster.scope("web").events
        (lease,) = leases
        assert lease.owner == second.membership.id
        assert lease.fence > 1

    run(story())


def test_impacts_that_begin_one_after_another_do_not_put_off_each_other() -> None:
    async def story() -> None:
        cluster = await open_members()
        begun: dict[tuple[str, str], datetime] = {}
        node = await cluster.join(driver=ActingDriver(begun, []))
        await cluster.create(node, "web", machines=10)
        haunting = asyncio.create_task(haunt(cluster, 5))
        await asyncio.sleep(2.5)
        rank, started = node.membership.rank(WEB), cluster.now()

        for number in range(10):
            await cluster.do(node, restart(f"e{number}", f"web_{number}"))
            await cluster.do(node, Approve(scope=WEB, ids=(derive_id(f"e{number}"),)))
            await asyncio.sleep(0.5)
        await asyncio.sleep(5)

        haunting.cancel()
        first = min(until - LASTS for until in begun.values())
        assert rank > 0
        assert first - started < (rank + 0.5) * SECOND

    run(story())
