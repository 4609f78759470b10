"""How much of a server guests may have."""

from dataclasses import dataclass

from fairwarning.metadata.throttle import Rate

#: What no caller needs that means well, and others do not notice.
STEPS = Rate(per_second=50.0, burst=30.0)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long clients may take, in seconds of real time, and how many there may be."""

    #: A connection without a request.
    idle: float = 60.0
    #: A request that has begun to arrive; also what a client that stopped sending or reading gets.
    head: float = 10.0
    #: Answers still under way when the server closes.
    grace: float = 1.0
    #: Connections and listeners of all callers together.
    connections: int = 10_000
    #: Connections of one caller; those whom nobody knows are one caller.
    each: int = 64
    #: Answers that are held back at a time; who asks for one more is answered at once, so that those who
    #: wait never keep out those who ask.
    watchers: int = 7_500
    #: Steps of work for one caller: a connection, a piece that is no admitted poll, an answer, some chunks.
    steps: Rate = STEPS
    #: How long a caller that asks for more is not read.
    rest: float = 1.0
