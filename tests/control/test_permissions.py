"""Who may ask for what: the table, and that every action asks it."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.control.control import Control
from fairwarning.control.draft import Draft
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged, EventMilestone, Published
from fairwarning.core.errors import FairWarningError, ForbiddenError, UnknownEventError, UnknownRolloutError
from fairwarning.core.history import CommandRefused
from fairwarning.core.inventory import InventoryVersion
from fairwarning.core.model import (
    OPERATOR,
    PLATFORM,
    ApprovalSettings,
    EventId,
    HostId,
    MachineRef,
    PowerState,
    Principal,
    PrincipalKind,
    ScopeId,
    VmName,
    guest,
)
from fairwarning.core.policy import Action, may
from fairwarning.core.stored.kinds import OPERATION, SESSIONS_ENDED
from tests.fleet_harness import FleetHarness, run

WEB, APP = ScopeId("web"), ScopeId("app")
WEB_0 = MachineRef(WEB, VmName("web_0"))
MANAGEMENT = Principal(PrincipalKind.MANAGEMENT)

#: What each kind of caller may do, in its own scope if it has one.
ALLOWED = {
    guest(WEB_0): {Action.POLL, Action.APPROVE},
    OPERATOR: set(Action) - {Action.POLL, Action.STORE_RESOURCE, Action.APPLY_INVENTORY},
    MANAGEMENT: {
        Action.APPROVE,
        Action.CAUSE,
        Action.CANCEL,
        Action.CREATE,
        Action.CHANGE,
        Action.ADD_MACHINES,
        Action.DELETE,
        Action.SET_POWER,
        Action.UPGRADE,
        Action.PROTECT,
        Action.SET_TAGS,
        Action.STORE_RESOURCE,
    },
    PLATFORM: set(Action),
}

#: One request for each action that a draft can hold.
REQUESTS: dict[Action, Callable[[Draft], object]] = {
    Action.APPROVE: lambda draft: draft.approve(WEB, EventId("E1")),
    Action.CAUSE: lambda draft: draft.cause("restart", [WEB_0]),
    Action.CANCEL: lambda draft: draft.cancel(WEB, EventId("E1")),
    Action.CREATE: lambda draft: draft.create_set(Blueprint(name="db")),
    Action.CHANGE: lambda draft: draft.set_approvals(WEB, ApprovalSettings(user_reboot=True)),
    Action.ADD_MACHINES: lambda draft: draft.add_machines(WEB),
    Action.APPLY_INVENTORY: lambda draft: draft.apply_inventory(InventoryVersion(digest="a"), (), ()),
    Action.DELETE: lambda draft: draft.delete_machines([WEB_0]),
    Action.SET_POWER: lambda draft: draft.set_power(WEB_0, PowerState.STOPPED),
    Action.MOVE: lambda draft: draft.move(WEB_0, HostId("h7")),
    Action.UPGRADE: lambda draft: draft.upgrade([WEB_0]),
    Action.PROTECT: lambda draft: draft.protect(WEB_0, protected=True),
    Action.SET_TAGS: lambda draft: draft.set_tags(WEB_0, (("team", "blue"),)),
    Action.START_ROLLOUT: lambda draft: draft.start_rollout(WEB, "host-update"),
    Action.STOP_ROLLOUT: lambda draft: draft.stop_rollout(WEB),
    Action.STORE_RESOURCE: lambda draft: draft.put_texts({OPERATION.key("a"): "text"}),
    Action.END_SESSION: lambda draft: draft.put_texts({SESSIONS_ENDED.key(): "text"}),
}


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("principal", ALLOWED, ids=lambda principal: principal.kind.value)
def test_each_kind_of_caller_may_do_what_the_table_says(principal: Principal, action: Action) -> None:
    assert may(principal, action, WEB) is (action in ALLOWED[principal])


@pytest.mark.rule("R-18")
@pytest.mark.parametrize("action", Action)
def test_a_guest_may_do_nothing_outside_its_own_scope(action: Action) -> None:
    assert not may(guest(WEB_0), action, APP)
    assert not may(guest(WEB_0), action)


@pytest.mark.parametrize("action", REQUESTS)
@pytest.mark.parametrize("principal", ALLOWED, ids=lambda principal: principal.kind.value)
def test_a_request_for_what_the_caller_may_not_do_is_forbidden(principal: Principal, action: Action) -> None:
    stage = FleetHarness(Blueprint(name="web", count=2))
    before, written = dict(stage.engine.scopes()), len(stage.journal())
    request = Control(stage.engine).carry_out(principal, lambda draft: _discard(REQUESTS[action](draft)))

    if action in ALLOWED[principal]:
        with suppress(UnknownEventError, UnknownRolloutError):
            run(request)
        return
    with pytest.raises(ForbiddenError) as forbidden:
        run(request)
    assert (forbidden.value.status_hint, forbidden.value.action) == (403, action)
    assert dict(stage.engine.scopes()) == before
    (line,) = stage.journal()[written:]
    assert isinstance(line.change, CommandRefused)


def test_a_set_cannot_be_deleted_or_changed_by_a_guest_of_it() -> None:
    stage = FleetHarness(Blueprint(name="web", count=2))
    control, web_0 = Control(stage.engine), guest(WEB_0)

    with pytest.raises(ForbiddenError):
        run(control.delete_set(web_0, "web"))
    with pytest.raises(ForbiddenError):
        run(control.change_set(web_0, "web", terminate_notice=None))
    with pytest.raises(ForbiddenError):
        run(control.carry_out(web_0, lambda draft: draft.set_tags_of_set([WEB], (("team", "blue"),))))


ASKED = st.one_of(
    st.tuples(st.just("approve"), st.integers(0, 3)),
    st.tuples(st.sampled_from(sorted(REQUESTS)), st.just(0)),
    st.tuples(st.sampled_from(["fault", "heal", "advance", "next", "poll elsewhere"]), st.just(0)),
)


@pytest.mark.rule("R-18")
@given(st.lists(ASKED, max_size=6))
def test_a_guest_changes_nothing_but_the_approvals_of_events_that_it_sees(
    asked: list[tuple[str, int]],
) -> None:
    stage = FleetHarness(Blueprint(name="web", count=3, broadcast=False), Blueprint(name="app", count=2))
    events = [stage.cause("restart", name)[0] for name in ("web_0", "web_1", "app_0")]
    control, me, written = Control(stage.engine), guest(WEB_0), len(stage.journal())

    async def ask(what: str, number: int) -> None:
        match what:
            case "approve":
                await control.approve(me, [*events, EventId("NONE")][number])
            case "fault":
                await control.set_fault(me, "web_1", "429")
            case "heal":
                await control.clear_fault(me, "web_1")
            case "advance":
                await control.advance(me, timedelta(minutes=1))
            case "next":
                await control.to_next_deadline(me)
            case "poll elsewhere":
                await control.poll(me, MachineRef(APP, VmName("app_0")))
            case _:
                await control.carry_out(me, lambda draft: _discard(REQUESTS[Action(what)](draft)))

    for what, number in asked:
        with suppress(FairWarningError):
            run(ask(what, number))

    for entry in stage.journal()[written:]:
        match entry.change:
            case CommandRefused(by=by):
                assert by == "web_0"
            case EventChanged(event=event, what=milestone, by=by):
                assert (event.id, by) == (events[0], "web_0")
                assert milestone in {EventMilestone.APPROVED, EventMilestone.STARTED}
            case Published(scope=scope):
                assert scope == WEB
            case change:
                raise AssertionError(change)


def _discard(value: object) -> None:
    """Return nothing, as a function that fills a draft does."""
