"""The page of one machine."""

import asyncio
import html
from math import inf

import pytest

from fairwarning.console.pages import machine
from fairwarning.console.pages.machine import LINES
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.document.endpoint_faults import FAULT_DESCRIPTIONS, EndpointFault
from fairwarning.core.document.versions import EVENT_VERSIONS
from fairwarning.core.model import EventStatus, PowerState, ScopeKind
from fairwarning.engine.faults import ActiveFault
from tests.console.console_client import ConsoleTestClient, ParsedPage, console_client, text
from tests.fleet_harness import run, span

WEB = Blueprint(name="web", count=3, terminate_notice=span("5m"))
BATCH = Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True)
HERE = "/machines/web_0"
HOSTILE = "\"><script>alert('x')</script>"


def buttons(page: str) -> set[str]:
    """Return what can be caused at the press of a button."""
    return {
        element["value"] for element in ParsedPage(page, "input").attributes if element.get("name") == "cause"
    }


def bytes_shown(page: str) -> bytes:
    """Return the document on the page, to the byte."""
    shown = page.partition('class="bytes"')[2].partition(">")[2].partition("</pre>")[0]
    return html.unescape(shown).encode()


# -- what it sees


@pytest.mark.parametrize("version", EVENT_VERSIONS)
def test_the_document_is_what_the_machine_would_read_to_the_byte(version: str) -> None:
    client = console_client(WEB)
    client.stage.cause("restart", "web_0")
    client.stage.cause("delete", "web_1")

    page = client.page(f"{HERE}?version={version}")

    assert bytes_shown(page) == client.stage.document("web_0", version)
    assert f"api-version={version}" in text(page)


@pytest.mark.parametrize("version", ["", "2099-01-01", HOSTILE])
def test_a_version_that_is_not_served_is_the_newest(version: str) -> None:
    client = console_client(WEB)

    assert "api-version=2020-07-01" in text(client.page(f"{HERE}?version={version}"))


def test_a_machine_that_sees_only_its_own_events_is_shown_to_do_so() -> None:
    client = console_client(Blueprint(name="web", count=2, broadcast=False))
    client.stage.cause("restart", "web_0")

    assert b"Reboot" in bytes_shown(client.page("/machines/web_0"))
    assert b"Reboot" not in bytes_shown(client.page("/machines/web_1"))


def test_looking_at_the_page_is_no_poll() -> None:
    client = console_client(WEB, watched=False)

    client.page(HERE)

    assert not client.stage.scope("web").enabled


def test_the_request_can_be_pasted() -> None:
    page = console_client(WEB).page(HERE)

    wanted = (
        'curl -H Metadata:true "http://127.0.0.1:8101/web_0/metadata/scheduledevents?api-version=2020-07-01"'
    )
    assert wanted in text(page)
    assert ParsedPage(page, "button").attributes


def test_a_machine_without_an_endpoint_says_so() -> None:
    page = console_client(Blueprint(name="elsewhere", kind=ScopeKind.STANDALONE)).page("/machines/elsewhere")

    assert "no metadata endpoint" in text(page)
    assert "curl" not in text(page)


def test_facts_events_and_history_are_told() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.approve(event, by="web_1")

    words = text(client.page(HERE))

    assert "Update domain 0 Fault domain 0 Host host-web-0-0" in words
    assert "Termination notice 5m" in words
    assert "Reboot: started 2026-11-16 12:00:00Z, approved by web_1" in words
    assert "approved Reboot web_1" in words
    assert "scheduled Reboot operator" in words


def test_only_the_latest_history_is_told() -> None:
    client = console_client(WEB)
    for _ in range(LINES):
        client.stage.cancel(*client.stage.cause("restart", "web_0"))

    page = client.page(HERE)

    assert page.count("<tr>") == LINES + 1
    assert "/history?scope=web&amp;machine=web_0" in page


def test_a_history_that_was_not_read_to_its_end_does_not_claim_that_nothing_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "REACH", 3)
    client = console_client(WEB)
    for _ in range(5):
        client.stage.cancel(*client.stage.cause("restart", "web_1"))

    page = client.page(HERE)

    assert "No lines about this machine in the part that was searched" in text(page)
    assert "Search further back" in text(page)


