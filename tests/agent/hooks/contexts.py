"""The contexts of the hook tests, and stand-ins for programs that are not installed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from fairwarning.agent.hooks.hook import HookContext, Phase
from fairwarning.core.document.parse import ObservedEvent
from fairwarning.core.model import EventId
from tests.conftest import NOON

EVENT = ObservedEvent(
    id=EventId("602d9444-d2cd-49c7-8624-8643e7171297"),
    status="Scheduled",
    kind="Reboot",
    resources=("web_0", "web_1"),
    not_before=NOON + timedelta(minutes=15),
    source="Platform",
    description="Host server is undergoing maintenance.",
    duration=-1,
)
OTHER = replace(EVENT, id=EventId("7B2D9444-D2CD-49C7-8624-8643E7171298"))


def noon() -> datetime:
    return NOON


def prepare(
    event: ObservedEvent = EVENT, deadline: datetime | None = EVENT.not_before, dry_run: bool = False
) -> HookContext:
    return _context("prepare", event, deadline, dry_run)


def recover(event: ObservedEvent = EVENT, dry_run: bool = False) -> HookContext:
    return _context("recover", event, None, dry_run)


def in_seconds(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def path_with(folder: Path) -> dict[str, str]:
    """Return an environment in which the programs of ``folder`` come first."""
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def stand_in(folder: Path, name: str, script: str) -> Callable[[], list[str]]:
    """Put a program called ``name`` into ``folder``; the function returns its calls."""
    calls = folder / f"{name}.calls"
    program = folder / name
    program.write_text(f'#!/bin/sh\necho "$*" >> {calls}\n{script}\n')
    program.chmod(0o755)
    return lambda: calls.read_text().splitlines() if calls.exists() else []


def _context(phase: Phase, event: ObservedEvent, deadline: datetime | None, dry_run: bool) -> HookContext:
    return HookContext(event, phase, "web_0", deadline, dry_run)
