"""A request to the engine: who asks, how its commands are made, and what came of it.

A request is decided late, and again if the state that it was decided on has changed meanwhile. It therefore
holds no commands but a function that makes them (``Build``) from a view of the state. Names are resolved in
that function, so that they are resolved anew in every try. Ids must not differ between tries: they derive
from the id of the request.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from fairwarning.core.changes import Change, PollsRecorded
from fairwarning.core.commands import Command
from fairwarning.core.errors import FairWarningError
from fairwarning.core.history import CommandRefused, Note
from fairwarning.core.model import (
    BarrierId,
    Event,
    EventId,
    Machine,
    MachineRef,
    Principal,
    Scope,
    ScopeId,
    derive_id,
)

#: Texts that other packages store with the fleet, by key; None removes the text.
Texts = Mapping[str, str | None]


class Caller(NamedTuple):
    """Who asks, and the id of the request."""

    principal: Principal
    request: str


class View(Protocol):
    """The state that a request is decided on."""

    def scope(self, scope_id: ScopeId) -> Scope:
        """Return a scope, or raise ``UnknownScopeError``."""
        ...

    def find_scope(self, scope_id: ScopeId) -> Scope | None:
        """Return a scope; None if there is none."""
        ...

    def machine(self, name: str) -> Machine:
        """Return the machine named ``name`` or ``scope/name``."""
        ...

    def machine_at(self, ref: MachineRef) -> Machine:
        """Return a machine by its reference, or raise ``UnknownMachineError``."""
        ...

    def machines_on_host(self, host: str) -> tuple[MachineRef, ...]:
        """Return the machines on a host."""
        ...

    def event(self, event_id: str) -> Event:
        """Return a pending event."""
        ...

    def scopes_of_set(self, set_id: str) -> tuple[Scope, ...]:
        """Return the scopes of a set: one, or one per zone; none if there is no such set."""
        ...

    def scopes_on_host(self, host: str) -> tuple[ScopeId, ...]:
        """Return the scopes with machines on a host."""
        ...

    def scopes_behind(self, barrier: BarrierId) -> tuple[ScopeId, ...]:
        """Return the scopes with events behind a barrier."""
        ...

    def scopes(self) -> tuple[Scope, ...]:
        """Return all scopes."""
        ...

    def text(self, key: str) -> str | None:
        """Return a text that another package stores with the fleet."""
        ...

    def keys_under(self, prefix: str) -> Iterator[str]:
        """Yield the keys of the texts below a prefix, in order."""
        ...


_NO_TEXTS: Texts = MappingProxyType({})


def _no_texts(changes: tuple[Change, ...]) -> Texts:
    return _NO_TEXTS


class Plan(NamedTuple):
    """What a request wants: commands, texts to store with what they change, and notes for the journal."""

    commands: tuple[Command, ...] = ()
    texts: Callable[[tuple[Change, ...]], Texts] = _no_texts
    #: Lines that change no aggregate.
    notes: tuple[Note | PollsRecorded, ...] = ()
    #: Whether the request rests on the whole journal, up to a line that was written after the request came.
    #: The absence of polls is such a reason: any node may have written one.
    needs_whole_journal: bool = False


#: Makes the plan of a request from the state that it is decided on; called once per try.
Build = Callable[[View], Plan]

#: Returns the journal's note about a refused request; None if it is not noted.
NoteRefusal = Callable[[FairWarningError], CommandRefused | None]


def no_note(error: FairWarningError) -> None:
    """Do not note a refusal."""


class Result(NamedTuple):
    """What came of a request, once it is stored."""

    changes: tuple[Change, ...]
    texts: Texts


def derived_id(caller: Caller, *parts: str) -> EventId:
    """Return an id that is the same in every try of a request."""
    return derive_id(caller.request, *parts)
