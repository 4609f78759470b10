"""A restored fleet is the fleet of the backup; what guests compare has moved forward."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import ScopeRemoved, TextChanged
from fairwarning.core.commands import CreateSet, DeleteScopes
from fairwarning.core.history import ActionNote, OperatorAction
from fairwarning.core.maintenance.values import Hold
from fairwarning.core.model import ScopeId, ScopeKind, derive_id
from fairwarning.core.policy import Policy
from fairwarning.core.stored.kinds import HOLD, SESSIONS_ENDED
from fairwarning.database.data_directory import DataDirectory
from fairwarning.database.errors import ClockBehindError, IncarnationsUsedUpError
from fairwarning.database.operations import back_up, check_database, restore
from fairwarning.database.restores import BURST, MOST, RATE, jump_since
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.store.checks import select_rows
from fairwarning.store.errors import DatabaseNotEmptyError
from fairwarning.store.rows import read_leases
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.store.damage import Sample, State, closed, read
from tests.store.stores import Node, made

DAY = timedelta(days=1)
JUMP = BURST + RATE * 86_400


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return closed(tmp_path_factory.mktemp("sample"))


@pytest.fixture(scope="module")
def backup(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("backup") / "fleet.backup"
    back_up(DataDirectory(sample.directory), file, clock=ManualClock(NOON))
    return file


@pytest.fixture(scope="module")
def restored(backup: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("restored") / "data"
    restore(DataDirectory(directory), backup, hold=False, clock=ManualClock(NOON + DAY))
    return directory


@pytest.fixture(scope="module")
def state(restored: Path) -> State:
    return asyncio.run(read(restored))


def test_machines_events_texts_and_polls_are_those_of_the_backup(sample: Sample, state: State) -> None:
    before, after = sample.state.snapshot, state.snapshot

    assert list(after.scopes) == list(before.scopes)
    for scope_id, scope in after.scopes.items():
        assert scope.facts == before.scopes[scope_id].facts
        assert scope.version == before.scopes[scope_id].version
        assert list(scope.machines.items()) == list(before.scopes[scope_id].machines.items())
        assert list(scope.events.items()) == list(before.scopes[scope_id].events.items())
    assert list(after.texts.items())[:-1] == list(before.texts.items())
    assert after.polled == before.polled
    assert state.value == sample.state.value


@pytest.mark.rule("L-11")
def test_every_incarnation_moves_forward_by_more_than_a_day_can_use(sample: Sample, state: State) -> None:
    before, after = sample.state.snapshot, state.snapshot

    assert {name: scope.incarnation for name, scope in after.scopes.items()} == {
        name: scope.incarnation + JUMP for name, scope in before.scopes.items()
    }
    assert {name: entry.incarnation for name, entry in after.sets.items()} == {
        "": JUMP,
        **{name: entry.incarnation + JUMP for name, entry in before.sets.items()},
    }


def test_everything_has_a_new_stamp(sample: Sample, state: State) -> None:
    before, after = sample.state.snapshot, state.snapshot
    stamps = {*after.scope_stamps.values(), *after.text_stamps.values()}
    stamps |= {entry.stamp for entry in after.sets.values()}

    assert stamps == {state.lines[-1].stamp}
    assert not stamps & {*before.scope_stamps.values(), *before.text_stamps.values()}


def test_the_journal_goes_on_with_a_line_about_the_restore(sample: Sample, state: State) -> None:
    *lines, restored, sessions = state.lines

    assert lines == sample.state.lines
    assert (restored.seq, restored.ends, restored.at) == (67, 68, NOON + DAY)
    assert isinstance(restored.change, ActionNote)
    assert restored.change.deed is OperatorAction.RESTORED
    assert str(JUMP) in restored.change.detail
    assert sessions.stamp == restored.stamp


def test_all_sessions_of_the_console_end(state: State) -> None:
    assert state.snapshot.texts[SESSIONS_ENDED.key()] == (NOON + DAY).isoformat()


def test_all_leases_are_over_and_their_fences_go_on(restored: Path, sample: Sample) -> None:
    async def story() -> None:
        store = await SqliteStore.open(restored)
        leases = await store._read(lambda database: read_leases(database.execute(select_rows("claim"))))
        assert leases.keys() == sample.state.leases.keys()
        assert all(lease.owner == "" for lease in leases.values())

        lease = await store.claim("host 0", "another node", NOON, timedelta(minutes=1))
        await store.close()

        assert lease is not None
        assert lease.fence == sample.state.leases["host 0"].fence + JUMP + 1

    asyncio.run(story())


def test_a_restored_database_is_sound(backup: Path, tmp_path: Path) -> None:
    database = DataDirectory(tmp_path / "data")
    restore(database, backup, clock=ManualClock(NOON + DAY))

    report = check_database(database)

    assert report.findings.kept == []
    assert report.proved == 2


def test_a_backup_is_restored_only_into_an_empty_directory(
    sample: Sample, backup: Path, tmp_path: Path
) -> None:
    directory = sample.copy(tmp_path / "copy")
    before = asyncio.run(read(directory))

    with pytest.raises(DatabaseNotEmptyError):
        restore(DataDirectory(directory), backup)
    assert asyncio.run(read(directory)) == before


def test_a_directory_in_which_nothing_was_stored_is_empty(backup: Path, tmp_path: Path) -> None:
    async def create() -> None:
        await (await SqliteStore.open(tmp_path)).close()

    asyncio.run(create())
    restore(DataDirectory(tmp_path), backup, clock=ManualClock(NOON + DAY))

    assert len(asyncio.run(read(tmp_path)).snapshot.scopes) == 2


def test_a_jump_that_does_not_fit_leaves_an_empty_database(backup: Path, tmp_path: Path) -> None:
    database = DataDirectory(tmp_path / "data")

    with pytest.raises(IncarnationsUsedUpError, match="fleet_set db"):
        restore(database, backup, jump=MOST + 1)

    database.check_empty()
    assert restore(database, backup, jump=5).restore.jump == 5


def test_the_jump_grows_with_the_age_of_the_backup() -> None:
    assert jump_since(NOON, NOON) == BURST
    assert jump_since(NOON, NOON + DAY) == JUMP
    assert jump_since(NOON, NOON + timedelta(milliseconds=1)) == BURST + RATE
    assert jump_since(NOON, NOON - timedelta(minutes=1)) == BURST
    with pytest.raises(ClockBehindError):
        jump_since(NOON, NOON - timedelta(hours=1))


def test_a_restored_database_can_be_backed_up_and_restored_again(backup: Path, tmp_path: Path) -> None:
    one, other = DataDirectory(tmp_path / "one"), DataDirectory(tmp_path / "other")
    restore(one, backup, clock=ManualClock(NOON + DAY))
    back_up(one, tmp_path / "again", clock=ManualClock(NOON + DAY))
    restore(other, tmp_path / "again", clock=ManualClock(NOON + 2 * DAY))

    scope = asyncio.run(read(tmp_path / "other")).snapshot.scopes[ScopeId("db")]

    assert scope.incarnation == 7 + 2 * JUMP
    assert check_database(other).findings.kept == []


def incarnations_of_new_sets(directory: Path, *names: str) -> dict[str, int]:
    """Return the incarnations that sets of these names begin with."""

    async def story() -> dict[str, int]:
        store = await SqliteStore.open(directory)
        engine = Engine(store, ManualClock(NOON + DAY), SimulatedDriver(), Policy())
        await engine.open()
        for name in names:
            blueprint = Blueprint(name=name, kind=ScopeKind.STANDALONE)
            await engine.handle(CreateSet(seed=derive_id(name), blueprint=blueprint))
        found = {name: engine.scopes()[ScopeId(name)].incarnation for name in names}
        if names:
            scopes = tuple(ScopeId(name) for name in names)
            await engine.handle(DeleteScopes(id=derive_id("delete"), scopes=scopes, force=True))
        await engine.close()
        await store.close()
        return found

    return asyncio.run(story())


@pytest.mark.rule("L-11")
def test_a_set_that_was_created_after_the_backup_does_not_begin_again_at_one(tmp_path: Path) -> None:
    async def story() -> None:
        store, node = await SqliteStore.open(tmp_path / "old"), Node()
        await store.commit(node.decide(made("removed", "removed_0")))
        removed = ScopeRemoved(scope=ScopeId("removed"), set_id="removed", incarnation=40)
        await store.commit(node.decide([removed]))
        await store.close()

    asyncio.run(story())
    old, new = DataDirectory(tmp_path / "old"), DataDirectory(tmp_path / "new")
    back_up(old, tmp_path / "backup", clock=ManualClock(NOON))
    restore(new, tmp_path / "backup", jump=1000, clock=ManualClock(NOON))

    found = incarnations_of_new_sets(tmp_path / "new", "unheard", "removed")

    assert found == {"unheard": 1001, "removed": 1041}
    assert check_database(new).findings.kept == []


@pytest.mark.rule("M-08")
def test_a_restored_fleet_is_on_hold_until_an_operator_ends_the_hold(backup: Path, tmp_path: Path) -> None:
    restored = DataDirectory(tmp_path / "held")

    restore(restored, backup, clock=ManualClock(NOON + DAY))

    state = asyncio.run(read(tmp_path / "held"))
    hold = HOLD.find(state.snapshot.texts.get)
    assert hold == Hold(reason="restored from a backup", by="operator", since=NOON + DAY)
    *_, held, stored = [entry.change for entry in state.lines]
    assert isinstance(held, ActionNote)
    assert held.deed is OperatorAction.HELD
    assert stored == TextChanged(key=HOLD.key(), text=HOLD.encode(hold))
    assert check_database(restored).findings.kept == []
