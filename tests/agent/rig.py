"""An agent for tests: its hooks record their calls, and its jobs run when the test says so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fairwarning.agent.client import RefusedError, UnavailableError
from fairwarning.agent.hooks import Hook, HookContext, HookOutcome
from fairwarning.agent.jobs import Job, Polled
from fairwarning.agent.journal import Journal
from fairwarning.agent.loop import Agent
from fairwarning.agent.plan import Action, AgentPolicy
from fairwarning.agent.settings import AgentSettings, Steps
from fairwarning.core.document.parse import ObservedDocument, parse_document
from fairwarning.core.model import EventId
from tests.agent.events import DRAIN, ME, NOON
from tests.guest import Cloud, start

Call = tuple[str, str]


@dataclass
class RecordingHook:
    """A hook that only records its calls; its outcome can be set."""

    calls: list[Call]
    answer: HookOutcome = field(default_factory=lambda: HookOutcome(True, "done", "ours"))
    remembered: list[str | None] = field(default_factory=list)
    deadlines: list[datetime | None] = field(default_factory=list)
    breaks: BaseException | None = None
    name: str = "recorded"

    def describe(self) -> str:
        return "record"

    def program(self) -> str | None:
        return None

    def run(self, context: HookContext, remembered: str | None, now: Callable[[], datetime]) -> HookOutcome:
        if self.breaks is not None:
            raise self.breaks
        self.calls.append((context.phase, context.event.key))
        self.remembered.append(remembered)
        self.deadlines.append(context.deadline)
        return self.answer


class FakeEndpoint:
    """An endpoint that accepts every approval, unless a problem is set."""

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls
        self.problem: RefusedError | UnavailableError | None = None
        self.at = NOON

    def now(self) -> datetime:
        return self.at

    def approve(self, event_id: EventId) -> None:
        if self.problem is not None:
            raise self.problem
        self.calls.append(("approve", event_id))


class FleetEndpoint:
    """The metadata API of a fleet in this process, as one of its machines uses it."""

    def __init__(self, cloud: Cloud, calls: list[Call], machine: str = ME) -> None:
        self.cloud = cloud
        self.calls = calls
        self.machine = machine

    def now(self) -> datetime:
        return self.cloud.clock.now()

    def approve(self, event_id: EventId) -> None:
        reply = self.cloud.post(start(event_id), self.machine)
        if reply.status != 200:
            raise RefusedError(reply.status, reply.body.decode())
        self.calls.append(("approve", event_id))

    def poll(self) -> Polled:
        return Polled(parse_document(self.cloud.get(self.machine).body))


@dataclass
class Rig:
    """An agent, the jobs that it started, and all calls in order."""

    folder: Path
    calls: list[Call]
    endpoint: FakeEndpoint | FleetEndpoint
    policy: AgentPolicy = field(default_factory=lambda: AgentPolicy(rules=(DRAIN,)))
    peers: Mapping[str, str] = field(default_factory=dict)
    check: tuple[str, ...] = ()
    dry_run: bool = False
    jobs: list[Job] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hook: RecordingHook = RecordingHook(self.calls)
        self.boot()

    def boot(self) -> None:
        """Start the agent, for the first time or after a reboot."""
        self.jobs.clear()
        self.journal = Journal(self.folder).__enter__()
        self.agent = Agent(
            self.settings(), self.journal, self.endpoint, self.jobs.append, dry_run=self.dry_run
        )

    def settings(self) -> AgentSettings:
        hooks: tuple[Hook, ...] = (self.hook,)
        return AgentSettings(
            machine=ME,
            state=self.folder,
            policy=self.policy,
            steps={rule.name: Steps(prepare=hooks, recover=hooks) for rule in self.policy.rules},
            peers=self.peers,
            check=self.check,
        )

    def die(self) -> None:
        """Stop the agent; only the disk survives."""
        self.journal.__exit__(None, None, None)

    def begin(self, document: ObservedDocument) -> tuple[Action, ...]:
        """Let the agent read a document and start what is due, without running the jobs."""
        self.agent.receive(Polled(document))
        return self.agent.turn()

    def show(self, document: ObservedDocument | None) -> None:
        """Let the agent read a document and do what is due."""
        self.agent.receive(Polled(document))
        self.settle()

    def poll(self) -> None:
        """Let the agent ask its endpoint and do what is due."""
        assert isinstance(self.endpoint, FleetEndpoint)
        self.agent.receive(self.endpoint.poll())
        self.settle()

    def settle(self) -> None:
        """Run jobs to their end until nothing is left to do."""
        self.agent.turn()
        while self.jobs:
            self.agent.receive(self.jobs.pop(0)())
            self.agent.turn()

    def reboot(self) -> None:
        """Stop the agent and start it again."""
        self.die()
        self.boot()
