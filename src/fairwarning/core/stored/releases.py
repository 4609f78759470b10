"""The releases whose nodes may share a database, by what they can read."""

from enum import IntEnum


class DataRelease(IntEnum):
    """A release that can read more than the releases before it."""

    #: 0.1 and 0.2.
    V0_2 = 2
    V0_3 = 3

    def __str__(self) -> str:
        """Return the number of the release."""
        return f"0.{self.value}"


OLDEST, NEWEST = min(DataRelease), max(DataRelease)
