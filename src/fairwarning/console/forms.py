"""What people write into forms, read into what the core understands; every mistake is told, by field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from fairwarning.console.page import Fields, FormProblem
from fairwarning.console.pages.create_fields import CREATE_FIELDS, Tab
from fairwarning.core.blueprint import MOST_MACHINES, Blueprint, build, check_name
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.changes import MachineChanged
from fairwarning.core.errors import FairWarningError, InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import EvictionPolicy, Machine, ScopeId, ScopeKind
from fairwarning.core.policy import Policy, check_terminate_notice

T = TypeVar("T")

#: How many machines a draft names.
MOST_NAMES = 6

#: What the core calls a field where the form has another name for it.
_CALLED: Mapping[str, str] = {"terminate_notice": "delay"}


class Form:
    """A filled-in form: its values as they were written, and what is wrong with them."""

    def __init__(self, given: Fields, defaults: Mapping[str, str]) -> None:
        self.values = {field: given.get(field, default) for field, default in defaults.items()}
        self.errors: dict[str, str] = {}

    @property
    def problems(self) -> tuple[FormProblem, ...]:
        """What is wrong, as pages tell it."""
        return tuple(FormProblem(text, field) for field, text in self.errors.items())

    def wrong(self, field: str, problem: str) -> None:
        """Note what is wrong with a field; what was noted first stays."""
        self.errors.setdefault(field, problem)

    def refuse(self, error: FairWarningError, field: str = "") -> None:
        """Note a refusal at the field it is about, or at the form as a whole."""
        if isinstance(error, InvalidError):
            self.wrong(_CALLED.get(error.field, error.field), error.problem)
        else:
            self.wrong(field, str(error))

    def attempt(self, field: str, read: Callable[[], T], otherwise: T) -> T:
        """Return what is read, or ``otherwise`` and the refusal noted at the field."""
        try:
            return read()
        except InvalidError as error:
            self.wrong(field, error.problem)
        except FairWarningError as error:
            self.wrong(field, str(error))
        return otherwise

    def name(self) -> str:
        """Return the name of what is to be made."""
        name = self.values["name"]
        if not name:
            self.wrong("name", "a name is needed")
        else:
            self.attempt("name", lambda: check_name(name), None)
        return name

    def whole(self, field: str) -> int:
        """Return a whole number within the limits of the question."""
        return self._whole(field, self.values[field], *CREATE_FIELDS[field].limits)

    def optional(self, field: str) -> int | None:
        """Return a whole number, or None where nothing is written."""
        return self.whole(field) if self.values[field] else None

    def chosen(self, field: str, choices: Mapping[str, T]) -> T:
        """Return what a choice stands for."""
        given = self.values[field]
        if given not in choices:
            self.wrong(field, f"must be one of {', '.join(choices)}, not {given[:40]!r}")
            return next(iter(choices.values()))
        return choices[given]

    def pairs(self, field: str) -> tuple[tuple[str, str], ...]:
        """Return lines of ``key=value``; a key that is written twice is wrong."""
        found: dict[str, str] = {}
        for text in filter(None, map(str.strip, self.values[field].splitlines())):
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not key:
                self.wrong(field, f"{text[:40]!r} is not of the form key=value")
            elif key in found:
                self.wrong(field, f"{key[:40]!r} is written twice")
            found[key] = value
        return tuple(found.items())

    def counts(self, field: str, most: int) -> tuple[tuple[str, int], ...]:
        """Return lines of ``name=number``."""
        return tuple((name, self._whole(field, count, 0, most)) for name, count in self.pairs(field))

    def duration(self, field: str) -> timedelta | None:
        """Return a duration, or None where nothing is written."""
        text = self.values[field]
        return self.attempt(field, lambda: parse_duration(text), None) if text else None

    def _whole(self, field: str, text: str, least: int, most: int) -> int:
        if text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most:
            return int(text)
        written = repr(text[:40]) if text else "empty"
        self.wrong(field, f"must be a whole number from {least} to {most}, not {written}")
        return least


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One sort of thing that can be made."""

    title: str
    summary: str
    fields: tuple[str, ...]
    read: Callable[[Form], Blueprint]
    tabs: tuple[Tab, ...] = (Tab.BASICS, Tab.REVIEW)


def _scale_set(form: Form) -> Blueprint:
    spot = form.chosen("priority", {"regular": False, "spot": True})
    zones = [zone.strip() for zone in form.values["zones"].split(",")]
    return Blueprint(
        name=form.name(),
        kind=form.chosen("mode", {"uniform": ScopeKind.SCALE_SET, "flexible": ScopeKind.FLEXIBLE_SET}),
        count=form.whole("count"),
        zones=tuple(filter(None, zones)),
        spot=spot,
        eviction=form.chosen("eviction", {one.value: one for one in EvictionPolicy}),
        terminate_notice=_termination(form, spot=spot),
        tags=form.pairs("tags"),
    )


