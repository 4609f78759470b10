"""Pages show escaped what older releases let people write."""

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import Schedule
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.engine.clock import new_event_id
from tests.console.console_client import console_client
from tests.fleet_harness import run


@pytest.mark.parametrize("path", ["/", "/history", "/scopes/web", "/machines/web_0", "/events"])
def test_no_page_turns_around_what_stands_beside_a_name(path: str) -> None:
    client = console_client(Blueprint(name="web"))
    web = MachineRef(ScopeId("web"), VmName("web_0"))
    old = Schedule(id=new_event_id(), cause="restart", machines=(web,), by="operator:an\u202ena")
    run(client.stage.engine.handle(old))

    response = client.send("GET", path)

    assert "\u202e" not in response.text


def test_the_history_names_who_asked_with_the_character_escaped() -> None:
    client = console_client(Blueprint(name="web"))
    web = MachineRef(ScopeId("web"), VmName("web_0"))
    old = Schedule(id=new_event_id(), cause="restart", machines=(web,), by="operator:an\u202ena")
    run(client.stage.engine.handle(old))

    assert "operator:an\\u202ena" in client.page("/history")


@pytest.mark.parametrize("path", ["/events/A%00B", "/history?event=A%00B", "/events/A%00B/picture.svg"])
def test_an_event_id_that_no_event_can_have_makes_no_page_fail(path: str) -> None:
    assert console_client(Blueprint(name="web")).send("GET", path).status_code < 500
