"""Windows, hosts and waits on the pages of events, and maintenance in the history."""

from datetime import timedelta

import pytest

from tests.console.console_client import text
from tests.console.hosts_client import HostsClient


@pytest.mark.rule("M-03")
def test_an_event_with_a_window_says_what_it_waits_for_before_it_is_approved() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h", closes="9h")
    event = client.fleet.the_event("web")

    for path in ("/events", f"/events/{event.id}"):
        words = text(client.page(path))
        assert "▲ Scheduled, waits for window, Mon 2026-11-16 18:00 +01:00" in words
        assert "Mon 2026-11-16 18:00 – 22:00 +01:00" in words
        assert "/hosts/kvm-1" in client.page(path)


@pytest.mark.rule("M-09")
def test_a_blocked_event_says_what_it_waits_for() -> None:
    client = HostsClient()
    client.fleet.hold("INC-88")
    client.fleet.maintain("kvm-1")
    event = client.fleet.the_event("web")

    client.fleet.advance("15m")

    assert "▲ Scheduled, waits for hold: INC-88" in text(client.page("/events"))
    assert "due; waits for hold: INC-88 by platform" in text(client.page(f"/events/{event.id}"))


def test_the_page_of_an_event_names_host_and_maintenance_after_its_end_too() -> None:
    client = HostsClient()
    maintained = client.fleet.maintain("kvm-1")
    event = client.fleet.the_event("web")
    client.fleet.approve_all()
    client.fleet.complete()

    words = text(client.page(f"/events/{event.id}"))

    assert f"Host kvm-1 Maintenance {maintained.maintenance.id}" in words


def test_the_steps_of_an_event_say_when_its_window_opened() -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens="5h")
    event = client.fleet.the_event("web")

    client.fleet.wait_until(client.fleet.now + timedelta(hours=5))

    assert "window opened by platform" in text(client.page(f"/events/{event.id}"))


@pytest.mark.parametrize(
    ("opens", "closes", "words"),
    [
        pytest.param("5h", "9h", "Mon 2026-11-16 18:00 – 22:00 +01:00", id="on one day"),
        pytest.param("5h", "29h", "Mon 2026-11-16 18:00 +01:00 – Tue 2026-11-17 18:00 +01:00", id="on two"),
        pytest.param("5h", None, "window opens Mon 2026-11-16 18:00 +01:00", id="without an end"),
        pytest.param(None, "9h", "window closes Mon 2026-11-16 22:00 +01:00", id="without an opening"),
    ],
)
def test_a_window_is_shown_with_its_day_and_offset(opens: str | None, closes: str | None, words: str) -> None:
    client = HostsClient()
    client.fleet.maintain("kvm-1", opens=opens, closes=closes)

    assert words in text(client.page("/events"))


def test_the_history_says_who_held_the_fleet_and_what_became_of_a_maintenance() -> None:
    client = HostsClient()
    client.fleet.hold("INC-88")
    client.fleet.unhold()
    client.fleet.hold("", host="kvm-1")
    client.fleet.maintain("kvm-2", opens="5h")

    words = text(client.page("/history?kind=text"))

    for line in (
        "hold operator hold: INC-88",
        "hold hold ended",
        "hold of a host operator hold on host kvm-1: no reason given",
        "maintenance operator host-reboot of host kvm-2 is scheduled, not before 2026-11-16 17:00:00Z",
    ):
        assert line in words
