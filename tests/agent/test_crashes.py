"""Invariants of the agent and the server when either may die at any moment."""

import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fairwarning.agent import jobs
from fairwarning.agent.client import RefusedError, UnavailableError
from fairwarning.agent.hooks import HookContext, HookOutcome
from fairwarning.agent.jobs import Job, Message, Polled, PollFailed
from fairwarning.agent.journal import Journal
from fairwarning.agent.loop import Agent
from fairwarning.agent.plan import AgentPolicy
from fairwarning.agent.settings import AgentSettings, Steps
from fairwarning.core.document.parse import ObservedDocument, ObservedEvent
from fairwarning.core.model import EventId
from tests.agent.events import DRAIN, ME, NOON, seen, started

NAMES = (("web_0",), ("web_0",), ("web_1",), ("web_0", "web_1"))


MOSTLY = st.sampled_from([True, True, True, False])
STATUSES = st.sampled_from(["Scheduled", "Scheduled", "Scheduled", "Started"])
FATES = st.sampled_from(["ok", "ok", "failure", "death"])


class Died(BaseException):
    """The machine went down in the middle of a hook."""


class Hook:
    """A hook whose end, if it has one, is decided from outside."""

    name = "hook"

    def __init__(self, world: "World") -> None:
        self.world = world

    def describe(self) -> str:
        return "hook"

    def program(self) -> str | None:
        return None

    def run(self, context: HookContext, remembered: str | None, now: Callable[[], datetime]) -> HookOutcome:
        return self.world.hook(context)


