"""How much of the past is kept."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How much history is kept, by age and by the bytes that all of the data takes; None is no limit."""

    age: timedelta | None = None
    size: int | None = None


#: What is kept in a data directory unless told otherwise.
USUAL = Retention(age=timedelta(days=30), size=10**9)
