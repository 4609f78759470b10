"""The journal survives crashes of the agent."""

import json
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from fairwarning import __version__
from fairwarning.agent import journal as journal_module
from fairwarning.agent.journal import Journal, NewerStateError, StateInUseError, in_use, read_records
from fairwarning.agent.plan import EventStep, Record
from tests.agent.events import record, seen, started

E1, E2 = record(seen("E1"), EventStep.PREPARING), record(seen("E2"), EventStep.READY, tokens={"exec a": "b"})
LOST = record(
    started(seen("E3", duration=None)),
    EventStep.FAILED,
    attempts=2,
    problem="no",
    refused="why",
    approved=True,
)


@pytest.mark.rule("C-11")
@pytest.mark.parametrize("kept", [E1, E2, LOST])
def test_a_record_comes_back_as_it_was(tmp_path: Path, kept: Record) -> None:
    with Journal(tmp_path) as journal:
        journal.write(kept)

    with Journal(tmp_path) as journal:
        assert dict(journal.records) == {kept.event.key: kept}


@pytest.mark.rule("C-11")
def test_what_is_forgotten_stays_forgotten_and_the_rest_keeps_its_order(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        for one in (E1, E2, LOST):
            journal.write(one)
        journal.forget(E2.event.key)

    assert list(read_records(tmp_path)) == ["E1", "E3"]


def test_a_change_is_written_only_if_something_changes(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.write(E1)
        journal.amend(E1.event.key, lambda one: one)
        journal.amend(E1.event.key, lambda one: replace(one, step=EventStep.READY))
        journal.amend(E2.event.key, lambda one: replace(one, step=EventStep.READY))

    assert len((tmp_path / "journal.jsonl").read_bytes().splitlines()) == 3
    assert read_records(tmp_path) == {E1.event.key: replace(E1, step=EventStep.READY)}


def test_a_torn_last_line_loses_only_itself(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.write(E1)
        journal.write(E2)
    path = tmp_path / "journal.jsonl"
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]

    for length in range(len(last) - 1):
        path.write_bytes(whole[: len(whole) - len(last) + length])

        assert list(read_records(tmp_path)) == ["E1"]


def test_after_a_torn_line_new_ones_are_whole(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.write(E1)
    with (tmp_path / "journal.jsonl").open("ab") as file:
        file.write(b'{"key":"E9","rec')

    with Journal(tmp_path) as journal:
        journal.write(E2)

    assert list(read_records(tmp_path)) == ["E1", "E2"]
    assert all(json.loads(line) for line in (tmp_path / "journal.jsonl").read_bytes().splitlines())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"\xff\x00\n", id="noise"),
        pytest.param(b"[]\n", id="another shape"),
        pytest.param(b'{"key":"E1"}\n', id="no record"),
        pytest.param(b'{"key":"E1","record":{"id":7}}\n', id="half a record"),
    ],
)
def test_damage_in_the_middle_is_passed_over(tmp_path: Path, damage: bytes) -> None:
    with Journal(tmp_path) as journal:
        journal.write(E1)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes() + damage)

    assert list(read_records(tmp_path)) == ["E1"]


def test_the_journal_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MAX_LINES", 10)

    with Journal(tmp_path) as journal:
        journal.write(E2)
        for _ in range(100):
            journal.write(E1)
            journal.forget(E1.event.key)

    assert len((tmp_path / "journal.jsonl").read_bytes().splitlines()) <= 12
    assert read_records(tmp_path) == {E2.event.key: E2}


def test_every_line_is_on_the_disk_before_the_next_thing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync

    def noting(file: int) -> None:
        synced.append(file)
        real(file)

    monkeypatch.setattr(os, "fsync", noting)

    with Journal(tmp_path) as journal:
        opened = len(synced)
        journal.write(E1)
        journal.forget(E1.event.key)

    assert opened == 2  # the fresh file and its folder
    assert len(synced) == 4


def test_a_second_agent_on_the_same_state_refuses_to_start(tmp_path: Path) -> None:
    assert not in_use(tmp_path)

    with Journal(tmp_path):
        assert in_use(tmp_path)
        with pytest.raises(StateInUseError, match="another agent uses"):
            Journal(tmp_path).__enter__()

    assert not in_use(tmp_path)


def _write_until_killed(folder: str) -> None:
    with Journal(Path(folder)) as journal:
        journal.write(E2)
        while True:
            journal.write(E1)
            journal.forget(E1.event.key)


@pytest.mark.parametrize("_turn", range(3))
def test_a_kill_at_any_moment_leaves_a_journal_that_can_be_read(tmp_path: Path, _turn: int) -> None:
    writer = multiprocessing.get_context("fork").Process(target=_write_until_killed, args=(str(tmp_path),))
    writer.start()
    while len(read_records(tmp_path)) < 2:
        writer.join(0.01)

    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()

    with Journal(tmp_path) as journal:
        assert journal.records[E2.event.key] == E2
        assert set(journal.records) <= {E1.event.key, E2.event.key}
    writer.close()


def test_the_journal_of_the_first_release_is_read(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.write(E1)
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))  # it had no first line

    with Journal(tmp_path) as journal:
        assert list(journal.records) == ["E1"]


def test_the_journal_of_a_newer_agent_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = b'{"format":2,"release":"9.9.0","more":1}\n{"key":"E1","record":{"steps":["drained"]}}\n'
    path.write_bytes(written)

    for attempt in (Journal(tmp_path).__enter__, lambda: read_records(tmp_path)):
        with pytest.raises(NewerStateError) as refused:
            attempt()

        assert str(refused.value) == (
            f"{path} has format 2, this version ({__version__}) reads formats up to 1; install "
            "fairwarning-agent 9.9.0 or newer, or undo its drain by hand and remove the file"
        )
    assert path.read_bytes() == written
    assert not in_use(tmp_path)
