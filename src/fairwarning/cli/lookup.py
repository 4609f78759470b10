"""Finds what a user means: events by a prefix of their id, and close names for unknown ones."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from fairwarning.cli.client import (
    UNKNOWN_MACHINE,
    UNKNOWN_SCOPE,
    EventInfo,
    EventList,
    HistoryPart,
    MachineInfo,
    MachineList,
    OperatorClient,
    OperatorRefusalError,
    decode,
)
from fairwarning.cli.output import FailureError, join_names
from fairwarning.config import PROGRAM
from fairwarning.formats.suggestions import did_you_mean

#: How many characters an event id has; anything shorter is a prefix.
ID_LENGTH = 36

#: How many events an error about an ambiguous prefix lists.
MOST_CANDIDATES = 8


def pending_events(client: OperatorClient, prefixes: Sequence[str]) -> list[str]:
    """Return the ids of the pending events that have these prefixes, each id once."""
    if all(map(_is_complete, prefixes)):
        return _without_repetitions(prefixes)
    events = decode(client.get("/events"), EventList).events
    known = {event.id: describe_event(event) for event in events}
    hint = f"{PROGRAM} events lists the pending events, {PROGRAM} history all events"
    return _without_repetitions([_resolve(prefix, known, "no pending event", hint) for prefix in prefixes])


def recorded_event(client: OperatorClient, prefix: str) -> str:
    """Return the id of the event in the history that has this prefix."""
    if _is_complete(prefix):
        return prefix
    known = {
        line.event: f"{line.type} of {join_names(line.resources)}"
        for page in client.history()
        for line in decode(page, HistoryPart).history
        if line.event is not None
    }
    return _resolve(prefix, known, "no event", f"{PROGRAM} history lists all events")


def describe_event(event: EventInfo) -> str:
    """Return an event in a few words: ``Reboot of web_0``."""
    return f"{event.type} of {join_names(event.resources)}"


def _is_complete(event_id: str) -> bool:
    return len(event_id) >= ID_LENGTH


def _without_repetitions(event_ids: Sequence[str]) -> list[str]:
    # Ids are compared as the server compares them: in any case.
    return list({event_id.upper(): event_id for event_id in event_ids}.values())


def _resolve(prefix: str, known: dict[str, str], nothing: str, hint: str) -> str:
    if _is_complete(prefix):
        return prefix
    matches = [event_id for event_id in known if event_id.upper().startswith(prefix.upper())]
    if not matches:
        raise FailureError(f"{nothing} has an id that starts with {prefix}", hint)
    if len(matches) > 1:
        candidates = join_names([f"{event_id} ({known[event_id]})" for event_id in matches], MOST_CANDIDATES)
        raise FailureError(f"several events have an id that starts with {prefix}: {candidates}")
    return matches[0]


def machine_names(machines: Iterable[MachineInfo]) -> list[str]:
    """Return the names of machines; a name that several scopes have is written as ``scope/name``."""
    listed = list(machines)
    uses = Counter(machine.name for machine in listed)
    return [
        machine.name if uses[machine.name] == 1 else f"{machine.scope}/{machine.name}" for machine in listed
    ]


@contextmanager
def suggest_machines(client: OperatorClient, names: Iterable[str]) -> Iterator[None]:
    """Add close names to the refusal of an unknown machine."""
    try:
        yield
    except OperatorRefusalError as refusal:
        if refusal.kind != UNKNOWN_MACHINE:
            raise
        machines = decode(client.get("/machines"), MachineList).machines
        raise _with_suggestions(refusal, names, _all_names(machines), machine_names(machines)) from None


@contextmanager
def suggest_scopes(client: OperatorClient, scope: str) -> Iterator[None]:
    """Add close names to the refusal of an unknown scope."""
    try:
        yield
    except OperatorRefusalError as refusal:
        if refusal.kind != UNKNOWN_SCOPE:
            raise
        scopes = {machine.scope for machine in decode(client.get("/machines"), MachineList).machines}
        raise _with_suggestions(refusal, [scope], scopes, scopes) from None


def _all_names(machines: Iterable[MachineInfo]) -> set[str]:
    return {name for machine in machines for name in (machine.name, f"{machine.scope}/{machine.name}")}


def _with_suggestions(
    refusal: OperatorRefusalError, names: Iterable[str], valid: set[str], offered: Iterable[str]
) -> OperatorRefusalError:
    unknown = next((name for name in names if name not in valid), "")
    message = f"{refusal.message}{did_you_mean(unknown, offered)}"
    return OperatorRefusalError(message, *refusal.hints, status=refusal.status, kind=refusal.kind)
