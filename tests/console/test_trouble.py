"""Every page says when changes cannot be stored."""

from dataclasses import replace

from fairwarning.console.app import create_app
from fairwarning.control.control import Control
from tests.console.console_client import address, console_client, text
from tests.engine.disk import WEB, broken


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
