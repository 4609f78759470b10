"""The pages of hosts: the list, the page of one host, and what can be done there."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from fairwarning.console.pages import hosts
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.maintenance.values import MaintenanceBudget, MaintenancePhase, OnSilence
from fairwarning.core.model import OPERATOR
from fairwarning.engine.directory import Directory
from tests.console.console_client import ParsedPage, console_client, text
from tests.console.hosts_client import HostsClient
from tests.console.stream import live
from tests.core.maintained import TWO_HOSTS
from tests.fleet_harness import run

HERE = "/hosts/kvm-1"
HOSTILE = "<img src=x onerror=alert(1)>"


def rows(page: str) -> str:
    """Return the text of the list of hosts."""
    return text(page).partition("Not polled ")[2]


# -- the list


def test_the_list_shows_each_host_with_its_machines_tenants_and_state() -> None:
    client = HostsClient()
    client.fleet.poll("web_0", "db_0", "app_0")
    client.fleet.maintain("kvm-2", opens="5h")

    words = rows(client.page("/hosts"))

    assert "kvm-1 ● in service 2 web, db" in words
    assert "kvm-2 ▲ to be maintained host-reboot not before Mon 2026-11-16 18:00 +01:00 2 web, app" in words


def test_the_list_shows_who_is_in_maintenance_who_is_on_hold_and_who_does_not_poll() -> None:
    client = HostsClient()
    client.fleet.poll("web_0", "app_0")
    client.fleet.maintain("kvm-2")
    client.fleet.approve_all()
    client.fleet.hold("DIMM 3", host="kvm-1")

    words = rows(client.page("/hosts"))

    assert "kvm-1 ‖ on hold hold: DIMM 3 2 web, db ◌ db" in words
    assert "kvm-2 ▶ in maintenance host-reboot 2 web, app" in words


def test_a_host_that_is_to_be_maintained_and_on_hold_shows_both() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")
    client.fleet.hold("", host="kvm-1")

    assert "kvm-1 ▲ to be maintained on hold host-reboot" in rows(client.page("/hosts"))


def test_a_host_is_found_by_a_part_of_its_name() -> None:
    words = rows(HostsClient().page("/hosts?q=VM-2"))

    assert "kvm-2" in words
    assert "kvm-1" not in words


def test_a_name_that_no_host_has_says_so() -> None:
    assert "No host matches “rack”. Show all" in text(HostsClient().page("/hosts?q=rack"))


def test_without_hosts_the_page_says_what_to_do_first() -> None:
    assert "No hosts yet" in text(console_client().page("/hosts"))


def test_a_long_list_comes_in_pages_that_keep_the_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "PAGE_SIZE", 2)
    client = HostsClient({"web": {f"web_{n}": f"kvm-{n}" for n in range(5)}, "db": {"db_0": "rack"}})

    page = client.page("/hosts?q=kvm&from=2")

    shown = [link["href"] for link in ParsedPage(page, "a").attributes]
    assert [path for path in shown if path.startswith("/hosts/")] == ["/hosts/kvm-2", "/hosts/kvm-3"]
    assert "?q=kvm&from=4" in shown
    assert "1–2 3–4 5–5" in text(page)


def test_the_list_looks_up_no_machine_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    client = HostsClient()
    monkeypatch.setattr(Directory, "machines_on_host", None)

    assert "kvm-1" in client.page("/hosts")


def test_the_menu_leads_to_the_hosts_and_a_machine_to_its_host() -> None:
    client = HostsClient()

    assert "/hosts" in [link["href"] for link in ParsedPage(client.page("/"), "a").attributes]
    assert "/hosts/kvm-2" in client.page("/machines/web/web_1")


# -- the page of a host


def test_the_page_of_a_host_shows_its_machines_with_state_and_scope() -> None:
    client = HostsClient()
    client.fleet.poll("web_0")
    client.fleet.maintain("kvm-1", opens="5h")

    words = text(client.page(HERE))

    assert "db_0 ● running db availability set ◌ not polled" in words
    assert "web_0 ▲ warned web availability set" in words
    assert "web_1" not in words


@pytest.mark.rule("M-03")
def test_the_page_of_a_host_shows_the_window_in_the_zone_of_the_fleet() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h", closes="9h", on_silence=OnSilence.ASK)

    words = text(client.page(HERE))

    assert "Window opens Mon 2026-11-16 18:00 +01:00 Window closes Mon 2026-11-16 22:00 +01:00" in words
    assert "If a tenant is silent, it waits for an approval" in words
    assert "Phase ▲ scheduled" in words


def test_every_tenant_has_a_sentence_that_says_what_blocks() -> None:
    client = HostsClient({"web": {"web_0": "kvm-1"}, "db": {"db_0": "kvm-1"}, "app": {"app_0": "kvm-1"}})
    client.fleet.poll("web_0", "app_0")
    client.fleet.maintain("kvm-1", opens="5h", on_silence=OnSilence.ASK)
    client.fleet.approve(client.fleet.the_event("app").id, by="app_0")

    words = text(client.page(HERE))

    assert "✓ app: approved by app_0" in words
    assert "◌ db: silent: no guest polls" in words
    assert "▲ web: not approved (" in words
    assert "Waits for window, Mon 2026-11-16 18:00 +01:00 · approval of" in words


@pytest.mark.rule("M-12")
def test_a_tenant_with_several_events_says_how_many_are_approved() -> None:
    client = HostsClient()
    client.fleet.poll("web_0")
    client.fleet.maintain("kvm-1", opens="5h")
    client.fleet.approve(client.fleet.the_event("web").id)
    client.fleet.apply({"web": {"web_0": "kvm-1", "web_2": "kvm-1"}, "db": {"db_0": "kvm-1"}})

    assert "▲ web: 1 of 2 events approved" in text(client.page(HERE))


@pytest.mark.rule("M-13")
def test_a_tenant_that_was_silent_until_not_before_no_longer_blocks() -> None:
    client = HostsClient()
    client.fleet.poll("web_0")
    client.fleet.maintain("kvm-1")
    client.fleet.hold("INC-88")

    client.fleet.advance("15m")

    words = text(client.page(HERE))
    assert "✓ web: not approved; since NotBefore, silence is consent" in words
    assert "Waits for hold: INC-88" in words


def test_a_maintenance_that_has_started_says_how_many_machines_are_done() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1")
    client.fleet.approve_all()

    words = text(client.page(HERE))

    assert "▶ in maintenance" in words
    assert "▶ db: started, 0 of 1 machine done" in words
    assert "Waits for" not in words


@pytest.mark.rule("M-05")
def test_a_maintenance_that_waits_for_places_says_which_machine_is_down() -> None:
    client = HostsClient(TWO_HOSTS, MaintenanceBudget(each="scope", most=1))
    client.fleet.maintain("kvm-2")
    client.fleet.approve_all()
    client.fleet.maintain("kvm-1")
    client.fleet.approve_all()

    assert "Waits for budget scope=web: web/web_1 is down" in text(client.page(HERE))


@pytest.mark.rule("M-01")
def test_the_last_maintenances_say_whether_they_were_done_and_why_not() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", cause="host-update", opens="1h", closes="2h", on_silence=OnSilence.SKIP)
    client.fleet.advance("1h")
    client.fleet.maintain("kvm-1")
    client.fleet.approve_all()
    client.fleet.complete()

    words = text(client.page(HERE)).partition("Earlier maintenance")[2]

    assert words.index("host-reboot ✓ done 2") < words.index("host-update ✕ withdrawn: no approval of")


def test_the_maintenance_of_another_host_whose_name_begins_alike_is_not_shown() -> None:
    client = HostsClient({"web": {"web_0": "kvm-1", "web_1": "kvm-1:b"}})
    client.fleet.maintain("kvm-1:b", opens="5h")
    run(client.fleet.control.maintenances.cancel(OPERATOR, "kvm-1:b"))

    assert "None yet." in text(client.page(HERE)).partition("Earlier maintenance")[2]
    assert "withdrawn" in text(client.page("/hosts/kvm-1:b"))


def test_a_host_that_no_machine_is_on_any_more_keeps_its_page() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")
    client.ask("cancel")
    client.fleet.apply({"web": {"web_0": "kvm-2", "web_1": "kvm-2"}})

    assert "No machine is on this host now." in text(client.page(HERE))


def test_a_host_that_is_not_known_is_refused_in_words() -> None:
    assert "no machine is on host nowhere" in text(HostsClient().page("/hosts/nowhere", status=404))


def test_the_page_of_a_host_is_live() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")

    sent = live(client, HERE)

    assert 'id="host-pending"' in sent
    assert "to be maintained" in sent


# -- what can be done there


def test_each_moment_offers_what_can_be_done_then() -> None:
    client = HostsClient()

    def offered() -> Iterator[set[str]]:
        yield client.buttons()
        client.fleet.maintain("kvm-1", opens="5h")
        client.fleet.hold("", host="kvm-1")
        yield client.buttons()
        client.fleet.unhold("kvm-1")
        client.fleet.approve_all()
        client.fleet.advance("5h")
        yield client.buttons()

    assert list(offered()) == [
        {"announce", "hold"},
        {"cancel", "postpone", "unhold"},
        {"complete", "hold"},
    ]


def test_with_simulated_machines_nothing_can_be_completed() -> None:
    client = console_client(Blueprint(name="web", count=1))
    client.stage.cause("host-reboot", host="host-web-0-0", notice="0s")

    page = client.page("/hosts/host-web-0-0")

    assert "/complete" not in page


def test_a_maintenance_is_announced_in_the_zone_of_the_fleet() -> None:
    client = HostsClient()
    client.fleet.poll("web_0", "db_0")

    form = {"cause": "host-reboot", "at": "Thu 02:00", "until": "Thu 06:00", "silence": "ask"}
    words = text(client.ask("announce", **form))

    (maintenance,) = client.fleet.control.maintenances.pending("kvm-1")
    assert "Announced a host-reboot of host kvm-1, not before Thu 2026-11-19 02:00 +01:00." in words
    assert maintenance.opens == datetime(2026, 11, 19, 1, tzinfo=UTC)
    assert maintenance.closes == datetime(2026, 11, 19, 5, tzinfo=UTC)
    assert (maintenance.on_silence, maintenance.by) == (OnSilence.ASK, "operator:console")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        pytest.param({"at": "soon"}, "invalid instant 'soon'", id="no instant"),
        pytest.param({"at": "2026-03-29 02:30"}, "does not exist in Europe/Berlin", id="a skipped time"),
        pytest.param(
            {"at": "+5h", "until": "+5h"}, "must close after it opens", id="a window without length"
        ),
        pytest.param({"cause": "restart"}, "must be one of", id="no maintenance"),
        pytest.param({"silence": "shout"}, "must be one of proceed, skip, ask", id="no silence"),
    ],
)
def test_mistakes_are_told_in_place_and_what_was_written_stays(form: dict[str, str], words: str) -> None:
    client = HostsClient()

    page = client.refused(f"{HERE}/announce", page=HERE, status=422, **form)

    assert words in text(page)
    assert form.get("at", "") in page
    assert client.fleet.control.maintenances.pending("kvm-1") == ()


@pytest.mark.rule("M-01")
def test_a_second_maintenance_is_refused_in_words() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")

    page = client.refused(f"{HERE}/announce", page=HERE, status=409, at="+6h")

    assert "host kvm-1 already has a host-reboot that is scheduled" in text(page)


def test_a_maintenance_is_cancelled() -> None:
    client = HostsClient()
    maintained = client.fleet.maintain("kvm-1", opens="5h")

    words = text(client.ask("cancel"))

    assert "Cancelled 2 events; no machine is affected." in words
    assert client.fleet.phase(maintained) is MaintenancePhase.WITHDRAWN


@pytest.mark.rule("M-10")
def test_a_maintenance_is_postponed_and_the_history_of_its_events_says_so() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")
    event = client.fleet.the_event("web")

    words = text(client.ask("postpone", until="+7h"))

    assert "Postponed until Mon 2026-11-16 20:00 +01:00; approvals stay." in words
    steps = text(client.page(f"/events/{event.id}"))
    assert "postponed until 2026-11-16 19:00:00Z by operator:console" in steps


@pytest.mark.parametrize(
    ("until", "words"),
    [
        pytest.param("", "an instant is required", id="nothing"),
        pytest.param("+1h", "must be later than NotBefore", id="an earlier instant"),
    ],
)
def test_a_postponement_that_is_none_is_told_at_its_field(until: str, words: str) -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")

    page = client.refused(f"{HERE}/postpone", page=HERE, status=422, until=until)

    assert words in text(page)


def test_a_maintenance_is_completed_and_machines_that_moved_are_elsewhere() -> None:
    client = HostsClient()
    maintained = client.fleet.maintain("kvm-1")
    client.fleet.approve_all()

    words = text(client.ask("complete", moved="web_0=kvm-2"))

    assert "Completed 2 events." in words
    assert client.fleet.phase(maintained) is MaintenancePhase.DONE
    assert client.fleet.machine("web_0").host == "kvm-2"


def test_a_machine_that_is_said_to_have_moved_and_is_none_is_refused_in_words() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1")
    client.fleet.approve_all()

    page = client.refused(f"{HERE}/complete", page=HERE, status=422, moved="web_7=kvm-2")

    assert "web_7 is not one of the machines" in text(page)
    assert "web_7=kvm-2</textarea>" in page


@pytest.mark.rule("M-08")
def test_a_host_is_put_on_hold_and_back() -> None:
    client = HostsClient()

    held = text(client.ask("hold", reason="DIMM 3"))
    ended = text(client.ask("unhold"))

    assert "The host is on hold: DIMM 3 by operator:console" in held
    assert "The hold on host kvm-1 has ended" in ended
    assert client.fleet.control.maintenances.hold_of("kvm-1") is None


@pytest.mark.parametrize("action", ["announce", "cancel", "postpone", "complete", "hold", "unhold"])
def test_a_form_without_the_token_of_the_page_changes_nothing(action: str) -> None:
    client = HostsClient()

    answer = client.send("POST", f"{HERE}/{action}", {"reason": "no token", "csrf": "wrong"})

    assert answer.status_code == 403
    assert client.fleet.control.maintenances.hold_of("kvm-1") is None


def test_hostile_words_are_shown_as_text() -> None:
    client = HostsClient({"web": {"web_0": HOSTILE}})
    client.fleet.hold(HOSTILE)
    client.fleet.hold(HOSTILE, host=HOSTILE)

    for path in ("/hosts", "/hosts/%3Cimg%20src=x%20onerror=alert(1)%3E"):
        page = client.page(path)
        assert "<img" not in page
        assert HOSTILE in text(page)
