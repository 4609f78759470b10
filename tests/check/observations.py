"""Observations for tests, with their times in seconds from the beginning of a scenario."""

import json
from dataclasses import replace
from datetime import timedelta

from fairwarning.check.observations import Asked, CausedEvent, Happened, Hooked, Life, Observed, Phase, Spell
from fairwarning.check.scenario import Scenario, Timing, parse_scenario
from fairwarning.core.document.render import Json
from fairwarning.core.model import EventId

E1, E2 = EventId("E1"), EventId("E2")
PATH = "/metadata/scheduledevents?api-version=2020-07-01"
TIMING = Timing(quick=True)

Observation = Asked | Hooked | Happened | Life | Spell


def after(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def get(
    at: float, *events: EventId, machine: str = "web_0", lasts: float = 0, status: int | None = 200
) -> Asked:
    """A poll, and the events in the document that was answered."""
    shown = [{"EventId": event, "EventStatus": "Scheduled", "EventType": "Reboot"} for event in events]
    return Asked(
        machine=machine,
        begun=after(at),
        ended=after(at + lasts),
        method="GET",
        target=PATH,
        status=status,
        answer=json.dumps({"DocumentIncarnation": 1, "Events": shown}).encode(),
    )


def refused(at: float, status: int) -> Asked:
    """A poll that is answered with an error."""
    return replace(get(at, status=status), answer=b'{"error":\n "no"}')


def post(at: float, event: EventId = E1, machine: str = "web_0", status: int | None = 200) -> Asked:
    """An approval."""
    body = json.dumps({"StartRequests": [{"EventId": event}]}).encode()
    return Asked(
        machine=machine,
        begun=after(at),
        ended=after(at),
        method="POST",
        target=PATH,
        body=body,
        status=status,
    )


def hook(
    phase: Phase,
    begun: float,
    ended: float | None,
    event: EventId | None = E1,
    machine: str = "web_0",
    ok: bool = True,
) -> Hooked:
    return Hooked(
        machine=machine,
        phase=phase,
        begun=after(begun),
        ended=None if ended is None else after(ended),
        event=event,
        ok=ok,
    )


def drain(
    begun: float, ended: float | None, event: EventId | None = E1, machine: str = "web_0", ok: bool = True
) -> Hooked:
    return hook(Phase.DRAIN, begun, ended, event, machine, ok)


def recover(at: float, event: EventId | None = E1, machine: str = "web_0") -> Hooked:
    return hook(Phase.RECOVER, at, at, event, machine)


def happen(at: float, kind: str, event: EventId = E1) -> Happened:
    return Happened(kind=kind, event=event, at=after(at))


def life(
    begun: float, ended: float | None = None, code: int | None = None, *, ended_by_step: bool = True
) -> Life:
    return Life(
        machine="web_0",
        begun=after(begun),
        ended=None if ended is None else after(ended),
        code=code,
        ended_by_step=ended_by_step,
    )


def spell(begun: float, ended: float) -> Spell:
    return Spell(machine="web_0", begun=after(begun), ended=after(ended))


def observed(
    *seen: Observation,
    events: tuple[CausedEvent, ...] = (),
    ended: float = 60,
    served: tuple[str, ...] = ("web_0",),
) -> Observed:
    """All observations of a scenario; the machines in ``served`` have polled at its beginning."""
    polled = (get(0, machine=name) for name in served)
    return Observed(
        ended=after(ended),
        asked=(*polled, *(item for item in seen if isinstance(item, Asked))),
        hooks=tuple(item for item in seen if isinstance(item, Hooked)),
        happened=tuple(item for item in seen if isinstance(item, Happened)),
        lives=tuple(item for item in seen if isinstance(item, Life)),
        spells=tuple(item for item in seen if isinstance(item, Spell)),
        events=events,
    )


def content(**members: Json) -> dict[str, Json]:
    """The smallest scenario, with these members instead of its own."""
    return {
        "name": "smallest",
        "summary": "a user restarts the machine",
        "why": "it happens",
        "fleet": {"scale_sets": {"web": 2}},
        "handlers": ["web_0"],
        "speed": 60,
        "ends": {"after": "gone"},
        "limit": "30s",
        "steps": [{"do": "cause", "cause": "restart", "machines": ["web_0"]}],
        "expect": [{"expect": "approves", "rule": "C-06"}],
        **members,
    }


def scenario(*handlers: str, **expectation: Json) -> Scenario:
    """A scenario that expects one thing."""
    names: list[Json] = [*(handlers or ("web_0",))]
    return parse_scenario("made.toml", content(handlers=names, expect=[{"rule": "C-06", **expectation}]))