def test_what_happens_to_others_does_not_crowd_out_a_machines_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(machine, "REACH", 20)
    client = console_client(WEB, BATCH)
    for _ in range(20):
        client.stage.cancel(*client.stage.cause("restart", "batch"))

    assert "machine running" in text(client.page(HERE))


# -- what can be done to it


@pytest.mark.rule("L-14")
@pytest.mark.parametrize("cause", ["restart", "redeploy", "freeze"])
def test_a_button_warns_the_guests(cause: str) -> None:
    client = console_client(WEB)

    page = client.accepted(f"{HERE}/cause", HERE, cause=cause)

    assert "guests have been warned" in text(page)
    (event,) = client.stage.pending("web")
    assert (event.cause, event.status) == (cause, EventStatus.SCHEDULED)
    assert client.stage.history()[-1].by == "operator:console"


def test_a_button_says_so_if_the_scope_is_not_polled() -> None:
    client = console_client(WEB, watched=False)

    page = client.accepted(f"{HERE}/cause", HERE, cause="restart")

    assert "no guest polls web: the action happened at once" in text(page)


def test_only_a_spot_machine_can_be_evicted() -> None:
    client = console_client(WEB, BATCH)

    assert buttons(client.page(HERE)) == {"restart", "redeploy", "freeze"}
    assert buttons(client.page("/machines/batch")) == {"restart", "redeploy", "freeze", "evict"}
    assert "is not a Spot machine" in text(client.refused(f"{HERE}/cause", HERE, cause="evict", status=409))


def test_what_cannot_be_done_is_told_in_place() -> None:
    client = console_client(WEB)
    client.accepted(f"{HERE}/cause", HERE, cause="restart")

    page = client.refused(f"{HERE}/cause", HERE, cause="restart", status=409)

    assert "web_0 already has an unfinished Reboot" in text(page)


@pytest.mark.parametrize("cause", ["", "delete", "host-update", HOSTILE])
def test_what_has_no_button_cannot_be_pressed(cause: str) -> None:
    client = console_client(WEB)

    page = client.refused(f"{HERE}/cause", HERE, cause=cause, status=422)

    assert HOSTILE not in page
    assert client.stage.pending("web") == ()


def test_a_machine_is_stopped_and_started() -> None:
    client = console_client(WEB)

    stopped = client.accepted(f"{HERE}/power", HERE, power="stopped")
    power = client.stage.machine("web_0").power
    started = client.accepted(f"{HERE}/power", HERE, power="running")

    assert power is PowerState.STOPPED
    assert "web_0 is stopped" in text(stopped)
    assert "○ stopped" in text(stopped)
    assert "web_0 is running" in text(started)
    assert client.stage.machine("web_0").power is PowerState.RUNNING


@pytest.mark.parametrize("power", ["", "bogus", "STOPPED", HOSTILE])
def test_a_power_that_is_none_leaves_the_machine_alone(power: str) -> None:
    client = console_client(WEB)

    page = client.refused(f"{HERE}/power", HERE, power=power, status=422)

    assert "is not one of running, stopped" in text(page)
    assert HOSTILE not in page
    assert client.stage.machine("web_0").power is PowerState.RUNNING


def test_a_machine_is_deleted_after_a_question_and_with_its_warning() -> None:
    client = console_client(WEB)
    asked = client.page(f"{HERE}/delete")

    page = client.accepted(f"{HERE}/delete", f"{HERE}/delete")

    assert "warned 5m ahead" in text(asked)
    assert "guests have been warned" in text(page)
    (event,) = client.stage.pending("web")
    assert event.kind == "Terminate"
    assert "web_0" in client.stage.machines("web")


def test_a_machine_whose_warning_is_skipped_is_gone() -> None:
    client = console_client(WEB)

    page = client.accepted(f"{HERE}/delete", f"{HERE}/delete", force="on")
    client.stage.advance("1m")

    assert "Delete: done without a warning" in text(page)
    assert "web_0" not in client.stage.machines("web")


