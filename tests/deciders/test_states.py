"""A database that is away or read-only, and a journal that does not go on: states of a node, with names."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence

import pytest

from fairwarning.core.errors import StorageError
from fairwarning.core.model import EventStatus
from fairwarning.engine.decider import PATIENCE
from fairwarning.engine.membership import NotReadyReason
from fairwarning.engine.ports import (
    Batch,
    Entry,
    FleetSnapshot,
    GapError,
    Heartbeat,
    IncompatibleStoreError,
    NodeReport,
    StoreState,
)
from tests.deciders.cluster import ref, restart
from tests.deciders.link import NotReachedError
from tests.deciders.members import SECOND, MemberNode, Members, SharedLink, open_members
from tests.deciders.test_members import announce
from tests.deciders.virtual_time import run


async def serving(cluster: Members) -> MemberNode:
    """Return a node that may be sent traffic."""
    node = await cluster.join()
    node.membership.serving = True
    return node


def reasons(node: MemberNode) -> list[NotReadyReason]:
    return [problem.reason for problem in node.problems()]


def logged(caplog: pytest.LogCaptureFixture, *events: str) -> list[str]:
    """Return the log lines of these events; none may have a traceback."""
    records = [record for record in caplog.records if str(record.msg).startswith(events)]
    assert not any(record.exc_info for record in records)
    return [str(record.msg) for record in records]


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        pytest.param(StoreState.AWAY, NotReadyReason.DATABASE_AWAY, "does not answer", id="away"),
        pytest.param(StoreState.READ_ONLY, NotReadyReason.DATABASE_READ_ONLY, "is read-only", id="read-only"),
    ],
)
def test_without_its_database_a_node_answers_polls_and_says_what_is_wrong(
    state: StoreState, reason: NotReadyReason, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = await open_members()
        node = await serving(cluster)
        due = await announce(cluster, node, "web")
        assert reasons(node) == []
        assert node.trouble == ""

        cluster.table.state = state
        await cluster.sleep_until(due + 5 * SECOND)

        assert reasons(node) == [reason]
        assert words in node.trouble
        assert node.record_poll(ref("web_0"))
        assert cluster.event_of("web").status is EventStatus.SCHEDULED
        with pytest.raises(StorageError):
            await cluster.create(node, "other")

        cluster.table.state = StoreState.READY
        await asyncio.sleep(2.5)

        assert reasons(node) == []
        assert cluster.event_of("web").status is EventStatus.STARTED

    with caplog.at_level(logging.INFO, "fairwarning"):
        run(story())
    assert logged(caplog, "database_state") == [f"database_state state={state}", "database_state state=ready"]
    assert logged(caplog, "tick_failed") == []


def test_a_change_that_failed_while_the_database_was_away_is_forgotten_with_the_next_heartbeat() -> None:
    async def story() -> None:
        cluster = await open_members()
        node = await serving(cluster)
        await cluster.create(node, "web")
        cluster.table.state = StoreState.AWAY
        with pytest.raises(StorageError):
            await cluster.do(node, restart("r", "web_0"))

        cluster.table.state = StoreState.READY
        await asyncio.sleep(1.5)

        assert (node.trouble, reasons(node)) == ("", [])

    run(story())


class CutJournal(SharedLink):
    """A link on which the journal cannot be read for a while."""

    cut = False

    async def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        if self.cut:
            raise NotReachedError
        async for page in super().follow(after, stamp):
            if self.cut:
                raise NotReachedError
            yield page


def test_a_node_that_cannot_read_the_journal_is_not_ready_and_logs_it_once_without_a_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        cluster = await open_members()
        a, b = await cluster.join(), await cluster.join(link=CutJournal)
        assert isinstance(b.link, CutJournal)
        b.membership.serving = True
        b.link.cut = True

        await cluster.create(a, "web")
        await asyncio.sleep(4)
        soon = reasons(b)
        for number in range(26):
            await cluster.create(a, f"set{number}")
            await asyncio.sleep(1)
        later = reasons(b)
        b.link.cut = False
        await asyncio.sleep(2)

        assert (soon, later) == ([], [NotReadyReason.BEHIND])
        assert reasons(b) == []
        assert b.position == a.position
        await cluster.check()

    run(story())
    assert len(logged(caplog, "following_failed")) == 1


def test_a_change_that_is_stored_behind_lines_that_cannot_be_read_is_not_answered_as_lost() -> None:
    async def story() -> None:
        cluster = await open_members()
        a, b = await cluster.join(), await cluster.join(link=CutJournal)
        assert isinstance(b.link, CutJournal)
        b.link.cut = True
        await cluster.create(a, "web")

        with pytest.raises(StorageError, match="the change is stored") as failure:
            await cluster.create(b, "app")

        assert failure.value.outcome_unknown
        await asyncio.sleep(1)
        assert "app" in a.scopes()

    run(story())


class PrunedJournal(SharedLink):
    """A link on which the journal does not go on, and a snapshot takes its time."""

    is_pruned = False

    async def follow(self, after: int, stamp: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        async for page in super().follow(after, stamp):
            if self.is_pruned:
                raise GapError
            yield page

    async def snapshot(self) -> FleetSnapshot:
        if self.is_pruned:
            await asyncio.sleep(20)
            self.is_pruned = False
        return await super().snapshot()


def test_while_the_state_is_read_anew_polls_go_on_and_the_node_is_not_ready() -> None:
    async def story() -> None:
        cluster = await open_members()
        a, b = await cluster.join(), await cluster.join(link=PrunedJournal)
        b.membership.serving = True
        await cluster.create(a, "web")
        await asyncio.sleep(1)
        assert isinstance(b.link, PrunedJournal)
        b.link.is_pruned = True

        await cluster.create(a, "app")
        await asyncio.sleep(10)
        during = NotReadyReason.SNAPSHOT in reasons(b), b.record_poll(ref("web_0")), b.position == a.position
        await asyncio.sleep(15)

        assert during == (True, True, False)
        assert reasons(b) == []
        assert b.position == a.position
        await cluster.check()

    run(story())


def test_nodes_with_different_inventories_are_logged_after_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> tuple[int, int]:
        cluster = await open_members()
        a, b = await cluster.join(), await cluster.join()
        a.membership.inventory, b.membership.inventory = "12", "11"
        await asyncio.sleep(50)
        early = len(logged(caplog, "inventories_differ"))
        await asyncio.sleep(100)
        late = len(logged(caplog, "inventories_differ"))
        b.membership.inventory = "12"
        await asyncio.sleep(100)
        return early, late

    with caplog.at_level(logging.INFO, "fairwarning"):
        early, late = run(story())

    assert (early, late) == (0, 2)
    assert sorted(logged(caplog, "inventories_differ")) == [
        "inventories_differ own=11 others=12",
        "inventories_differ own=12 others=11",
    ]


def test_a_node_that_leaves_is_not_ready() -> None:
    async def story() -> None:
        cluster = await open_members()
        node = await serving(cluster)

        await node.membership.leave()

        assert reasons(node) == [NotReadyReason.LEAVING]

    run(story())


class UpgradedStore(SharedLink):
    """A link to a store that a newer version has changed."""

    is_newer = False

    async def heartbeat(self, report: NodeReport) -> Heartbeat:
        if self.is_newer:
            raise IncompatibleStoreError("use a newer version")
        return await super().heartbeat(report)


def test_a_node_that_cannot_use_the_store_any_more_says_so() -> None:
    async def story() -> None:
        cluster = await open_members()
        node = await cluster.join(link=UpgradedStore)
        assert isinstance(node.link, UpgradedStore)

        node.link.is_newer = True

        with pytest.raises(IncompatibleStoreError, match="use a newer version"):
            await asyncio.wait_for(node.heartbeats, 5)

    run(story())


class PatientLink(SharedLink):
    """A link that waits for a database that is away, as long as a decider waits."""

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        try:
            return await super().commit(batch)
        except NotReachedError:
            await asyncio.sleep(PATIENCE)
            raise


def test_no_request_waits_longer_for_its_database_than_a_decider_is_patient() -> None:
    async def story() -> list[float]:
        cluster = await open_members()
        node = await cluster.join(link=PatientLink)
        cluster.table.state = StoreState.AWAY
        loop = asyncio.get_running_loop()

        async def ask(number: int) -> float:
            await asyncio.sleep(number / 10)
            begun = loop.time()
            with pytest.raises(StorageError):
                await cluster.create(node, f"set{number}")
            return loop.time() - begun

        return await asyncio.gather(*map(ask, range(100)))

    assert max(run(story())) < PATIENCE + 0.1


def test_a_node_ends_at_once_although_its_database_is_away() -> None:
    async def story() -> float:
        cluster = await open_members()
        node = await cluster.join(link=PatientLink)
        await node.leases.hold("prune")
        cluster.table.state = StoreState.AWAY
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await node.end()
        return loop.time() - begun

    assert run(story()) < 1
