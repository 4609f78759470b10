"""How a store reacts to a failing disk."""

import asyncio
import resource
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.store.entries import Receipts
from fairwarning.store.errors import DatabaseDamagedError, StoreFailedError, UnknownOutcomeError
from fairwarning.store.marker import read_marker
from fairwarning.store.sqlite import DATABASE, SqliteStore
from tests.store.damage import WAL, fill, state
from tests.store.stores import Node, WaitingStamps, made


def with_store(directory: Path, story: Callable[[SqliteStore], Coroutine[None, None, None]]) -> None:
    async def scene() -> None:
        store = await SqliteStore.open(directory)
        try:
            await story(store)
        finally:
            await store.close()

    asyncio.run(scene())


@contextmanager
def no_larger_files(size: int) -> Iterator[None]:
    """Let every write beyond ``size`` fail, as a broken disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


NEW = Node().decide(made("new", "a"))


async def fail_to_commit(store: SqliteStore, directory: Path) -> UnknownOutcomeError:
    """Let the disk fail when a commit reaches it."""
    with no_larger_files((directory / WAL).stat().st_size), pytest.raises(UnknownOutcomeError) as refusal:
        await store.commit(NEW)
    return refusal.value


def test_a_full_disk_is_named_with_its_path_and_what_is_free(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        before = await state(store)
        await store._writer.work(lambda database: database.execute("PRAGMA max_page_count = 1").close())
        large = Node().decide(made("new", *(f"m{number}" for number in range(100))))

        with pytest.raises(
            StoreFailedError, match=r"database or disk is full; [\d.]+ MB are free"
        ) as refusal:
            await store.commit(large)

        assert str(tmp_path / DATABASE) in str(refusal.value)
        assert not isinstance(refusal.value, UnknownOutcomeError)
        assert await state(store) == before

    with_store(tmp_path, story)


def test_a_commit_that_failed_at_its_end_may_have_been_kept_and_the_error_says_so(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        with (
            no_larger_files((tmp_path / WAL).stat().st_size),
            pytest.raises(
                UnknownOutcomeError, match="it is unknown whether the change was stored"
            ) as refusal,
        ):
            await store.commit(NEW)

        assert "nothing was stored" not in (type(refusal.value).__doc__ or "")
        assert str(tmp_path / DATABASE) in str(refusal.value)

    with_store(tmp_path, story)


def test_after_such_a_failure_the_store_reads_anew_what_is_true_and_goes_on(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        await fail_to_commit(store, tmp_path)
        scopes = (await store.snapshot()).scopes

        # The outcome is known now, and on the disk: the log has been copied into the database file.
        assert (tmp_path / WAL).stat().st_size == 0
        before = await store.last()
        kept = await store.commit(NEW)
        assert await store.last() == before + (0 if "new" in scopes else len(kept))
        assert "new" in (await store.snapshot()).scopes

    with_store(tmp_path, story)


def test_a_batch_that_was_kept_though_its_commit_failed_is_answered_when_it_is_sent_again(
    tmp_path: Path,
) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        kept = await store.commit(NEW)
        last = await store.last()
        store._outcome_unknown, store._receipts = True, Receipts()

        assert await store.commit(NEW) == kept
        assert await store.last() == last

    with_store(tmp_path, story)


def test_a_failure_that_nobody_waits_for_any_more_stops_the_writes_behind_it(tmp_path: Path) -> None:
    expected = WaitingStamps(NEW.expected)

    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        with no_larger_files((tmp_path / WAL).stat().st_size):
            writing = asyncio.create_task(store.commit(NEW._replace(expected=expected)))
            behind = asyncio.create_task(store.put_value("clock", "late"))
            while not expected.reached.is_set():
                await asyncio.sleep(0)
            writing.cancel()
            expected.go_on.set()
            with pytest.raises(StoreFailedError, match="the outcome of the write before is unknown"):
                await behind

        assert await store.get_value("clock") != "late"
        await store.commit(NEW)
        assert "new" in (await store.snapshot()).scopes

    with_store(tmp_path, story)


def test_until_it_can_be_read_anew_nothing_is_answered_from_it(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        await fail_to_commit(store, tmp_path)
        with no_larger_files(0):
            for _ in range(2):
                with pytest.raises(StoreFailedError):
                    await store.snapshot()
                with pytest.raises(StoreFailedError):
                    await store.commit(NEW)

        assert "web" in (await store.snapshot()).scopes

    with_store(tmp_path, story)


def test_what_was_changed_meanwhile_is_found_when_it_is_read_anew(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        await fail_to_commit(store, tmp_path)
        content = (tmp_path / DATABASE).read_bytes()
        (tmp_path / DATABASE).write_bytes(content[:4096] + bytes(len(content) - 4096))
        (tmp_path / WAL).write_bytes(b"")
        with pytest.raises((DatabaseDamagedError, StoreFailedError)):
            await store.snapshot()

    with_store(tmp_path, story)


def test_the_marker_never_says_more_than_what_was_kept(tmp_path: Path) -> None:
    async def story(store: SqliteStore) -> None:
        await fill(store, 2)
        before = read_marker(tmp_path)
        await fail_to_commit(store, tmp_path)

        assert read_marker(tmp_path) == before

    with_store(tmp_path, story)
