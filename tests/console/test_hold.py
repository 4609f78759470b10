"""The hold on the fleet: a banner on every page, and the place to set it."""

import pytest

from tests.console.console_client import text
from tests.console.hosts_client import HostsClient
from tests.console.stream import live

HERE = "/hosts/kvm-1"


@pytest.mark.rule("M-08")
@pytest.mark.parametrize("path", ["/", "/hosts", HERE, "/events", "/maintenance", "/history"])
def test_while_the_fleet_is_on_hold_every_page_says_so(path: str) -> None:
    client = HostsClient()
    before = text(client.page(path))
    client.fleet.hold("INC-88")

    after = text(client.page(path))

    assert "The fleet is on hold: INC-88 by operator" in after
    assert "The fleet is on hold" not in before


def test_the_fleet_is_put_on_hold_on_the_maintenance_page_and_the_banner_ends_it() -> None:
    client = HostsClient()

    held = client.accepted("/hold", page="/maintenance", reason="INC-88")
    ended = text(client.accepted("/unhold", page="/maintenance"))

    assert '<form method="post" action="/unhold"' in held
    assert "The fleet is on hold: INC-88 by operator:console" in text(held)
    assert "The hold has ended; what is ready starts." in ended
    assert client.fleet.control.maintenances.hold_of() is None


def test_the_banner_is_live() -> None:
    client = HostsClient()
    client.fleet.hold("INC-88")

    assert "INC-88" in live(client, "/history")


@pytest.mark.parametrize("path", ["/hold", f"{HERE}/hold"])
def test_a_reason_with_an_invisible_character_is_refused_in_words(path: str) -> None:
    client = HostsClient()

    page = client.refused(path, page="/maintenance", status=422, reason="INC\u202e88")

    assert "contains the invisible character" in text(page)
    assert client.fleet.control.maintenances.hold_of() is None
