"""Finds what the names in a request stand for, in the state that the request is decided on."""

from collections.abc import Iterable, Sequence

from fairwarning.control.draft import Draft
from fairwarning.core.document.render import parse_event_id
from fairwarning.core.errors import InvalidError, UnknownMachineError
from fairwarning.core.inputs import field_context
from fairwarning.core.model import Event, MachineRef, Scope, ScopeId, VmName
from fairwarning.engine.requests import View


def machines_or_host(view: View, names: Sequence[str], host: str | None) -> tuple[MachineRef, ...]:
    """Return the machines of these names, or those on a host; a refusal says which name is at fault."""
    if host is not None:
        if names:
            raise InvalidError("host", "give machines or a host, not both")
        with field_context("host"):
            return view.machines_on_host(host)
    refs = []
    for number, name in enumerate(names):
        with field_context(f"machines[{number}]"):
            refs.append(view.machine(name).ref)
    return tuple(refs)


def scopes_of(view: View, name: str) -> tuple[Scope, ...]:
    """Return the scopes of the set called ``name``, or the one scope with this id."""
    return view.scopes_of_set(name) or (view.scope(ScopeId(name)),)


def members(view: View, scopes: Sequence[Scope], names: Iterable[str]) -> tuple[MachineRef, ...]:
    """Return the machines of these names in the scopes of a set."""
    refs = []
    for number, name in enumerate(names):
        with field_context(f"machines[{number}]"):
            own = (scope.machines[VmName(name)].ref for scope in scopes if VmName(name) in scope.machines)
            ref = next(own, None) or view.machine(name).ref
            if all(ref.scope != scope.id for scope in scopes):
                raise UnknownMachineError(name)
            refs.append(ref)
    return tuple(refs)


def pending_event(draft: Draft, asked: str, event_id: str) -> Event:
    """Return a pending event, which becomes the subject of the request."""
    draft.about(asked, event=parse_event_id(event_id, "event"))
    return draft.view.event(event_id)
