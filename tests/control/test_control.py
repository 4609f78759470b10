"""Actions: names are resolved in every try, and every call is one commit."""

import asyncio
from datetime import timedelta

import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.errors import AmbiguousNameError, UnknownHostError, UnknownMachineError
from fairwarning.core.model import (
    OPERATOR,
    ApprovalSettings,
    EventId,
    MachineRef,
    ScopeId,
    ScopeKind,
    VmName,
    guest,
)
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.engine.ports import Batch, StaleBatchError
from fairwarning.store.memory import MemoryStore
from tests.fleet_harness import NOON, FleetHarness, run
from tests.store.gate import Gate

SET = ScopeKind.AVAILABILITY_SET
ZONED = Blueprint(name="web", count=4, zones=("1", "2"))


def commits(gate: Gate) -> list[Batch]:
    """Return all commits so far."""
    return gate.batches


def test_a_change_of_a_sets_model_and_of_all_its_scopes_is_one_commit() -> None:
    gate = Gate(MemoryStore())
    stage = FleetHarness(ZONED, store=gate)
    gate.batches.clear()

    changed = run(
        Control(stage.engine).change_set(
            OPERATOR,
            "web",
            terminate_notice=timedelta(minutes=6),
            approvals=lambda approvals: ApprovalSettings(user_reboot=True),
        )
    )

    (commit,) = commits(gate)
    assert set(changed) == set(commit.after) == {"web.zone1", "web.zone2"}
    for scope in stage.engine.scopes().values():
        assert scope.facts.model.terminate_notice == timedelta(minutes=6)
        assert scope.facts.approvals.user_reboot


def test_a_change_of_no_setting_commits_nothing() -> None:
    gate = Gate(MemoryStore())
    stage = FleetHarness(ZONED, store=gate)
    gate.batches.clear()

    changed = run(Control(stage.engine).change_set(OPERATOR, "web"))

    assert (changed, commits(gate)) == (("web.zone1", "web.zone2"), [])


def test_a_request_that_is_decided_again_is_filled_again_with_the_same_ids() -> None:
    async def story() -> tuple[list[EventId], list[EventId]]:
        gate, ids = Gate(MemoryStore()), list[EventId]()
        engine = Engine(gate, ManualClock(NOON), SimulatedDriver(), Policy())
        await engine.open()
        control = Control(engine)
        await control.create_set(OPERATOR, Blueprint(name="web"))
        gate.open = False
        request = asyncio.create_task(
            control.carry_out(
                OPERATOR, lambda draft: ids.append(draft.cause("restart", [draft.view.machine("web_0").ref]))
            )
        )
        await gate.turn_away(StaleBatchError({}, await gate.last()))
        await gate.let_through()
        await request
        return ids, list(engine.scope(ScopeId("web")).events)

    ids, events = asyncio.run(story())

    assert ids == events * 2


def test_several_events_are_approved_in_one_commit() -> None:
    gate = Gate(MemoryStore())
    stage = FleetHarness(Blueprint(name="web", count=2), Blueprint(name="app", count=1), store=gate)
    events = [*stage.cause("restart", "web_0"), *stage.cause("restart", "app_0")]
    gate.batches.clear()

    approved = run(Control(stage.engine).approve(OPERATOR, *events))

    assert [event.id for event in approved.events] == events
    assert {event.approved_by for event in approved.events} == {"operator"}
    assert approved.counted
    assert len(commits(gate)) == 1


@pytest.mark.rule("R-17")
def test_a_second_approval_does_not_count_and_returns_the_event_as_it_is() -> None:
    stage = FleetHarness(Blueprint(name="web"))
    (event,) = stage.cause("restart", "web_0")
    control, web_0 = Control(stage.engine), guest(stage.ref("web_0"))
    first = run(control.approve(web_0, event.lower()))

    second = run(control.approve(OPERATOR, event))

    assert (first.counted, second.counted) == (True, False)
    assert first.events == second.events == (stage.event(event),)


def test_created_machines_have_their_endpoints_when_the_call_returns() -> None:
    stage, opened = FleetHarness(), list[MachineRef]()

    async def open_endpoints(machines: object) -> None:
        assert isinstance(machines, tuple)
        opened.extend(machines)

    control = Control(stage.engine, open_endpoints)

    created = run(control.create_set(OPERATOR, Blueprint(name="web", count=2)))
    added = run(control.add_machines(OPERATOR, "web", 1))

    assert created.scopes == ("web",)
    assert tuple(opened) == created.machines + added.machines
    assert [machine.name for machine in opened] == ["web_0", "web_1", "web_2"]


def test_an_announcement_says_whether_guests_can_see_it() -> None:
    stage = FleetHarness(Blueprint(name="web"))
    stage.make(Blueprint(name="app"), watched=False)
    control = Control(stage.engine)

    seen = run(control.cause(OPERATOR, "restart", ["web_0"]))
    unseen = run(control.start_rollout(OPERATOR, "app", "host-update"))

    assert (seen.warned, seen.hint) == (True, None)
    assert [event.resources for event in unseen.events] == [("app_0",)]
    assert not unseen.warned
    assert "no guest polls app" in (unseen.hint or "")


def test_an_error_about_a_name_says_which_part_of_the_request_is_at_fault() -> None:
    stage = FleetHarness(*(Blueprint(name=name, kind=SET, names=("twin",)) for name in "ab"))
    control = Control(stage.engine)

    with pytest.raises(UnknownMachineError) as unknown:
        run(control.cause(OPERATOR, "restart", ["a/twin", "ghost"]))
    with pytest.raises(AmbiguousNameError) as ambiguous:
        run(control.cause(OPERATOR, "restart", ["twin"]))
    with pytest.raises(UnknownHostError) as host:
        run(control.cause(OPERATOR, "restart", host="nowhere"))

    fields = [error.value.field for error in (unknown, ambiguous, host)]
    assert fields == ["machines[1]", "machines[0]", "host"]


def test_an_upgrade_takes_names_of_the_set_first() -> None:
    stage = FleetHarness(ZONED, Blueprint(name="other"))
    control = Control(stage.engine)

    upgraded = run(control.upgrade(OPERATOR, "web", ["web_0"]))

    assert upgraded == (MachineRef(ScopeId("web.zone1"), VmName("web_0")),)
    with pytest.raises(UnknownMachineError):
        run(control.upgrade(OPERATOR, "web", ["other_0"]))
