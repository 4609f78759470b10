"""What a start says about a data directory: its machines, and how they differ from the settings."""

from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import Scope
from fairwarning.formats.counts import format_count
from fairwarning.formats.timestamps import for_people

#: A note names at most this many machines.
MOST_NAMED = 10


def clock_ahead_note(manual_time: datetime) -> str:
    """Return the note about a manual clock that was ahead of real time."""
    return (
        f"the manual clock of this data directory is at {for_people(manual_time)}, ahead of real time: "
        "events due after that will be late; hint: up --clock manual"
    )


def stored_fleet_note(scopes: Collection[Scope], data: Path | None) -> str:
    """Return how many machines a data directory has."""
    if not scopes:
        return f"no machines are left in {data}; hint: create some with --scale-set web=3"
    machines = sum(len(scope.machines) for scope in scopes)
    sets = len({scope.facts.set_id for scope in scopes})
    return f"{format_count(machines, 'machine')} in {format_count(sets, 'set')} from {data}"


def kept_machines_note(names: Sequence[str]) -> str:
    """Return which machines an inventory does not list and pending events keep."""
    kept, some = format_count(len(names), "machine"), ", ".join(names[:MOST_NAMED])
    return f"{kept} not in the inventory, kept because of pending events: {some}"


def difference_notes(blueprint: Blueprint, scopes: Sequence[Scope]) -> tuple[str, ...]:
    """Return how the scopes of an existing set differ from its blueprint."""
    kind, count = scopes[0].facts.kind, sum(len(scope.machines) for scope in scopes)
    machines = format_count(count, "machine")
    if kind is not blueprint.kind:
        return (f"{blueprint.name} already exists, as {kind} with {machines}",)
    if count != (sum(number for _, number in blueprint.roles) or blueprint.count):
        return (f"{blueprint.name} already exists, with {machines}",)
    return ()
