"""Agent and server, either of which may die at any moment: what holds in every history."""

import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fairwarning.agent import jobs
from fairwarning.agent.client import Refused, Unavailable
from fairwarning.agent.hooks import Occasion, Outcome
from fairwarning.agent.jobs import Job, Message, Polled, PollFailed
from fairwarning.agent.journal import Journal
from fairwarning.agent.loop import Agent
from fairwarning.agent.plan import Policy
from fairwarning.agent.settings import Settings, Steps
from fairwarning.core.model import EventId
from fairwarning.core.reading import Document, Seen
from tests.agent.sight import DRAIN, ME, NOON, seen, started

NAMES = (("web_0",), ("web_1",), ("web_0", "web_1"))


class Died(BaseException):
    """The machine went down in the middle of a hook."""


class Hook:
    """A hook whose end, if it has one, is decided from outside."""

    name = "hook"

    def __init__(self, world: "World") -> None:
        self.world = world

    def describe(self) -> str:
        return "hook"

    def run(self, occasion: Occasion, remembered: str | None, now: Callable[[], datetime]) -> Outcome:
        return self.world.hook(occasion)


class World(RuleBasedStateMachine):
    """One machine, one server; every rule is one thing that may happen next."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = tempfile.TemporaryDirectory()
        self.events: dict[EventId, Seen] = {}
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
        self.known: Document | None = None
        self.journal = Journal(Path(self.scratch.name)).__enter__()
        steps = Steps(prepare=(Hook(self),), recover=(Hook(self),))
        wishes = Settings(machine=ME, policy=Policy(rules=(DRAIN,)), steps={DRAIN.name: steps})
        self.agent = Agent(wishes, self.journal, self, self.jobs.append)

    def hook(self, occasion: Occasion) -> Outcome:
        key = occasion.event.key
        if occasion.phase == "recover":
            assert self.known is not None
            listed = {event.key for event in self.known.events}
            assert key not in listed, "recovered while the event was still there"
        self.done.append((occasion.phase, key))
        if occasion.phase == "prepare":
            self.owed.add(key)
        if self.fate == "death":
            raise Died
        if self.fate == "failure":
            self.failed.add(key)
            return Outcome(False, "failed")
        self.prepared.add(key) if occasion.phase == "prepare" else self.owed.discard(key)
        return Outcome(True, "done")

    # -- the server, as the agent meets it

    def now(self) -> datetime:
        return self.at

    def approve(self, event_id: EventId) -> None:
        if self.away:
            raise Unavailable("away")
        event = self.events.get(event_id)
        if event is None:
            raise Refused(400, "no such event")
        assert event.resources == (ME,), "approved for another machine"
        assert event_id in self.prepared, "approved without a successful preparation"
        self.done.append(("approve", event_id))
        self.events[event_id] = started(event)

    # -- what may happen

    @rule(who=st.sampled_from(NAMES), kind=st.sampled_from(["Reboot", "Redeploy"]), at_once=st.booleans())
    def announce(self, who: tuple[str, ...], kind: str, at_once: bool) -> None:
        self.made += 1
        event = seen(f"E{self.made}", kind, *who)
        self.events[event.key] = started(event) if at_once else event

    @precondition(lambda self: self.events)
    @rule(data=st.data(), gone=st.booleans())
    def go_on(self, data: st.DataObject, gone: bool) -> None:
        """Let an event start at its time, or leave: finished if it had started, else cancelled."""
        key = data.draw(st.sampled_from(sorted(self.events)))
        if gone:
            del self.events[key]
        else:
            self.events[key] = started(self.events[key])

    @rule(away=st.booleans())
    def lose_server(self, away: bool) -> None:
        self.away = away

    @rule()
    def poll(self) -> None:
        if self.away:
            self.inbox.append(PollFailed("away"))
        else:
            self.inbox.append(Polled(Document(incarnation=self.made, events=tuple(self.events.values()))))

    @rule()
    def turn(self) -> None:
        for message in self.inbox:
            if isinstance(message, Polled) and message.document is not None:
                self.known = message.document
            self.agent.take(message)
        self.inbox.clear()
        self.agent.turn()

    @precondition(lambda self: self.jobs)
    @rule(fate=st.sampled_from(["ok", "ok", "failure", "death"]))
    def run_job(self, fate: str) -> None:
        self.fate = fate
        try:
            self.inbox.append(self.jobs.pop(0)())
        except Died:
            self.crash()

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
        self.events.clear()
        self.away, self.fate = False, "ok"
        self.at += timedelta(days=1)  # every pause is over
        for _ in range(3 * self.made + 3):
            self.poll()
            self.turn()
            while self.jobs:
                self.inbox.append(self.jobs.pop(0)())
        self.turn()
        assert self.owed == set()
        assert dict(self.journal.records) == {}
        self.journal.__exit__(None, None, None)
        self.scratch.cleanup()


TestCrashes = World.TestCase
TestCrashes.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
