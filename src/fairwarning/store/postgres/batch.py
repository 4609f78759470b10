"""A batch as the one argument of the database's function ``commit_batch``, and the function's answer."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from fairwarning.engine.ports import Aggregate, Batch, Entry, StaleBatchError
from fairwarning.store.entries import number_lines, readable, readable_texts
from fairwarning.store.errors import ClockAheadError
from fairwarning.store.rows import (
    BatchWrites,
    Row,
    event_row,
    instant,
    machine_row,
    scope_row,
    unnumbered_row,
    with_checksum,
)

#: The members of the argument that are lists of rows, or of keys.
Rows = Sequence[Row | tuple[str, ...] | str]


class Answer(msgspec.Struct):
    """The answer of ``commit_batch``."""

    first: int = 0
    last: int = 0
    stale: list[tuple[str, str, int]] | None = None
    ahead: float | None = None


_answer = msgspec.json.Decoder(Answer)


def encode_batch(batch: Batch, lines: Sequence[Entry]) -> str:
    """Return a batch as JSON; ``lines`` are its lines with any numbers."""
    expected = [(kind.value, readable(name), stamp) for (kind, name), stamp in batch.expected.items()]
    sent = {
        "stamp": batch.stamp,
        "at": max((instant(part.at) for part in batch.parts), default=None),
        "position": batch.position,
        "expected": expected,
        "lines": [unnumbered_row(line) for line in lines],
    }
    return msgspec.json.encode(sent | {name: rows for name, rows in _rows(batch).items() if rows}).decode()


def _rows(batch: Batch) -> dict[str, Rows]:
    writes, texts, stamp = BatchWrites(batch), readable_texts(batch.texts), batch.stamp
    return {
        "wiped": list(writes.wiped),
        "removed_machines": list(writes.machines.removed_keys()),
        "removed_events": list(writes.events.removed_keys()),
        "scopes": [scope_row(scope, stamp) for scope in writes.scopes],
        "machines": [machine_row(machine) for machine in writes.machines],
        "events": [event_row(event) for event in writes.events],
        "polls": [with_checksum(scope, instant(at)) for scope, at in writes.polls.items()],
        "sets": [with_checksum(set_id, stamp, incarnation) for set_id, incarnation in batch.sets.items()],
        "removed_texts": [key for key, text in texts.items() if text is None],
        "texts": [with_checksum(key, text, stamp) for key, text in texts.items() if text is not None],
    }


def number_from_one(batch: Batch) -> Sequence[Entry]:
    """Return the lines of a batch before the database has numbered them."""
    return number_lines(batch, 0)


def read_answer(batch: Batch, lines: Sequence[Entry], answer: bytes) -> Sequence[Entry]:
    """Return the lines of a batch with the numbers that the database has given them.

    Raises:
        StaleBatchError: the batch was decided on a state that has changed.
        ClockAheadError: the batch was decided in the future.
    """
    result = _answer.decode(answer)
    if result.ahead is not None:
        raise ClockAheadError(timedelta(seconds=result.ahead))
    if result.stale is not None:
        names = {(kind.value, readable(name)): Aggregate(kind, name) for kind, name in batch.expected}
        raise StaleBatchError({names[kind, name]: stamp for kind, name, stamp in result.stale}, result.last)
    before = result.first - 1
    return [line._replace(seq=line.seq + before, ends=line.ends + before) for line in lines]
