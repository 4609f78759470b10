"""Reports of operators about impacts that they carry out themselves."""

import msgspec
import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.model import EvictionPolicy, ScopeKind
from fairwarning.drivers.external import ExternalDriver
from fairwarning.operator import schemas
from tests.fleet_harness import NOON, span
from tests.operator.operator_client import OperatorTestClient, operator_client

PAIR = Blueprint(name="app", kind=ScopeKind.AVAILABILITY_SET, count=2, update_domains=1, fault_domains=1)
SPOT = Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True)


def fleet() -> OperatorTestClient:
    return operator_client(PAIR, SPOT, driver=ExternalDriver())


def started(client: OperatorTestClient, cause: str = "host-reboot", *machines: str) -> str:
    """Cause an event and let it start."""
    (event,) = client.cause(cause, *(machines or ("app-0", "app-1")), notice="0s").events
    return event.id


def report(client: OperatorTestClient, event: str, verb: str, **body: Json) -> schemas.EventBody:
    answer = client.call("POST", f"/events/{event}/{verb}", body)
    return msgspec.json.decode(answer, type=schemas.EventBody)


def test_the_history_says_who_reported_an_impact_as_done() -> None:
    client = fleet()
    event = started(client)

    report(client, event, "complete", machines=["app-0"])
    report(client, event, "complete")

    lines = [(line.kind, line.by, line.resources, line.reason) for line in client.history().history]
    assert lines[-3:] == [
        ("progressed", "operator", ["app-0"], "1 of 2 machines done"),
        ("progressed", "operator", ["app-0", "app-1"], "2 of 2 machines done"),
        ("finished", "platform", ["app-0", "app-1"], ""),
    ]


def test_an_event_without_a_report_stays_started() -> None:
    client = fleet()
    event = started(client)

    client.advance("30d")

    (pending,) = client.events()
    assert (pending.id, pending.status) == (event, "Started")


def test_completing_an_event_ends_it_on_all_of_its_machines() -> None:
    client = fleet()
    event = started(client)

    assert report(client, event, "complete").status == "Gone"
    assert client.events() == []


def test_an_event_is_over_when_each_of_its_machines_was_reported() -> None:
    client = fleet()
    event = started(client)

    assert report(client, event, "complete", machines=["app-0"]).status == "Started"
    assert report(client, event, "complete", machines=["app/app-1"]).status == "Gone"


def test_an_event_lists_the_machines_that_have_not_been_reported() -> None:
    client = fleet()
    event = started(client)

    halfway = report(client, event, "complete", machines=["app-0"])

    assert (halfway.resources, halfway.undone) == (["app-0", "app-1"], ["app-1"])


def test_completing_twice_changes_nothing_while_the_event_is_pending_and_is_unknown_afterwards() -> None:
    client = fleet()
    event = started(client)
    first = report(client, event, "complete", machines=["app-0"])
    written = client.stage.journal()

    assert report(client, event, "complete", machines=["app-0"]) == first
    assert client.stage.journal() == written

    report(client, event, "complete")

    assert client.refused("POST", f"/events/{event}/complete", {}).status == 404


def test_a_completed_eviction_has_stopped_its_machine_and_a_completed_delete_has_removed_it() -> None:
    client = fleet()

    report(client, started(client, "evict", "batch"), "complete")
    report(client, started(client, "delete", "app-1"), "complete")

    assert client.machine("batch").power == "stopped"
    assert client.refused("GET", "/machines/app-1").status == 404


def test_a_report_says_on_which_host_the_machines_are_now() -> None:
    client = fleet()
    event = started(client, "redeploy", "app-1")

    report(client, event, "complete", machines=["app-1"], moved_to="kvm-20")

    assert [client.machine(name).host for name in ("app-0", "app-1")] == ["host-app-0-0", "kvm-20"]
    assert [line.kind for line in client.history().history][-3:] == ["moved", "progressed", "finished"]


def test_a_repeated_report_of_a_host_is_about_machines_whose_impact_is_over_too() -> None:
    client = fleet()
    event = started(client)
    report(client, event, "complete", machines=["app-0"])

    report(client, event, "complete", machines=["app-0"], moved_to="kvm-20")

    assert client.machine("app-0").host == "kvm-20"


def test_a_report_may_say_on_which_host_a_machine_was_that_is_gone() -> None:
    client = fleet()

    report(client, started(client, "delete", "app-1"), "complete", moved_to="kvm-20")

    assert client.refused("GET", "/machines/app-1").status == 404


def test_an_eviction_that_deletes_removes_its_machine() -> None:
    client = operator_client(
        Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True, eviction=EvictionPolicy.DELETE),
        driver=ExternalDriver(),
    )

    report(client, started(client, "evict", "batch"), "complete")

    assert client.refused("GET", "/machines/batch").status == 404


def test_a_failure_is_an_attempt_and_the_event_stays_started() -> None:
    client = fleet()
    event = started(client)

    failed = report(client, event, "fail", machine="app-0", reason="no power")

    assert (failed.status, failed.attempt, failed.retry_at) == ("Started", 1, NOON + span("5s"))
    *_, line = client.history().history
    assert (line.kind, line.by, line.reason) == ("failed", "operator", "app-0: no power")
    assert report(client, event, "complete").status == "Gone"


