"""The example sequences, reproduced byte for byte by driving the engine."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Approve, Cancel, Command, CreateSet, Poll, Schedule
from fairwarning.core.document.render import render_document
from fairwarning.core.document.versions import EVENT_VERSIONS
from fairwarning.core.fleet import visible_events
from fairwarning.core.model import EventId, MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.time_control import advance_to
from fairwarning.store.memory import MemoryStore

DOCUMENTS = Path(__file__).parent / "documents"


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}").replace(tzinfo=UTC)


def vm(scope: str, name: str) -> MachineRef:
    return MachineRef(ScopeId(scope), VmName(name))


@dataclass(frozen=True)
class Story:
    """A fleet, what happens to it at which time, and how long to observe it."""

    blueprint: Blueprint
    watcher: str
    steps: Sequence[tuple[datetime, Command | None]]
    first_shown: bool = True
    policy: Policy = field(default_factory=Policy)


def approve(scope: str, event_id: str, by: str) -> Approve:
    return Approve(scope=ScopeId(scope), ids=(EventId(event_id),), machine=VmName(by), by=by)


FREEZE, REBOOT = "3F1C0A52-7B7E-4C55-9E0B-0C6A4B1D2E01", "9A44D1B7-52C6-4B0E-8C1D-77E0A9F3B602"
DELETE_1, DELETE_2 = "B0D5E6C3-1F2A-4E7D-A1B2-4C5D6E7F8003", "B0D5E6C3-1F2A-4E7D-A1B2-4C5D6E7F8004"
APPS = ("app-a", "app-b", "app-c")
CANCELLED = EventId("0E1F2A3B-4455-4667-8889-AABBCCDDEE06")

STORIES = {
    "A-availability-set": Story(
        Blueprint(
            name="app",
            kind=ScopeKind.AVAILABILITY_SET,
            count=3,
            names=APPS,
            update_domains=2,
            fault_domains=2,
        ),
        "app-a",
        [
            (
                at("16T10:00:00"),
                Schedule(
                    id=EventId(FREEZE),
                    cause="live-migrate",
                    machines=(vm("app", "app-a"), vm("app", "app-c")),
                ),
            ),
            (
                at("16T10:03:30"),
                Schedule(id=EventId(REBOOT), cause="restart", machines=(vm("app", "app-b"),)),
            ),
            (at("16T10:06:00"), approve("app", REBOOT, "app-b")),
            (at("16T10:30:00"), None),
        ],
    ),
    "B-scale-set-terminate": Story(
        Blueprint(name="web", count=3, terminate_notice=timedelta(minutes=5), incarnation=12),
        "web_0",
        [
            (
                at("16T11:00:00"),
                Schedule(id=EventId(DELETE_1), cause="delete", machines=(vm("web", "web_1"),)),
            ),
            (
                at("16T11:01:10"),
                Schedule(id=EventId(DELETE_2), cause="delete", machines=(vm("web", "web_2"),)),
            ),
            (at("16T11:02:00"), approve("web", DELETE_2, "web_2")),
            (at("16T11:02:30"), approve("web", DELETE_1, "web_1")),
            (at("16T11:30:00"), None),
        ],
    ),
    "C-spot-preempt": Story(
        Blueprint(name="spot1", kind=ScopeKind.STANDALONE, spot=True),
        "spot1",
        [
            (
                at("16T12:00:00"),
                Schedule(
                    id=EventId("D7E8F9A0-3344-4556-8778-99AABBCCDD05"),
                    cause="evict",
                    machines=(vm("spot1", "spot1"),),
                ),
            ),
            (at("16T12:00:59"), None),
        ],
    ),
    "D-cancelled": Story(
        Blueprint(
            name="app",
            kind=ScopeKind.AVAILABILITY_SET,
            count=3,
            names=APPS,
            update_domains=2,
            fault_domains=2,
            incarnation=20,
        ),
        "app-a",
        [
            (at("17T09:00:00"), Schedule(id=CANCELLED, cause="freeze", machines=(vm("app", "app-a"),))),
            (at("17T09:08:00"), Cancel(scope=ScopeId("app"), id=CANCELLED)),
        ],
        first_shown=False,
    ),
    "E-hardware-failure": Story(
        Blueprint(
            name="app",
            kind=ScopeKind.AVAILABILITY_SET,
            count=3,
            names=APPS,
            update_domains=2,
            fault_domains=2,
            incarnation=30,
        ),
        "app-a",
        [
            (
                at("17T10:00:00"),
                Schedule(
                    id=EventId("1A2B3C4D-5566-4778-899A-BBCCDDEEFF07"),
                    cause="hardware-failure",
                    machines=(vm("app", "app-b"),),
                ),
            ),
            (at("17T10:20:00"), None),
        ],
        first_shown=False,
    ),
    "F-cloud-service": Story(
        Blueprint(
            name="shop",
            kind=ScopeKind.CLOUD_SERVICE,
            roles=(("FrontEnd", 1), ("BackEnd", 1)),
            incarnation=4,
        ),
        "FrontEnd_IN_0",
        [
            (
                at("16T10:00:00"),
                Schedule(
                    id=EventId("2B3C4D5E-6677-4889-9AAB-CCDDEEFF0008"),
                    cause="host-reboot",
                    machines=(vm("shop", "FrontEnd_IN_0"), vm("shop", "BackEnd_IN_0")),
                ),
            ),
        ],
        first_shown=False,
    ),
}


async def watch(story: Story, version: str) -> list[bytes]:
    """Play a story and return every document of a guest that polls all the time."""
    start = story.steps[0][0]
    clock = ManualClock(start)
    engine = Engine(MemoryStore(), clock, SimulatedDriver(azure_timings=True), story.policy)
    scope_id = ScopeId(story.blueprint.name)
    shape = EVENT_VERSIONS[version]
    seen: dict[int, bytes] = {}

    def look() -> None:
        scope = engine.scope(scope_id)
        seen[scope.incarnation] = render_document(
            scope.incarnation, visible_events(scope), shape, scope.facts.kind
        )

    await engine.handle(CreateSet(seed="seed", blueprint=story.blueprint))
    await engine.handle(Poll(machine=MachineRef(scope_id, VmName(story.watcher))))
    if story.first_shown:
        look()
    for when, command in story.steps:
        while (deadline := engine.next_deadline()) is not None and deadline <= when:
            await advance_to(engine, clock, deadline)
            look()
        await advance_to(engine, clock, when)
        if command is not None:
            await engine.handle(command)
            await engine.tick()
            look()
    return list(seen.values())


@pytest.mark.rule("V-01")
@pytest.mark.rule("V-03")
@pytest.mark.rule("V-04")
@pytest.mark.rule("V-05")
@pytest.mark.rule("V-06")
@pytest.mark.rule("V-08")
@pytest.mark.rule("V-09")
@pytest.mark.rule("T-17")
@pytest.mark.parametrize("path", sorted(DOCUMENTS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_engine_writes_the_example_sequence_byte_for_byte(path: Path) -> None:
    version, story = path.stem.split(".")

    documents = asyncio.run(watch(STORIES[story], version))

    assert b"\n".join(documents) + b"\n" == path.read_bytes()


def test_all_forty_two_sequences_are_here() -> None:
    assert len(list(DOCUMENTS.glob("*.jsonl"))) == len(EVENT_VERSIONS) * len(STORIES) == 42
