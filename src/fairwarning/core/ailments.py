"""What can ail the metadata endpoint of a machine: what the field has seen, in words for whoever asks."""

from collections.abc import Mapping
from enum import StrEnum


class Ailment(StrEnum):
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
AILMENTS: Mapping[str, str] = {
    Ailment.TOO_MANY: "too many requests",
    Ailment.GONE: "the service is being updated",
    Ailment.BROKEN: "it is broken",
    Ailment.EMPTY: "200 without a body",
    Ailment.RESET: "the connection is cut",
    Ailment.TIMEOUT: "no answer at all",
    Ailment.SLOW: "every answer takes the delay",
    Ailment.LATE: "changes are shown the delay after they happen",
    Ailment.RESTART: "DocumentIncarnation counts from 1 again, as after a day without polls",
}