class World(RuleBasedStateMachine):
    """One machine, one server; every rule is one thing that may happen next."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.events: dict[EventId, ObservedEvent] = {}
        self.made = 0
        self.away = False
        self.fate = "ok"
        self.at = NOON
        self.crashed = False
        self.failed: set[EventId] = set()
        self.done: list[tuple[str, EventId]] = []
        self.prepared: set[EventId] = set()
        self.owed: set[EventId] = set()
        self.boot()

    # -- the machine

    def boot(self) -> None:
        self.jobs: list[Job] = []
        self.inbox: list[Message] = []
        self.known: ObservedDocument | None = None
        self.journal = Journal(Path(self.scratch.name)).__enter__()
        steps = Steps(prepare=(Hook(self),), recover=(Hook(self),))
        wishes = AgentSettings(machine=ME, policy=AgentPolicy(rules=(DRAIN,)), steps={DRAIN.name: steps})
        self.agent = Agent(wishes, self.journal, self, self.jobs.append)

    def hook(self, context: HookContext) -> HookOutcome:
        key = context.event.key
        if context.phase == "recover":
            assert self.known is not None
            listed = {event.key for event in self.known.events}
            assert key not in listed, "recovered while the event was still there"
        self.done.append((context.phase, key))
        if context.phase == "prepare":
            self.owed.add(key)
        if self.fate == "death":
            raise Died
        if self.fate == "failure":
            self.failed.add(key)
            return HookOutcome(False, "failed")
        self.prepared.add(key) if context.phase == "prepare" else self.owed.discard(key)
        return HookOutcome(True, "done")

    # -- the server, as the agent meets it

    def now(self) -> datetime:
        return self.at

    def approve(self, event_id: EventId) -> None:
        if self.away:
            raise UnavailableError("away")
        event = self.events.get(event_id)
        if event is None:
            raise RefusedError(400, "no such event")
        assert event.resources == (ME,), "approved for another machine"
        assert event_id in self.prepared, "approved without a successful preparation"
        self.done.append(("approve", event_id))
        self.events[event_id] = started(event)

    # -- what may happen

    @precondition(lambda self: len(self.events) < 3)
    @rule(who=st.sampled_from(NAMES), kind=st.sampled_from(["Reboot", "Redeploy"]), status=STATUSES)
    def announce(self, who: tuple[str, ...], kind: str, status: str) -> None:
        self.made += 1
        event = seen(f"E{self.made}", kind, *who)
        self.events[event.key] = started(event) if status == "Started" else event
        self.look(answered=True, heard=True)

    @precondition(lambda self: self.events)
    @rule(data=st.data(), gone=st.booleans(), heard=st.booleans())
    def go_on(self, data: st.DataObject, gone: bool, heard: bool) -> None:
        """Let an event start at its time, or leave: finished if it had started, else cancelled."""
        key = data.draw(st.sampled_from(sorted(self.events)))
        if gone:
            del self.events[key]
        else:
            self.events[key] = started(self.events[key])
        if heard:
            self.look(answered=True, heard=True)

    @rule(answered=MOSTLY, heard=MOSTLY)
    def look(self, answered: bool, heard: bool) -> None:
        """Poll a server that may be away; the loop may hear of it only later."""
        shown = ObservedDocument(incarnation=self.made, events=tuple(self.events.values()))
        self.inbox.append(Polled(shown) if answered else PollFailed("away"))
        if heard:
            self.turn()

    def turn(self) -> None:
        for message in self.inbox:
            if isinstance(message, Polled) and message.document is not None:
                self.known = message.document
            self.agent.receive(message)
        self.inbox.clear()
        self.agent.turn()

    @precondition(lambda self: self.jobs)
    @rule(fate=FATES, answered=MOSTLY, heard=MOSTLY)
    def work(self, fate: str, answered: bool, heard: bool) -> None:
        """Let a job run: to its end, into a failure, or into the death of the machine half way."""
        self.fate, self.away = fate, not answered
        try:
            self.inbox.append(self.jobs.pop(0)())
        except Died:
            self.crash()
        if heard:
            self.turn()

    @precondition(lambda self: self.jobs or self.inbox)
    @rule()
    def crash(self) -> None:
        self.crashed = True
        self.journal.__exit__(None, None, None)
        self.boot()

    # -- what always holds

    @invariant()
    def what_is_owed_is_on_the_disk(self) -> None:
        assert self.owed <= self.journal.records.keys()

    @invariant()
    def hooks_never_run_side_by_side(self) -> None:
        begun = [job for job in self.jobs if isinstance(job, partial) and job.func is not jobs.approve]
        assert len(begun) <= 1

    @invariant()
    def without_a_crash_everything_is_done_once(self) -> None:
        if not self.crashed:
            once = [step for step in self.done if step[1] not in self.failed]
            assert len(once) == len(set(once))

    def teardown(self) -> None:
        """In the end, when all is over and everybody is back, nothing is left undone."""
        try:
            self.settle()
            assert self.owed == set()
            assert dict(self.journal.records) == {}
        finally:
            self.journal.__exit__(None, None, None)
            self.scratch.cleanup()

    def settle(self) -> None:
        self.events.clear()
        self.away, self.fate = False, "ok"
        for _ in range(3 * self.made + 3):
            self.at += timedelta(days=1)  # every pause ends, also one that begins with a failure heard late
            self.look(answered=True, heard=True)
            while self.jobs:
                self.inbox.append(self.jobs.pop(0)())
        self.turn()


def test_a_recovery_whose_failure_is_heard_late_is_tried_again() -> None:
    world = World()
    world.announce(who=(ME,), kind="Reboot", status="Scheduled")
    world.work(fate="ok", answered=True, heard=True)  # prepares
    world.work(fate="ok", answered=True, heard=True)  # approves
    world.events.clear()
    world.look(answered=True, heard=True)
    world.work(fate="failure", answered=True, heard=False)

    world.teardown()

    assert [phase for phase, _ in world.done] == ["prepare", "approve", "recover", "recover"]


class ManyCrashes(World):
    """The same world, for more histories."""


TestCrashes = World.TestCase
TestCrashes.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)

TestManyCrashes = pytest.mark.slow(ManyCrashes.TestCase)
TestManyCrashes.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
