"""curl, with the words the API's documentation uses."""

import json
from typing import TypedDict

import pytest

from tests.real.conftest import Pair, Single
from tests.real.namespaces import Namespace

pytestmark = pytest.mark.netns

METADATA = "http://169.254.169.254/metadata"
EVENTS = f"{METADATA}/scheduledevents?api-version="
DOCUMENTED_APPROVAL = '{"DocumentIncarnation":"5", "StartRequests": [{"EventId": "%s"}]}'
NAME = f"{METADATA}/instance/compute/name?api-version=2021-02-01&format=text"


class Event(TypedDict):
    EventId: str
    EventStatus: str
    Resources: list[str]


class Document(TypedDict):
    DocumentIncarnation: int
    Events: list[Event]


def curl(space: Namespace, *words: str) -> tuple[int, str]:
    """Return the status and the body that curl got."""
    output = space.run("curl", "-sS", "-w", "\n%{http_code}", *words)
    body, _, status = output.rpartition("\n")
    return int(status), body


def document(space: Namespace, version: str) -> Document:
    status, body = curl(space, "-H", "Metadata:true", EVENTS + version)
    assert status == 200
    read: Document = json.loads(body)
    return read


def approve(space: Namespace, body: str, version: str) -> tuple[int, str]:
    return curl(space, "-H", "Metadata:true", "-X", "POST", "-d", body, EVENTS + version)


@pytest.mark.story
@pytest.mark.rule("R-13", "R-14", "V-06")
def test_the_documented_commands_read_and_approve_an_event(pair: Pair) -> None:
    document(pair.web_0, "2017-03-01")
    pair.server.tell("cause", "restart", "web_0")

    (warned,) = document(pair.web_0, "2017-03-01")["Events"]
    approval = DOCUMENTED_APPROVAL % warned["EventId"]
    answer = approve(pair.web_0, approval, "2017-03-01")
    (started,) = document(pair.web_0, "2017-03-01")["Events"]

    assert warned["Resources"] == ["_web_0"]
    assert answer == (200, "")
    assert started["EventStatus"] == "Started"
    assert pair.server.kinds("web_0") == ["scheduled", "approved", "started"]


@pytest.mark.rule("R-18")
def test_a_peer_sees_the_same_event_and_may_approve_it(pair: Pair) -> None:
    document(pair.web_0, "2020-07-01")
    pair.server.tell("cause", "redeploy", "web_0")

    (event,) = document(pair.web_1, "2020-07-01")["Events"]
    approval = json.dumps({"StartRequests": [{"EventId": event["EventId"].lower()}]})
    answer = approve(pair.web_1, approval, "2020-07-01")

    assert answer == (200, "")
    (entry,) = [entry for entry in pair.server.history() if entry["kind"] == "approved"]
    assert (entry["by"], entry["resources"]) == ("web_1", ["web_0"])


@pytest.mark.story
@pytest.mark.rule("R-03")
def test_a_machine_is_who_its_source_address_says(pair: Pair) -> None:
    names = [curl(guest, "-H", "Metadata:true", NAME) for guest in (pair.web_0, pair.web_1)]
    status, body = curl(pair.stranger, "-H", "Metadata:true", NAME)

    assert names == [(200, "web_0"), (200, "web_1")]
    assert status == 403
    assert "error" in json.loads(body)


@pytest.mark.rule("R-03")
def test_a_server_and_its_only_machine_may_share_an_address(single: Single) -> None:
    assert curl(single.batch, "-H", "Metadata:true", NAME) == (200, "batch")


@pytest.mark.rule("R-04")
def test_curl_without_the_header_is_told_what_lacks(pair: Pair) -> None:
    status, body = curl(pair.web_0, EVENTS + "2020-07-01")

    assert status == 400
    assert json.loads(body) == {"error": "Bad request. Required metadata header not specified"}
