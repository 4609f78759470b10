"""What can ail the metadata endpoint of a machine: what the field has seen, in words for whoever asks."""

from collections.abc import Mapping
from enum import StrEnum


class EndpointFault(StrEnum):
    """A way for the endpoint to misbehave."""

    TOO_MANY = "429"
    GONE = "410"
    BROKEN = "500"
    EMPTY = "empty"
    RESET = "reset"
    TIMEOUT = "timeout"
    SLOW = "slow"
    LATE = "late"
    RESTART = "restart"


#: What a guest meets then.
FAULT_DESCRIPTIONS: Mapping[str, str] = {
    EndpointFault.TOO_MANY: "too many requests",
    EndpointFault.GONE: "the service is being updated",
    EndpointFault.BROKEN: "it is broken",
    EndpointFault.EMPTY: "200 without a body",
    EndpointFault.RESET: "the connection is cut",
    EndpointFault.TIMEOUT: "no answer at all",
    EndpointFault.SLOW: "every answer takes the delay",
    EndpointFault.LATE: "changes are shown the delay after they happen",
    EndpointFault.RESTART: "DocumentIncarnation counts from 1 again, as after a day without polls",
}
