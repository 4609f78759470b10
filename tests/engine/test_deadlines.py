"""The next deadline of every scope."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.model import ScopeId
from fairwarning.engine.deadlines import LEAST, Deadlines
from tests.fleet_harness import NOON, span

A, B = ScopeId("a"), ScopeId("b")


def minute(number: int) -> datetime:
    return NOON + span(f"{number}m")


def test_no_deadlines_have_no_next_deadline() -> None:
    assert Deadlines().next() is None
    assert Deadlines().take(NOON) == []


def test_the_earliest_deadline_of_all_is_next() -> None:
    deadlines = Deadlines()
    deadlines.put(A, minute(2))
    deadlines.put(B, minute(1))

    assert deadlines.next() == minute(1)


@pytest.mark.parametrize(
    ("later", "due"),
    [
        pytest.param(3, [], id="a deadline put off is not due at the old time"),
        pytest.param(1, [A], id="a deadline brought forward is due earlier"),
        pytest.param(None, [], id="a deadline that was cleared is not due"),
    ],
)
def test_the_last_word_about_a_scope_counts(later: int | None, due: list[ScopeId]) -> None:
    deadlines = Deadlines()
    deadlines.put(A, minute(2))

    deadlines.put(A, None if later is None else minute(later))

    assert deadlines.take(minute(2)) == due


def test_what_was_taken_is_not_due_again() -> None:
    deadlines = Deadlines()
    deadlines.put(A, minute(1))

    assert deadlines.take(minute(1)) == [A]
    assert deadlines.take(minute(1)) == []


def test_a_deadline_that_returns_is_due_once() -> None:
    deadlines = Deadlines()
    for number in (1, 2, 1):
        deadlines.put(A, minute(number))

    assert deadlines.take(minute(5)) == [A]


def test_what_was_overtaken_does_not_pile_up() -> None:
    deadlines = Deadlines()
    for number in range(10_000):
        deadlines.put(A, minute(number))

    assert len(deadlines) <= LEAST + 2
    assert deadlines.take(minute(9_998)) == []
    assert deadlines.take(minute(9_999)) == [A]


deadlines = st.none() | st.integers(0, 9)


@given(st.lists(st.tuples(st.sampled_from([A, B, ScopeId("c")]), deadlines)), st.integers(0, 9))
def test_deadlines_behave_like_a_dictionary(puts: list[tuple[ScopeId, int | None]], now: int) -> None:
    deadlines, table = Deadlines(), dict[ScopeId, int]()
    for scope, number in puts:
        deadlines.put(scope, None if number is None else minute(number))
        table.pop(scope, None)
        if number is not None:
            table[scope] = number

    due = {scope for scope, number in table.items() if number <= now}
    left = [number for scope, number in table.items() if scope not in due]

    assert deadlines.next() == (minute(min(table.values())) if table else None)
    assert set(deadlines.take(minute(now))) == due
    assert deadlines.next() == (minute(min(left)) if left else None)


@given(st.lists(st.tuples(st.sampled_from([A, B, ScopeId("c")]), deadlines) | st.integers(0, 9)))
def test_who_looks_again_when_told_so_misses_no_deadline(
    steps: list[tuple[ScopeId, int | None] | int],
) -> None:
    deadlines, table = Deadlines(), dict[ScopeId, int | None]()
    asleep_until = deadlines.next()
    for step in steps:
        if isinstance(step, int):  # the sleeper wakes up, and handles what is due
            table |= dict.fromkeys(deadlines.take(minute(step)))
            asleep_until = deadlines.next()
            continue
        scope, number = step
        table[scope] = number
        if deadlines.put(scope, None if number is None else minute(number)):
            asleep_until = deadlines.next()

        due = min((number for number in table.values() if number is not None), default=None)
        assert due is None or (asleep_until is not None and asleep_until <= minute(due))
