"""The loop that the API's first documentation shows in Python 2, carried over to Python 3.

It is the oldest client there is, and it is careless: it reads every member without asking whether
it is there, and treats ``NotBefore`` as text whatever the state. Documents must not break it.
"""

import json
from collections.abc import Iterator
from typing import TypedDict
from urllib.request import Request, urlopen


class Event(TypedDict):
    """What the loop reads of an event."""

    EventId: str
    EventStatus: str
    EventType: str
    ResourceType: str
    Resources: list[str]
    NotBefore: str


class Document(TypedDict):
    """What the loop reads of a document."""

    DocumentIncarnation: int
    Events: list[Event]


def get_scheduled_events(url: str) -> Document:
    """Return the document at ``url``, asked for with the header the endpoint demands."""
    request = Request(url)
    request.add_header("Metadata", "true")
    with urlopen(request) as response:
        document: Document = json.loads(response.read())
    return document


def handle_scheduled_events(document: Document, this_host: str) -> Iterator[str]:
    """Yield a line for each event that names ``this_host``."""
    for event in document["Events"]:
        identity = f"{event['ResourceType']} {event['EventId']}"
        status, kind = event["EventStatus"], event["EventType"]
        not_before = event["NotBefore"].replace(" ", "_")
        if this_host in event["Resources"]:
            yield f"{status} {kind} not before {not_before} for {identity}"