@pytest.mark.parametrize(
    ("verb", "body", "status", "detail"),
    [
        pytest.param(
            "complete", {"machines": ["batch"]}, 422, "does not list batch", id="a machine of another scope"
        ),
        pytest.param(
            "complete", {"machines": ["web/app-0"]}, 422, "does not list web/app-0", id="another scope"
        ),
        pytest.param("complete", {"moved_to": ""}, 422, "moved_to", id="an empty host"),
        pytest.param("complete", {"moved_to": "a\u202eb"}, 422, "invisible", id="a hidden host"),
        pytest.param(
            "fail", {"machine": "nobody", "reason": "gone"}, 422, "does not list nobody", id="no machine"
        ),
        pytest.param("fail", {"machine": "app-0"}, 422, "reason", id="a failure without a reason"),
        pytest.param("fail", {"machine": "app-0", "reason": ""}, 422, "reason", id="an empty reason"),
        pytest.param(
            "fail", {"machine": "app-0", "reason": "a\u202eb"}, 422, "invisible", id="a hidden character"
        ),
    ],
)
def test_a_report_that_does_not_fit_the_event_is_refused(
    verb: str, body: Json, status: int, detail: str
) -> None:
    client = fleet()
    event = started(client)

    problem = client.refused("POST", f"/events/{event}/{verb}", body)

    assert problem.status == status
    assert detail in problem.detail
    assert client.events()[0].attempt == 0


def test_a_failure_after_the_impact_is_done_is_refused() -> None:
    client = fleet()
    event = started(client)
    report(client, event, "complete", machines=["app-0"])

    problem = client.refused("POST", f"/events/{event}/fail", {"machine": "app-0", "reason": "late"})

    assert (problem.status, problem.detail) == (409, f"event {event} is over for app-0")


def test_an_event_that_has_not_started_takes_no_report() -> None:
    client = fleet()
    (event,) = client.cause("restart", "app-0").events

    problem = client.refused("POST", f"/events/{event.id}/complete", {})

    assert (problem.status, problem.detail) == (
        409,
        f"event {event.id} is Scheduled; it cannot be completed",
    )


@pytest.mark.parametrize(("verb", "body"), [("complete", {}), ("fail", {"machine": "app-0", "reason": "x"})])
def test_simulated_machines_take_no_reports(verb: str, body: Json) -> None:
    client = operator_client(PAIR)
    event = started(client)

    problem = client.refused("POST", f"/events/{event}/{verb}", body)

    assert problem.status == 409
    assert (
        problem.detail
        == "the simulated driver ends impacts by itself; only the external driver takes reports"
    )


# -- overdue impacts


def overdue(client: OperatorTestClient) -> str:
    lines = client.send("GET", "/metrics").text.splitlines()
    return next(line for line in lines if line.startswith("fairwarning_overdue_impacts"))


def test_an_impact_that_takes_too_long_is_noted_once_per_attempt(caplog: pytest.LogCaptureFixture) -> None:
    client = fleet()
    event = started(client)
    client.advance("59m59s")
    assert not client.events()[0].overdue

    client.advance("1s")

    assert client.events()[0].overdue
    assert overdue(client) == "fairwarning_overdue_impacts 2"
    *_, line = client.history().history
    assert (line.kind, line.at, line.by) == ("overdue", NOON + span("1h"), "driver")
    assert line.reason.startswith("app-0: its end was not reported within 1h; app-1: ")

    client.advance("30d")
    client.stage.restart()
    client.stage.advance("1d")

    assert client.stage.story(event) == ["scheduled", "started", "overdue"]
    assert [record.levelname for record in caplog.records if "impact_overdue" in record.message] == [
        "WARNING"
    ]


def test_after_a_failure_the_next_attempt_has_its_full_time() -> None:
    client = fleet()
    event = started(client)
    report(client, event, "complete", machines=["app-1"])
    client.advance("1h")

    failed = report(client, event, "fail", machine="app-0", reason="no power")

    assert not failed.overdue
    assert overdue(client) == "fairwarning_overdue_impacts 0"

    client.advance("1h")
    assert not client.events()[0].overdue
    client.advance("5s")

    assert client.events()[0].overdue
    assert client.stage.story(event) == [
        *("scheduled", "started", "progressed", "overdue", "failed", "overdue")
    ]


def test_a_failure_of_one_machine_gives_no_time_to_another() -> None:
    client = fleet()
    event = started(client)
    client.advance("10m")
    report(client, event, "fail", machine="app-0", reason="no power")

    client.advance("50m")

    *_, line = client.history().history
    assert (line.kind, line.at) == ("overdue", NOON + span("1h"))
    assert line.reason == "app-1: its end was not reported within 1h"

    report(client, event, "fail", machine="app-0", reason="no power")
    client.advance("1s")

    assert client.events()[0].overdue


def test_machines_that_were_reported_are_not_overdue() -> None:
    client = fleet()
    event = started(client)
    client.advance("1h")

    report(client, event, "complete", machines=["app-0"])

    assert overdue(client) == "fairwarning_overdue_impacts 1"
