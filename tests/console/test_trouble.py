"""Every page says when changes cannot be stored, and shows what is in memory when nothing can be read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fairwarning.console.app import create_app
from fairwarning.control.control import Control
from fairwarning.core.model import EventId, ScopeId
from fairwarning.engine.ports import Entry
from tests.console.console_client import ConsoleTestClient, address, console_client, text
from tests.engine.disk import FULL, WEB, Disk, broken
from tests.fleet_harness import FleetHarness


@dataclass
class UnreadableDisk(Disk):
    """A store that cannot be read, either, while something is wrong with it."""

    async def journal(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        event: EventId | None = None,
        scope: ScopeId | None = None,
        newest_first: bool = False,
    ) -> Sequence[Entry]:
        if self.wrong is not None:
            raise self.wrong
        return await super().journal(
            after=after, limit=limit, event=event, scope=scope, newest_first=newest_first
        )


def unreadable_after_restart() -> tuple[ConsoleTestClient, UnreadableDisk, str]:
    """Return the console of a fleet whose store cannot be read any more, the store, and an event's id."""
    disk = UnreadableDisk()
    stage = FleetHarness(WEB, store=disk)
    event = stage.cause("restart", "web_0")[0]
    disk.wrong = FULL
    app = create_app(Control(stage.engine), endpoints=address)
    return replace(console_client(WEB), stage=stage, app=app), disk, event


def test_pages_show_pending_events_while_the_store_cannot_be_read() -> None:
    client, _, event = unreadable_after_restart()

    pages = [text(client.page(path)) for path in ("/", "/events", f"/events/{event}", "/maintenance")]

    assert all("web_0" in page for page in pages[:3])


def test_pages_keep_the_events_that_they_showed_before_the_store_could_not_be_read() -> None:
    client, disk, _ = unreadable_after_restart()
    disk.wrong = None
    client.stage.advance("20m")
    ended = text(client.page("/events"))
    disk.wrong = FULL

    assert "finished" in ended
    assert "finished" in text(client.page("/events"))


def test_a_page_that_needs_the_store_says_so_below_the_menu_and_loads_again() -> None:
    client, disk, _ = unreadable_after_restart()

    page = client.page("/history", status=503)
    disk.wrong = None

    assert "disk full" in text(page)
    assert 'href="/events"' in page
    assert '<meta http-equiv="refresh" content="5">' in page
    assert "web_0" in text(client.page("/history"))


def test_a_page_says_why_changes_cannot_be_kept_until_they_can() -> None:
    stage, disk = broken()
    client = replace(
        console_client(WEB), stage=stage, app=create_app(Control(stage.engine), endpoints=address)
    )

    broken_page = text(client.page("/events"))
    disk.wrong = None
    stage.cause("restart", "web_0")
    repaired_page = text(client.page("/events"))

    assert "changes cannot be stored: disk full" in broken_page
    assert "cannot be kept" not in repaired_page


def test_a_form_that_cannot_be_stored_says_when_to_try_again() -> None:
    stage, _ = broken()
    client = replace(
        console_client(WEB), stage=stage, app=create_app(Control(stage.engine), endpoints=address)
    )

    response = client.press("/machines/web/web_0/cause", page="/machines/web/web_0", cause="restart")

    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
