"""The journal as the console reads it."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from math import inf

import pytest

from fairwarning.console import journal
from fairwarning.console.journal import KINDS, HistoryFilter, JournalCache, describe, read_all, read_excerpt
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.changes import EventChanged
from fairwarning.core.commands import DeleteScopes, ReportOutcomes
from fairwarning.core.document.endpoint_faults import EndpointFault
from fairwarning.core.errors import FairWarningError
from fairwarning.core.fleet import Observation, Progress
from fairwarning.core.history import ActionNote, HistoryEntry, OperatorAction
from fairwarning.core.model import OPERATOR, ScopeId
from fairwarning.drivers.simulated import Mishap
from fairwarning.engine.engine import Engine
from fairwarning.engine.faults import ActiveFault
from fairwarning.engine.requests import Caller, Plan
from fairwarning.engine.time_control import advance_to
from tests.fleet_harness import FleetHarness, run

WEB = Blueprint(name="web", count=3, terminate_notice=timedelta(minutes=5))


async def collected(lines: AsyncGenerator[HistoryEntry, None]) -> list[HistoryEntry]:
    """Return all lines there are."""
    return [line async for line in lines]


async def add_notes(engine: Engine) -> None:
    """Do everything that is recorded although it does not change the fleet."""
    web_0 = engine.directory.machine("web_0")
    await engine.faults.set(web_0, ActiveFault(EndpointFault.TOO_MANY, inf), "operator")
    await engine.faults.clear(web_0, "operator")
    await engine.remark(ActionNote(deed=OperatorAction.ADVANCED, detail="by 1h", by="operator"))
    await engine.remark(ActionNote(deed=OperatorAction.SPEED, detail="60 times as fast", by="operator"))
    await engine.remark(ActionNote(deed=OperatorAction.RESTORED, detail="a backup", by="operator"))
    caller = Caller(OPERATOR, "a request")
    await engine.submit(caller, lambda view: Plan(texts=lambda changes: {"/a/resource": "{}"}))


async def maintain_on_hold(stage: FleetHarness) -> None:
    """Postpone a maintenance whose window opens while the fleet is on hold."""
    maintenances = Control(stage.engine).maintenances
    await maintenances.hold(OPERATOR, "an incident")
    now = stage.now
    await maintenances.announce(OPERATOR, "freeze", host="host-web-0-0", opens=now + timedelta(hours=1))
    await maintenances.postpone(OPERATOR, "host-web-0-0", now + timedelta(hours=2))
    await advance_to(stage.engine, stage.clock, now + timedelta(hours=3))
    await maintenances.unhold(OPERATOR)


def eventful() -> FleetHarness:
    """Return a fleet whose journal has lines of every kind."""
    stage = FleetHarness(WEB, watched=False)
    stage.cause("freeze", "web_0", "web_1")
    stage.poll("web_0")
    (restart,) = stage.cause("restart", "web_2")
    stage.approve(restart, by="web_2")
    stage.break_machine("web_2", Mishap.FAILS)
    (redeploy,) = stage.cause("redeploy", "web_1")
    stage.cancel(redeploy)
    with pytest.raises(FairWarningError):
        run(Control(stage.engine).cause(OPERATOR, "evict", ["web_0"]))
    stage.walk("web")
    stage.advance("15m")
    started = next(event for event in stage.pending("web") if not event.waiting)
    late = Observation(
        event=started.id, machine=started.resources[0], progress=Progress.ACTING, problem="no answer yet"
    )
    stage.do(ReportOutcomes(scope=ScopeId("web"), observations=(late,)))
    stage.advance("7h")
    run(maintain_on_hold(stage))
    stage.poll("web_0")
    run(add_notes(stage.engine))
    stage.do(DeleteScopes(id=stage.new_id(), scopes=(ScopeId("web"),), force=True))
    stage.advance("1m")
    return stage


def lines(stage: FleetHarness, **criteria: str) -> list[HistoryEntry]:
    """Return the newest lines that are criteria."""
    return list(run(read_excerpt(stage.store, HistoryFilter(**criteria))).lines)


def test_every_line_of_the_journal_is_told_and_every_kind_occurs() -> None:
    stage = eventful()

    described = [describe(entry) for entry in stage.journal()]

    assert {line.kind for line in described} == set(KINDS)
    assert [line.seq for line in described] == [entry.seq for entry in stage.journal()]


def test_the_newest_line_comes_first() -> None:
    stage = eventful()

    seqs = [line.seq for line in lines(stage)]

    assert seqs == sorted(seqs, reverse=True)
    assert seqs[0] == stage.journal()[-1].seq


@pytest.mark.parametrize(
    ("criteria", "count"),
    [
        pytest.param({"machine": "web_2", "kind": "approved"}, 1, id="what a machine approved"),
        pytest.param({"machine": "WEB_2", "kind": "approved"}, 1, id="names in any case"),
        pytest.param({"who": "WEB_2", "kind": "approved"}, 1, id="who, in any case"),
        pytest.param({"kind": "refused"}, 1, id="what was refused"),
        pytest.param({"text": "not a spot"}, 1, id="a text in the reason"),
        pytest.param({"scope": "we"}, 0, id="a scope is named in full"),
        pytest.param({"machine": "web_"}, 0, id="a machine is named in full"),
        pytest.param({"kind": "no such kind"}, 0, id="what there is not"),
    ],
)
def test_only_what_is_wanted_is_told(criteria: dict[str, str], count: int) -> None:
    assert len(lines(eventful(), **criteria)) == count


def test_one_event_is_found_by_the_beginning_of_its_id_in_any_case() -> None:
    stage = FleetHarness(WEB)
    (event,) = stage.cause("restart", "web_0")
    stage.cause("restart", "web_1")

    assert {line.event for line in lines(stage, event=event[:8].lower())} == {event}


def test_pages_follow_each_other_without_gap_or_repetition() -> None:
    stage = eventful()
    seqs: list[int] = []
    before: int | None = None

    for _ in range(100):
        page = run(read_excerpt(stage.store, HistoryFilter(), before, most=7))
        seqs += [line.seq for line in page.lines]
        before = page.older
        if before is None:
            break

    assert seqs == [entry.seq for entry in reversed(stage.journal())]


@pytest.mark.parametrize("before", [0, 1, -5])
def test_before_the_first_line_there_is_nothing(before: int) -> None:
    page = run(read_excerpt(eventful().store, HistoryFilter(), before))

    assert (page.lines, page.older) == ((), None)


def test_a_place_beyond_the_end_is_the_end() -> None:
    stage = eventful()

    page = run(read_excerpt(stage.store, HistoryFilter(), 10**18))

    assert page == run(read_excerpt(stage.store, HistoryFilter()))


def test_a_search_that_finds_nothing_gives_up_in_time_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = eventful()
    monkeypatch.setattr(journal, "CHUNK", 3)
    end = stage.journal()[-1].seq + 1

    page = run(read_excerpt(stage.store, HistoryFilter(kind="no such kind"), reach=10))

    assert (page.lines, page.older, page.complete) == ((), end - 10, False)


def test_an_empty_journal_has_an_empty_page() -> None:
    page = run(read_excerpt(FleetHarness().store, HistoryFilter()))

    assert (page.lines, page.older, page.complete) == ((), None, True)


def test_everything_is_told_oldest_first() -> None:
    stage = eventful()

    everything = run(collected(read_all(stage.store, HistoryFilter(scope="web"))))

    assert [line.seq for line in everything] == [e.seq for e in stage.journal() if e.change.scope == "web"]


@pytest.mark.parametrize(
    "criteria",
    [
        pytest.param(HistoryFilter(), id="everything"),
        pytest.param(HistoryFilter(kind="scheduled"), id="some lines"),
        pytest.param(HistoryFilter(kind="no such kind"), id="nothing"),
    ],
)
def test_a_cached_excerpt_is_the_same_as_one_read_anew(criteria: HistoryFilter) -> None:
    stage = FleetHarness(WEB)
    cache = JournalCache(stage.store)

    for number in range(3):
        stage.cause("restart", f"web_{number}")
        for most in (2, 100):
            kept = run(cache.excerpt(criteria, most=most))
            assert kept == run(read_excerpt(stage.store, criteria, most=most))
            assert run(cache.excerpt(criteria, most=most)) == kept


def test_too_much_news_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "CHUNK", 2)
    stage = FleetHarness(WEB)
    cache = JournalCache(stage.store)
    run(cache.excerpt(HistoryFilter()))
    stage.cause("restart", "web_0", "web_1")

    assert run(cache.excerpt(HistoryFilter())) == run(read_excerpt(stage.store, HistoryFilter()))


def test_an_older_excerpt_stays_and_one_beyond_the_end_moves_on() -> None:
    stage = FleetHarness(WEB)
    cache = JournalCache(stage.store)
    old, beyond = run(cache.excerpt(HistoryFilter(), 3)), run(cache.excerpt(HistoryFilter(), 1000))
    stage.cause("restart", "web_0")

    assert run(cache.excerpt(HistoryFilter(), 3)) is old
    assert run(cache.excerpt(HistoryFilter(), 1000)).lines[0].seq > beyond.lines[0].seq


def test_only_so_many_excerpts_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_EXCERPTS", 1)
    cache = JournalCache(FleetHarness(WEB).store)
    first = run(cache.excerpt(HistoryFilter(), 3))
    run(cache.excerpt(HistoryFilter(), 2))

    assert run(cache.excerpt(HistoryFilter(), 3)) is not first


def test_the_cache_grows_with_the_journal_and_holds_each_line_once() -> None:
    stage = FleetHarness(WEB)
    cache = JournalCache(stage.store)
    stage.cause("restart", "web_0")

    first = run(cache.event_changes())
    stage.cause("restart", "web_1")
    second = run(cache.event_changes())
    third = run(cache.event_changes())

    assert (len(first), len(second), third) == (1, 2, second)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_CHANGES", 2)
    stage = FleetHarness(WEB)
    cache = JournalCache(stage.store)
    events = [stage.cause("restart", f"web_{number}")[0] for number in range(3)]

    cached = [describe(entry).event for entry in run(cache.event_changes())]

    assert cached == events[1:]


# -- one scope among others


def crowded() -> FleetHarness:
    """Return a fleet in which things happen in one scope, then for long in another, then in both by turns."""
    stage = FleetHarness(WEB, Blueprint(name="app", count=1))
    for scope, times in (("web", 2), ("app", 40), ("web", 3), ("app", 7), ("web", 30)):
        for _ in range(times):
            stage.cancel(*stage.cause("restart", f"{scope}_0"))
    return stage


@pytest.mark.parametrize("read", [2, 3, 16, 1000])
@pytest.mark.parametrize("scope", ["web", "app", "nowhere"])
def test_the_lines_of_a_scope_are_found_however_far_apart_they_lie(
    monkeypatch: pytest.MonkeyPatch, scope: str, read: int
) -> None:
    monkeypatch.setattr(journal, "CHUNK", read)
    stage = crowded()

    page = run(read_excerpt(stage.store, HistoryFilter(scope=scope), most=1000))

    assert page.complete
    assert [line.seq for line in page.lines] == [
        entry.seq for entry in reversed(stage.journal()) if entry.change.scope == scope
    ]


@pytest.mark.parametrize("read", [2, 1000])
def test_the_cached_changes_of_a_scope_are_its_own_latest(monkeypatch: pytest.MonkeyPatch, read: int) -> None:
    monkeypatch.setattr(journal, "CHUNK", read)
    monkeypatch.setattr(journal, "MOST_CHANGES", 70)
    stage = crowded()
    cache = JournalCache(stage.store)
    before = run(cache.event_changes(ScopeId("web")))

    stage.cause("restart", "app_0")
    stage.cause("restart", "web_1")

    events = [e for e in stage.journal() if isinstance(e.change, EventChanged) and e.change.scope == "web"]
    assert list(before) == events[-71:-1]
    assert list(run(cache.event_changes(ScopeId("web")))) == events[-70:]


def test_only_so_many_scopes_are_cached_and_none_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_SCOPES", 1)
    stage = crowded()
    cache = JournalCache(stage.store)

    first = run(cache.event_changes(ScopeId("web")))
    run(cache.event_changes(ScopeId("app")))

    assert run(cache.event_changes(ScopeId("web"))) == first


def test_many_lines_about_no_event_are_not_all_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "LOOK_BACK", 4)
    stage = crowded()

    cached = run(JournalCache(stage.store).event_changes(ScopeId("web")))

    latest = [entry for entry in stage.journal() if entry.change.scope == "web"][-4:]
    assert list(cached) == [entry for entry in latest if isinstance(entry.change, EventChanged)]