def test_a_machine_without_notification_is_deleted_at_once() -> None:
    assert "it is deleted at once" in text(console_client(BATCH).page("/machines/batch/delete"))


@pytest.mark.rule("R-23")
def test_a_machine_in_an_unpolled_scope_is_deleted_at_once() -> None:
    client = console_client(WEB, watched=False)

    asked = text(client.page(f"{HERE}/delete"))
    client.accepted(f"{HERE}/delete", f"{HERE}/delete")
    client.stage.advance("1m")

    assert "warned 5m ahead" not in asked
    assert "the machine is deleted at once" in asked
    assert "web_0" not in client.stage.machines("web")


# -- the faults of its endpoint


def fault_of(client: ConsoleTestClient, name: str) -> ActiveFault | None:
    async def ask() -> ActiveFault | None:
        return client.stage.engine.faults.of(client.stage.ref(name), asyncio.get_running_loop().time())

    return run(ask())


def test_every_fault_there_is_can_be_chosen() -> None:
    page = console_client(WEB).page(HERE)

    assert set(FAULT_DESCRIPTIONS) == set(EndpointFault)
    chosen = {element.get("value", "") for element in ParsedPage(page, "option").attributes}
    assert chosen >= set(FAULT_DESCRIPTIONS)


@pytest.mark.parametrize("kind", EndpointFault)
def test_a_fault_of_an_endpoint_lasts_until_it_is_cleared(kind: EndpointFault) -> None:
    client = console_client(WEB)

    faulty = client.accepted(f"{HERE}/fault", HERE, fault=kind, lasts="", delay="3s")
    fault = fault_of(client, "web_0")
    cleared = client.accepted(f"{HERE}/heal", HERE)

    assert fault == ActiveFault(kind, inf, 3.0)
    assert f"The endpoint has the fault {kind}" in text(faulty)
    assert "The endpoint works normally." in text(cleared)
    assert fault_of(client, "web_0") is None


def test_a_fault_can_be_given_for_a_while() -> None:
    client = console_client(WEB)

    client.accepted(f"{HERE}/fault", HERE, fault="429", lasts="30s")

    fault = fault_of(client, "web_0")
    assert fault is not None
    assert fault.until < inf


@pytest.mark.parametrize(
    ("form", "field"),
    [
        pytest.param({"fault": "flu"}, "fault", id="no fault"),
        pytest.param({"fault": "slow", "delay": "soon"}, "delay", id="no delay"),
        pytest.param({"fault": "slow", "lasts": HOSTILE}, "lasts", id="no length"),
    ],
)
def test_an_invalid_fault_is_refused_in_place(form: dict[str, str], field: str) -> None:
    client = console_client(WEB)

    page = client.refused(f"{HERE}/fault", HERE, status=422, **form)

    assert HOSTILE not in page
    assert f'href="#{field}"' in page
    assert fault_of(client, "web_0") is None


# -- names


def test_tags_are_shown_as_text() -> None:
    tagged = Blueprint(name="db", kind=ScopeKind.STANDALONE, tags=((HOSTILE, HOSTILE),))

    page = console_client(tagged).page("/machines/db")

    assert HOSTILE not in page
    assert f"{HOSTILE}={HOSTILE}" in text(page)


def test_who_did_something_is_shown_as_text() -> None:
    client = console_client(WEB)
    (event,) = client.stage.cause("restart", "web_0")
    client.stage.approve(event, by="web_1")

    assert "<script>alert" not in client.page(HERE)


def test_a_name_that_several_have_is_asked_about() -> None:
    client = console_client(
        Blueprint(name="one", names=("same",), kind=ScopeKind.AVAILABILITY_SET),
        Blueprint(name="two", names=("same",), kind=ScopeKind.AVAILABILITY_SET),
        watched=False,
    )

    page = client.page("/machines/same", status=409)

    assert "one/same" in text(page)
    assert client.page("/machines/two/same")
