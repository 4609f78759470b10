"""The ways in which a machine's metadata endpoint can be made to misbehave, each seen on Azure."""

from collections.abc import Mapping
from enum import StrEnum


class EndpointFault(StrEnum):
    """A way in which the endpoint misbehaves."""

    TOO_MANY = "429"
    GONE = "410"
    BROKEN = "500"
    EMPTY = "empty"
    PLAIN_TEXT = "plain-text"
    NO_EVENTS = "no-events"
    PARTIAL = "partial"
    RESET = "reset"
    TIMEOUT = "timeout"
    SLOW = "slow"
    LATE = "late"
    RESTART = "restart"


#: What a guest observes under each fault.
FAULT_DESCRIPTIONS: Mapping[str, str] = {
    EndpointFault.TOO_MANY: "too many requests",
    EndpointFault.GONE: "the service is being updated",
    EndpointFault.BROKEN: "internal server error",
    EndpointFault.EMPTY: "200 without a body",
    EndpointFault.PLAIN_TEXT: "200 with a document whose Content-Type is text/plain",
    EndpointFault.NO_EVENTS: "200 with a document without Events",
    EndpointFault.PARTIAL: "200 with half of the document; then the connection ends",
    EndpointFault.RESET: "the connection is reset",
    EndpointFault.TIMEOUT: "no answer at all",
    EndpointFault.SLOW: "every answer is delayed",
    EndpointFault.LATE: "changes are shown only after the delay",
    EndpointFault.RESTART: "DocumentIncarnation counts from 1 again, as after a day without polls",
}
