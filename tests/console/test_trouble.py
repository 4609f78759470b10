"""Every page says when changes cannot be kept."""

from dataclasses import replace

from fairwarning.console.app import create_app
from tests.console.console_client import address, lobby, text
from tests.engine.disk import WEB, broken


def test_a_page_says_why_changes_cannot_be_kept_until_they_can() -> None:
    stage, disk = broken()
    desk = replace(lobby(WEB), stage=stage, app=create_app(stage.engine, endpoints=address))

    sick = text(desk.page("/events"))
    disk.wrong = None
    stage.cause("restart", "web_0")
    well = text(desk.page("/events"))

    assert "changes cannot be kept: disk full" in sick
    assert "cannot be kept" not in well
