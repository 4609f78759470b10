"""Events are named by the beginning of their id."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning.cli.client import OperatorClient
from fairwarning.cli.lookup import pending_events, recorded_event
from fairwarning.cli.output import FailureError
from tests.cli.server import Server, up

FIRST, SECOND = "A4967C7F-0000-4000-8000-000000000001", "A49B0000-0000-4000-8000-000000000002"


class FakeClient(OperatorClient):
    """A server with two pending events, whose ids begin with the same characters."""

    def __init__(self) -> None:
        super().__init__("http://127.0.0.1:1")

    def get(self, path: str, **query: str | int) -> bytes:
        rows = [(FIRST, "Reboot", "web_0"), (SECOND, "Freeze", "web_1")]
        if path == "/events":
            events = [
                {"id": id_, "status": "Scheduled", "type": kind, "resources": [machine]}
                for id_, kind, machine in rows
            ]
            return json.dumps({"events": events}).encode()
        assert path == "/history"
        history = [
            {"seq": seq, "at": "2030-01-01T00:00:00Z", "kind": "scheduled", "scope": "web", "event": id_,
             "type": kind, "resources": [machine], "by": "operator"}
            for seq, (id_, kind, machine) in enumerate(rows, 1)
        ]  # fmt: skip
        return json.dumps({"history": history}).encode()


@pytest.mark.parametrize(
    ("prefix", "event"),
    [
        pytest.param("A4967", FIRST, id="a prefix"),
        pytest.param("a49b", SECOND, id="in lower case"),
        pytest.param(FIRST.lower(), FIRST.lower(), id="a whole id is sent as it is"),
    ],
)
def test_a_unique_prefix_names_an_event(prefix: str, event: str) -> None:
    assert pending_events(FakeClient(), [prefix]) == [event]
    assert recorded_event(FakeClient(), prefix) == event


def test_an_ambiguous_prefix_is_refused_with_the_candidates() -> None:
    candidates = f"{FIRST} (Reboot of web_0), {SECOND} (Freeze of web_1)"
    message = re.escape(f"several events have an id that starts with a49: {candidates}")

    with pytest.raises(FailureError, match=message):
        pending_events(FakeClient(), ["a49"])
    with pytest.raises(FailureError, match=message):
        recorded_event(FakeClient(), "a49")


def test_an_unknown_prefix_says_so() -> None:
    with pytest.raises(FailureError, match="no pending event has an id that starts with beef"):
        pending_events(FakeClient(), ["beef"])
    with pytest.raises(FailureError, match="no event has an id that starts with beef"):
        recorded_event(FakeClient(), "beef")


@pytest.fixture
def manual(tmp_path: Path) -> Iterator[Server]:
    with up(tmp_path, "--clock", "manual", "--start-enabled", "--no-arm") as server:
        yield server


def test_every_command_that_takes_an_event_takes_a_prefix(manual: Server) -> None:
    (event,) = manual.cause("restart", "web_0")
    prefix = event["id"][:13].lower()

    (listed,) = json.loads(manual.tell("events", prefix, "--json"))
    (approved,) = json.loads(manual.tell("approve", prefix, "--json"))
    (freeze,) = manual.cause("freeze", "db")
    (cancelled,) = json.loads(manual.tell("cancel", freeze["id"][:13], "--json"))
    rows = json.loads(manual.tell("history", prefix, "--json"))

    assert {one["id"] for one in (listed, approved)} == {event["id"]}
    assert cancelled["id"] == freeze["id"]
    assert {row["event"] for row in rows} == {event["id"]}


def test_an_event_that_is_over_is_not_listed_as_pending(manual: Server) -> None:
    (event,) = manual.cause("freeze", "db")
    manual.tell("cancel", event["id"])

    done = manual.command("events", event["id"])

    assert done.code == 1
    assert f"error: no pending event has the id {event['id']}\n" in done.stderr
