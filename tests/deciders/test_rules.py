"""The rules of a batch (``engine/decider.py``): each has a story that holds with the rule and fails without.

A rule is switched off from outside, where the parts of the engine meet: by another fold, follower, replica,
decider or store.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import Change, EventChanged, EventMilestone
from fairwarning.core.commands import CreateSet, DeleteScopes, Protect
from fairwarning.core.errors import FairWarningError, NameTakenError, StorageError
from fairwarning.core.model import EventStatus, Scope, ScopeId, derive_id
from fairwarning.engine import decider, engine
from fairwarning.engine.decider import Decider
from fairwarning.engine.directory import IndexedBy
from fairwarning.engine.fold import Fold, FoldView, ReadRecorder
from fairwarning.engine.follower import Follower
from fairwarning.engine.ports import Aggregate, Batch, Entry
from fairwarning.engine.replica import Replica
from fairwarning.engine.requests import Plan, View
from tests.deciders import cluster
from tests.deciders.cluster import Cluster, HookedLink, approve, on_host, open_cluster, ref, restart
from tests.deciders.link import NoAnswerError
from tests.deciders.virtual_time import run

WEB, DB = ScopeId("web"), ScopeId("db")


# -- stories


async def a_failed_batch_leaves_no_trace(nodes: Cluster) -> None:
    node = await nodes.start()
    await nodes.create(node, "web")
    before = node.scopes()[WEB]

    async def fail(batch: Batch) -> None:
        assert node.scopes()[WEB] is before
        raise StorageError("the disk is full", "full")

    nodes.links[0].before = fail
    with pytest.raises(StorageError):
        await nodes.do(node, restart("r", "web_0"))
    assert node.scopes()[WEB] is before


async def a_refused_request_leaves_no_trace(nodes: Cluster) -> None:
    node = await nodes.start()
    await nodes.create(node, "web", machines=2)
    half = nodes.do(node, Protect(machine=ref("web_0"), protected=True), restart("r", "web_9"))
    other = nodes.do(node, restart("s", "web_1"))
    refused, done = await asyncio.gather(half, other, return_exceptions=True)
    assert isinstance(refused, FairWarningError)
    assert not isinstance(done, BaseException)
    assert not node.machine(ref("web_0")).protected


async def a_refusal_beside_a_change_is_not_wrong_by_lag(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web")
    await nodes.create(a, "db")
    await nodes.catch_up()
    event = await nodes.announce(a, "web_0")
    await asyncio.gather(nodes.do(b, approve("web", event)), nodes.do(b, restart("r", "db_0")))
    assert nodes.event_of("web").status is EventStatus.STARTED


async def each_node_approves_one_half_of_a_barrier(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web", host="H")
    await nodes.create(a, "db", host="H")
    await nodes.ask(a, on_host("maintenance", "H"))
    await nodes.catch_up()
    web, db = nodes.event_of("web"), nodes.event_of("db")
    await asyncio.gather(nodes.do(a, approve("web", web.id)), nodes.do(b, approve("db", db.id)))
    assert nodes.event_of("web").status is nodes.event_of("db").status is EventStatus.STARTED


async def a_line_that_arrives_between_two_decisions_is_noticed(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web", machines=2)
    await nodes.create(a, "db")
    await nodes.catch_up()
    await nodes.do(a, restart("other", "web_1"))

    def hear_of_it(view: View) -> Plan:
        b.follower.install([entry for entry in nodes.store.entries if entry.seq > b.position])
        return Plan((restart("s", "db_0"),))

    await asyncio.gather(nodes.do(b, restart("r", "web_0")), nodes.ask(b, hear_of_it))
    assert len(nodes.scope("web").events) == 2


async def innocents_do_not_wait_for_a_hot_scope(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web", machines=9)
    await nodes.create(a, "db")
    await nodes.catch_up()
    link, numbers = nodes.links[0], iter(range(8))

    async def be_faster(batch: Batch) -> None:
        if WEB in batch.after and (number := next(numbers, None)) is not None:
            await nodes.do(b, restart(f"b{number}", f"web_{number}"))

    link.before, before = be_faster, link.counts["commit"]
    hot = asyncio.create_task(nodes.do(a, restart("hot", "web_8")))
    innocent = asyncio.create_task(nodes.do(a, restart("innocent", "db_0")))
    await innocent
    assert link.counts["commit"] - before == 2, "the innocent request was held up"
    await hot


async def a_refusal_is_never_wrong_by_lag(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web")
    await nodes.catch_up()
    event = await nodes.announce(a, "web_0")
    await nodes.do(b, approve("web", event))
    assert nodes.event_of("web").status is EventStatus.STARTED


async def who_has_an_answer_can_read_it(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web")
    await nodes.create(b, "db")
    assert b.scopes().keys() == {WEB, DB}


async def a_machine_on_the_host_is_not_forgotten(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web", host="H")
    await nodes.catch_up()
    await nodes.create(a, "db", host="H")
    await nodes.ask(b, on_host("maintenance", "H"))
    assert nodes.event_of("db").barrier == nodes.event_of("web").barrier


async def an_unknown_host_beside_a_change_is_looked_for_again(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web")
    await nodes.catch_up()
    await nodes.create(a, "db", host="H")
    await asyncio.gather(nodes.ask(b, on_host("maintenance", "H")), nodes.do(b, restart("r", "web_0")))
    assert nodes.event_of("db").cause == "host-reboot"


async def followers_count_requests_as_the_decider_does(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    await nodes.create(a, "web", machines=2)
    await asyncio.gather(nodes.do(a, restart("r", "web_0")), nodes.do(a, restart("s", "web_1")))
    assert len({entry.stamp for entry in nodes.store.entries}) == 2, "both restarts are in one batch"
    await nodes.catch_up()
    assert b.scopes()[WEB] == a.scopes()[WEB]


async def a_set_is_created_once(nodes: Cluster) -> None:
    a, b = await nodes.start(), await nodes.start()
    zones = Blueprint(name="web", count=2, zones=("1", "2"))
    made = nodes.do(a, CreateSet(seed="a", blueprint=zones))
    also = nodes.do(b, CreateSet(seed="b", blueprint=Blueprint(name="web", count=1)))
    results = await asyncio.gather(made, also, return_exceptions=True)
    assert [type(result) for result in results if isinstance(result, BaseException)] == [NameTakenError]
    assert len({scope.facts.zone == "" for scope in nodes.store.state.scopes.values()}) == 1


async def a_set_made_again_goes_on_from_its_last_incarnation(nodes: Cluster) -> None:
    node = await nodes.start()
    blueprint = Blueprint(name="web", count=0, incarnation=7)
    await nodes.do(node, CreateSet(seed="first", blueprint=blueprint))
    delete = DeleteScopes(id=derive_id("gone"), scopes=(WEB,))
    again = CreateSet(seed="second", blueprint=Blueprint(name="web", count=1))
    await asyncio.gather(nodes.do(node, delete), nodes.do(node, again))
    assert nodes.scope("web").incarnation == 8


async def a_lost_answer_is_asked_for_again(nodes: Cluster) -> None:
    node = await nodes.start()
    await nodes.create(node, "web")
    losses = iter(range(3))

    async def lose(batch: Batch) -> None:
        if next(losses, None) is not None:
            raise NoAnswerError

    nodes.links[0].after = lose
    result = await nodes.do(node, restart("r", "web_0"))
    milestones = [one.what for one in result.changes if isinstance(one, EventChanged)]
    assert milestones == [EventMilestone.SCHEDULED]


async def own_lines_are_known_wherever_they_come_first(nodes: Cluster) -> None:
    node = await nodes.start()
    await nodes.create(node, "web")
    nodes.listen(node)
    before, stored = node.position, list[Scope | None]()

    async def wait_for_the_follower(batch: Batch) -> None:
        while node.position == before:
            await asyncio.sleep(0.01)
        stored.append(batch.after[WEB])

    nodes.links[0].after = wait_for_the_follower
    await nodes.do(node, restart("r", "web_0"))
    assert node.scopes()[WEB] is stored[0]


async def a_barrier_waits_for_every_scope(nodes: Cluster) -> None:
    node = await nodes.start()
    await nodes.create(node, "web", host="H")
    await nodes.create(node, "db", host="H")
    await nodes.ask(node, on_host("maintenance", "H"))
    await nodes.do(node, approve("web", nodes.event_of("web").id))
    assert nodes.event_of("web").waiting
    await nodes.do(node, approve("db", nodes.event_of("db").id))
    assert not nodes.event_of("web").waiting
    assert not nodes.event_of("db").waiting


# -- what the engine would be without a rule


class PublicFold(Fold):
    """Shows what is being decided to everybody (not rule 1)."""

    def add(
        self,
        changes: Iterable[Change],
        after: Mapping[ScopeId, Scope | None],
        texts: Mapping[str, str | None],
    ) -> None:
        super().add(changes, after, texts)
        assert isinstance(self._below, Replica)
        self._below._scopes.update((one, scope) for one, scope in after.items() if scope is not None)


class HalfRefusingDecider(Decider):
    """Keeps the first commands of a request whose later ones are refused (not rule 1)."""

    def _decide(self, request: decider._Request, fold: Fold, reads: ReadRecorder) -> None:
        whole = request.build
        plan = whole(FoldView(reads))
        if len(plan.commands) > 1:
            request.build = lambda view: plan._replace(commands=plan.commands[:1])
        super()._decide(request, fold, reads)
        request.build = whole
        if len(plan.commands) > 1:
            request.outcome = FairWarningError("refused")


class ForgetfulLink(HookedLink):
    """Expects the stamps of what a batch writes, and of nothing else (not rule 2)."""

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        written = set(batch.written())
        expected = {one: stamp for one, stamp in batch.expected.items() if one in written}
        return await super().commit(batch._replace(expected=expected))


class LateStampsDecider(Decider):
    """Looks up the stamps after it has decided (not rule 2)."""

    async def _decide_all(
        self, requests: Sequence[decider._Request], fold: Fold, expected: dict[Aggregate, int]
    ) -> None:
        await super()._decide_all(requests, fold, expected)
        expected.update({aggregate: self._replica.stamp(aggregate) for aggregate in expected})


class AllTogetherDecider(Decider):
    """Decides losers and innocents together (not rule 3)."""

    def _take(self) -> list[decider._Request]:
        for request in self._gathered:
            request.lost = False
        return super()._take()


class HastyDecider(Decider):
    """Answers from what it knows (not rule 4)."""

    async def _answer_if_current(
        self, requests: list[decider._Request], start: tuple[int, int]
    ) -> list[decider._Request]:
        for request in requests:
            request.finish()
        return []


class DeafFollower(Follower):
    """Does not wait for the lines before its own (not rule 4)."""

    async def reach(self, number: int) -> None:
        return


class OneRequestReplica(Replica):
    """Takes a whole batch for one request (not rule 6)."""

    def apply(self, entries: Sequence[Entry]) -> Mapping[ScopeId, Scope | None]:
        return super().apply([entry._replace(request="") for entry in entries])


class NamelessFold(Fold):
    """Does not write the names of sets (not rule 7)."""

    def add(
        self,
        changes: Iterable[Change],
        after: Mapping[ScopeId, Scope | None],
        texts: Mapping[str, str | None],
    ) -> None:
        super().add(changes, after, texts)
        self.sets.clear()


class NewStampLink(HookedLink):
    """Gives a batch another stamp when it is sent again (not rule 8)."""

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        if batch.stamp in self.sent:
            batch = batch._replace(stamp=batch.stamp + 1000)
        return await super().commit(batch)


class StrangerFollower(Follower):
    """Does not recognise its own batches (not rule 8)."""

    def install(self, entries: Sequence[Entry]) -> None:
        self.in_flight = None
        super().install(entries)


class BlindReads(ReadRecorder):
    """Does not see who else is behind a barrier (not rule 9)."""

    def find(self, by: IndexedBy, key: str) -> tuple[ScopeId, ...]:
        return () if by is IndexedBy.BARRIER else super().find(by, key)


@dataclass(frozen=True, slots=True)
class Rule:
    """A story about a rule, and the part of the engine to replace so that the rule does not hold."""

    story: Callable[[Cluster], Awaitable[None]]
    where: object
    name: str
    substitute: object


RULES = {
    "1: the fold is private": Rule(a_failed_batch_leaves_no_trace, decider, "Fold", PublicFold),
    "1: a refused request leaves no trace": Rule(
        a_refused_request_leaves_no_trace, engine, "Decider", HalfRefusingDecider
    ),
    "2: every stamp read is expected": Rule(
        a_refusal_beside_a_change_is_not_wrong_by_lag, cluster, "HookedLink", ForgetfulLink
    ),
    "2: a scope that is read but not written is expected, too": Rule(
        each_node_approves_one_half_of_a_barrier, cluster, "HookedLink", ForgetfulLink
    ),
    "2: a stamp is the one that was read": Rule(
        a_line_that_arrives_between_two_decisions_is_noticed, engine, "Decider", LateStampsDecider
    ),
    "3: innocents first": Rule(innocents_do_not_wait_for_a_hot_scope, engine, "Decider", AllTogetherDecider),
    "4: a batch without a line asks for the last number": Rule(
        a_refusal_is_never_wrong_by_lag, engine, "Decider", HastyDecider
    ),
    "4: answers come after the batch is installed": Rule(
        who_has_an_answer_can_read_it, engine, "Follower", DeafFollower
    ),
    "5: a line that rests on a predicate is stored behind the line it was decided on": Rule(
        a_machine_on_the_host_is_not_forgotten, decider, "_needs_position", lambda request, start: False
    ),
    "5: a refusal that rests on a predicate is decided again": Rule(
        an_unknown_host_beside_a_change_is_looked_for_again,
        decider._Request,
        "is_fresh",
        lambda request, position: True,
    ),
    "6: requests keep their boundaries": Rule(
        followers_count_requests_as_the_decider_does, engine, "Replica", OneRequestReplica
    ),
    "7: the name of a set is an aggregate": Rule(a_set_is_created_once, decider, "Fold", NamelessFold),
    "7: the last incarnation goes with the name of a set": Rule(
        a_set_made_again_goes_on_from_its_last_incarnation, decider, "Fold", NamelessFold
    ),
    "8: the same batch is sent again": Rule(
        a_lost_answer_is_asked_for_again, cluster, "HookedLink", NewStampLink
    ),
    "8: own batches are recognised by their stamp": Rule(
        own_lines_are_known_wherever_they_come_first, engine, "Follower", StrangerFollower
    ),
    "9: scopes behind one barrier are read together": Rule(
        a_barrier_waits_for_every_scope, decider, "ReadRecorder", BlindReads
    ),
}


def tell(rule: Rule) -> None:
    async def story() -> None:
        nodes = await open_cluster()
        await rule.story(nodes)
        await nodes.check()

    run(story())


@pytest.mark.parametrize("name", RULES)
def test_the_story_of_a_rule_holds(name: str) -> None:
    tell(RULES[name])


@pytest.mark.parametrize("name", RULES)
def test_the_story_of_a_rule_fails_without_the_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = RULES[name]
    monkeypatch.setattr(rule.where, rule.name, rule.substitute)

    with pytest.raises(AssertionError):
        tell(rule)