def _termination(form: Form, *, spot: bool) -> timedelta | None:
    """Read the section Instance termination; what is switched off asks for nothing."""
    if not form.chosen("notification", {"off": False, "on": True}):
        return None
    minutes = timedelta(minutes=form.whole("delay"))
    # T-05: the core says for whom a notice makes no sense.
    return form.attempt("notification", lambda: check_terminate_notice(minutes, spot=spot), None)


def _availability_set(form: Form) -> Blueprint:
    return Blueprint(
        name=form.name(),
        kind=ScopeKind.AVAILABILITY_SET,
        count=form.whole("count"),
        update_domains=form.optional("update_domains"),
        fault_domains=form.optional("fault_domains"),
        tags=form.pairs("tags"),
    )


def _machine(form: Form) -> Blueprint:
    return Blueprint(name=form.name(), kind=ScopeKind.STANDALONE, tags=form.pairs("tags"))


def _spot_machine(form: Form) -> Blueprint:
    return Blueprint(
        name=form.name(),
        kind=ScopeKind.STANDALONE,
        spot=True,
        eviction=form.chosen("eviction", {one.value: one for one in EvictionPolicy}),
        tags=form.pairs("tags"),
    )


def _cloud_service(form: Form) -> Blueprint:
    roles = form.counts("roles", MOST_MACHINES)
    if not roles:
        form.wrong("roles", "name at least one role, as FrontEnd=2")
    for role, _ in roles:
        form.attempt("roles", partial(check_name, role), None)
    return Blueprint(name=form.name(), kind=ScopeKind.CLOUD_SERVICE, roles=roles, tags=form.pairs("tags"))


CHOICES: Mapping[str, Choice] = {
    "scale-set": Choice(
        title="Scale set",
        summary="like instances that come and go; can warn an instance before it is deleted",
        fields=("name", "mode", "count", "zones", "priority", "eviction", "tags", "notification", "delay"),
        read=_scale_set,
        tabs=tuple(Tab),
    ),
    "availability-set": Choice(
        title="Availability set",
        summary="machines spread over update and fault domains",
        fields=("name", "count", "update_domains", "fault_domains", "tags"),
        read=_availability_set,
    ),
    "vm": Choice(
        title="Virtual machine",
        summary="one machine on its own",
        fields=("name", "tags"),
        read=_machine,
    ),
    "spot-vm": Choice(
        title="Spot virtual machine",
        summary="one machine that may be evicted at thirty seconds' notice",
        fields=("name", "eviction", "tags"),
        read=_spot_machine,
    ),
    "cloud-service": Choice(
        title="Cloud service",
        summary="roles and their instances, named ROLE_IN_0 and so on",
        fields=("name", "roles", "tags"),
        read=_cloud_service,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a form asks for and the machines it would lead to; only without errors is it to be made."""

    form: Form
    blueprint: Blueprint
    machines: tuple[Machine, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the first machines, as far as they are known beforehand."""
        # S-06: the instances of a flexible set are named when they are made.
        known = () if self.blueprint.kind is ScopeKind.FLEXIBLE_SET else self.machines
        return tuple(machine.name for machine in known[:MOST_NAMES])


def draft(choice: Choice, given: Fields, now: datetime) -> Draft:
    """Return what a form asks for, checked by the rules of the core."""
    form = Form(given, {field: CREATE_FIELDS[field].default for field in choice.fields})
    blueprint = choice.read(form)
    if form.errors:
        return Draft(form=form, blueprint=blueprint)
    try:
        changes = build(blueprint, "draft", Policy(), now, by="")
    except FairWarningError as error:
        form.refuse(error)
        return Draft(form=form, blueprint=blueprint)
    machines = tuple(one.machine for one in changes if isinstance(one, MachineChanged))
    return Draft(form=form, blueprint=blueprint, machines=machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutForm:
    """A maintenance somebody wants to take through a scope."""

    scope: ScopeId
    cause: str
    notice: timedelta | None


def rollout_form(form: Form, scopes: Mapping[ScopeId, object]) -> RolloutForm:
    """Return the walk a form asks for; only a form without errors is to be heeded."""
    scope = ScopeId(form.values["scope"])
    if not scope:
        form.wrong("scope", "choose a scope")
    elif scope not in scopes:
        form.wrong("scope", f"no scope named {scope[:80]}")
    return RolloutForm(
        scope=scope,
        cause=form.chosen("cause", {name: name for name in MAINTENANCE}),
        notice=form.duration("notice"),
    )


#: What the form of a walk holds at first.
ROLLOUT_DEFAULTS: Mapping[str, str] = {"scope": "", "cause": "host-update", "notice": ""}
