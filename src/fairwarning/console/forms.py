"""Reads forms into the values that the core understands, and collects every error by field.

A form is never rejected at its first error: ``Form`` keeps the values as they were typed, notes what is
wrong with each field and returns a stand-in, so that the page can show all errors at once and lose no
input. Callers check ``Form.errors`` before they use the result.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import TypeVar

from fairwarning.console.page import Fields, FormProblem
from fairwarning.console.pages.create_fields import CREATE_FIELDS, Tab
from fairwarning.core.blueprint import MOST_MACHINES, Blueprint, build, check_name
from fairwarning.core.causes import MAINTENANCE
from fairwarning.core.changes import MachineChanged
from fairwarning.core.errors import FairWarningError, InvalidError, UnknownScopeError
from fairwarning.core.inputs import check_visible, parse_duration
from fairwarning.core.maintenance.values import OnSilence
from fairwarning.core.model import EvictionPolicy, Machine, ScopeId, ScopeKind
from fairwarning.core.policy import Policy, check_terminate_notice
from fairwarning.formats.instants import parse_instant

T = TypeVar("T")

#: How many machine names a draft shows.
MOST_NAMES = 6

#: Form fields that have another name in the core's errors.
_FORM_FIELDS: Mapping[str, str] = {"terminate_notice": "delay"}

_EVICTION_POLICIES: Mapping[str, EvictionPolicy] = {policy.value: policy for policy in EvictionPolicy}


class Form:
    """A submitted form: its values as they were typed, and their errors."""

    def __init__(self, given: Fields, defaults: Mapping[str, str]) -> None:
        self.values = {field: given.get(field, default) for field, default in defaults.items()}
        self.errors: dict[str, str] = {}

    @property
    def problems(self) -> tuple[FormProblem, ...]:
        """The errors as pages show them."""
        return tuple(FormProblem(text, field) for field, text in self.errors.items())

    def add_error(self, field: str, problem: str) -> None:
        """Note an error of a field; the first error of a field is kept."""
        self.errors.setdefault(field, problem)

    def add_refusal(self, error: FairWarningError, field: str = "") -> None:
        """Note an error of the core at its field, or at ``field`` if it names none."""
        if isinstance(error, InvalidError):
            self.add_error(_FORM_FIELDS.get(error.field, error.field), error.problem)
        else:
            self.add_error(field, str(error))

    def attempt(self, field: str, read: Callable[[], T], otherwise: T) -> T:
        """Return what ``read`` returns; on an error, note it at the field and return ``otherwise``."""
        try:
            return read()
        except InvalidError as error:
            self.add_error(field, error.problem)
        except FairWarningError as error:
            self.add_error(field, str(error))
        return otherwise

    def name(self) -> str:
        """Return the name of the set or machine to create."""
        name = self.values["name"]
        if not name:
            self.add_error("name", "a name is required")
        else:
            self.attempt("name", lambda: check_name(name), None)
        return name

    def integer(self, field: str) -> int:
        """Return a whole number within the limits of the field."""
        return self._integer(field, self.values[field], *CREATE_FIELDS[field].limits)

    def optional_integer(self, field: str) -> int | None:
        """Return a whole number, or None if the field is empty."""
        return self.integer(field) if self.values[field] else None

    def chosen(self, field: str, choices: Mapping[str, T]) -> T:
        """Return the value of the selected choice."""
        given = self.values[field]
        if given not in choices:
            self.add_error(field, f"must be one of {', '.join(choices)}, not {given[:40]!r}")
            return next(iter(choices.values()))
        return choices[given]

    def pairs(self, field: str) -> tuple[tuple[str, str], ...]:
        """Return lines of ``key=value``; a repeated key is an error."""
        pairs: dict[str, str] = {}
        for text in filter(None, map(str.strip, self.values[field].splitlines())):
            key, equals, value = (part.strip() for part in text.partition("="))
            if not equals or not key:
                self.add_error(field, f"{text[:40]!r} is not of the form key=value")
            elif key in pairs:
                self.add_error(field, f"{key[:40]!r} appears twice")
            pairs[key] = value
        return tuple(pairs.items())

    def counts(self, field: str, most: int) -> tuple[tuple[str, int], ...]:
        """Return lines of ``name=number``."""
        return tuple((name, self._integer(field, count, 0, most)) for name, count in self.pairs(field))

    def duration(self, field: str) -> timedelta | None:
        """Return a duration, or None if the field is empty."""
        text = self.values[field]
        return self.attempt(field, lambda: parse_duration(text), None) if text else None

    def instant(self, field: str, now: datetime, zone: tzinfo) -> datetime | None:
        """Return an instant as operators write it, or None if the field is empty."""
        return self.required_instant(field, now, zone) if self.values[field] else None

    def required_instant(self, field: str, now: datetime, zone: tzinfo) -> datetime:
        """Return an instant as operators write it."""
        text = self.values[field]
        if not text:
            self.add_error(field, "an instant is required, e.g. 'Thu 02:00' or +5h")
            return now
        try:
            return parse_instant(text, now, zone)
        except ValueError as problem:
            self.add_error(field, str(problem))
            return now

    def _integer(self, field: str, text: str, least: int, most: int) -> int:
        if text.isascii() and text.isdecimal() and len(text) < 10 and least <= int(text) <= most:
            return int(text)
        given = repr(text[:40]) if text else "empty"
        self.add_error(field, f"must be a whole number from {least} to {most}, not {given}")
        return least


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A kind of set or machine that can be created."""

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
        count=form.integer("count"),
        zones=tuple(filter(None, zones)),
        spot=spot,
        eviction=form.chosen("eviction", _EVICTION_POLICIES),
        terminate_notice=_terminate_notice(form, spot=spot),
        tags=form.pairs("tags"),
    )


def _terminate_notice(form: Form, *, spot: bool) -> timedelta | None:
    """Read the section Instance termination; the delay counts only if the notification is on."""
    if not form.chosen("notification", {"off": False, "on": True}):
        return None
    minutes = timedelta(minutes=form.integer("delay"))
    # T-05: the core refuses a notice for Spot machines.
    return form.attempt("notification", lambda: check_terminate_notice(minutes, spot=spot), None)


def _availability_set(form: Form) -> Blueprint:
    return Blueprint(
        name=form.name(),
        kind=ScopeKind.AVAILABILITY_SET,
        count=form.integer("count"),
        update_domains=form.optional_integer("update_domains"),
        fault_domains=form.optional_integer("fault_domains"),
        tags=form.pairs("tags"),
    )


def _machine(form: Form) -> Blueprint:
    return Blueprint(name=form.name(), kind=ScopeKind.STANDALONE, tags=form.pairs("tags"))


def _spot_machine(form: Form) -> Blueprint:
    return Blueprint(
        name=form.name(),
        kind=ScopeKind.STANDALONE,
        spot=True,
        eviction=form.chosen("eviction", _EVICTION_POLICIES),
        tags=form.pairs("tags"),
    )


def _cloud_service(form: Form) -> Blueprint:
    roles = form.counts("roles", MOST_MACHINES)
    if not roles:
        form.add_error("roles", "enter at least one role, for example FrontEnd=2")
    for role, _ in roles:
        form.attempt("roles", partial(check_name, role), None)
    return Blueprint(name=form.name(), kind=ScopeKind.CLOUD_SERVICE, roles=roles, tags=form.pairs("tags"))


CHOICES: Mapping[str, Choice] = {
    "scale-set": Choice(
        title="Scale set",
        summary="Identical instances that scale out and in; can warn an instance before it is deleted.",
        fields=("name", "mode", "count", "zones", "priority", "eviction", "tags", "notification", "delay"),
        read=_scale_set,
        tabs=tuple(Tab),
    ),
    "availability-set": Choice(
        title="Availability set",
        summary="Machines spread over update and fault domains.",
        fields=("name", "count", "update_domains", "fault_domains", "tags"),
        read=_availability_set,
    ),
    "vm": Choice(
        title="Virtual machine",
        summary="A standalone machine.",
        fields=("name", "tags"),
        read=_machine,
    ),
    "spot-vm": Choice(
        title="Spot virtual machine",
        summary="A standalone machine that can be evicted with 30 seconds' notice.",
        fields=("name", "eviction", "tags"),
        read=_spot_machine,
    ),
    "cloud-service": Choice(
        title="Cloud service",
        summary="Roles with instances named ROLE_IN_0, ROLE_IN_1 and so on.",
        fields=("name", "roles", "tags"),
        read=_cloud_service,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDraft:
    """The blueprint that a form describes, and its machines; valid if the form has no errors."""

    form: Form
    blueprint: Blueprint
    machines: tuple[Machine, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the first machines, if they are known in advance."""
        # S-06: the instances of a flexible set get their names when they are created.
        known = () if self.blueprint.kind is ScopeKind.FLEXIBLE_SET else self.machines
        return tuple(machine.name for machine in known[:MOST_NAMES])


def read_draft(choice: Choice, given: Fields, now: datetime) -> SetDraft:
    """Return the draft that a form describes, checked by the rules of the core."""
    form = Form(given, {field: CREATE_FIELDS[field].default for field in choice.fields})
    blueprint = choice.read(form)
    if form.errors:
        return SetDraft(form=form, blueprint=blueprint)
    try:
        changes = build(blueprint, "draft", Policy(), now, by="")
    except FairWarningError as error:
        form.add_refusal(error)
        return SetDraft(form=form, blueprint=blueprint)
    machines = tuple(change.machine for change in changes if isinstance(change, MachineChanged))
    return SetDraft(form=form, blueprint=blueprint, machines=machines)


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutForm:
    """The rollout that a form describes."""

    scope: ScopeId
    cause: str
    notice: timedelta | None


def read_rollout(form: Form, scopes: Mapping[ScopeId, object]) -> RolloutForm:
    """Return the rollout that a form describes; valid if the form has no errors."""
    scope = ScopeId(form.values["scope"])
    if not scope:
        form.add_error("scope", "choose a scope")
    elif scope not in scopes:
        form.add_error("scope", str(UnknownScopeError(scope[:80])))
    return RolloutForm(
        scope=scope,
        cause=form.chosen("cause", {name: name for name in MAINTENANCE}),
        notice=form.duration("notice"),
    )


#: The initial values of the rollout form.
ROLLOUT_DEFAULTS: Mapping[str, str] = {"scope": "", "cause": "host-update", "notice": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnouncementForm:
    """The maintenance of a host that a form describes."""

    cause: str
    opens: datetime | None
    closes: datetime | None
    on_silence: OnSilence


def read_announcement(form: Form, now: datetime, zone: tzinfo) -> AnnouncementForm:
    """Return the maintenance that a form describes; valid if the form has no errors."""
    return AnnouncementForm(
        cause=form.chosen("cause", {name: name for name in MAINTENANCE}),
        opens=form.instant("at", now, zone),
        closes=form.instant("until", now, zone),
        on_silence=form.chosen("silence", {choice.value: choice for choice in OnSilence}),
    )


def read_reason(given: Fields) -> str:
    """Return the reason in a form.

    Raises:
        InvalidError: the reason contains an invisible character.
    """
    reason = given.get("reason")
    check_visible(reason, "reason")
    return reason


#: The initial values of the form that announces a maintenance.
ANNOUNCEMENT_DEFAULTS: Mapping[str, str] = {
    "cause": "host-reboot",
    "at": "",
    "until": "",
    "silence": OnSilence.PROCEED.value,
}

#: M-13: what becomes of a maintenance if a tenant has not answered at NotBefore.
SILENCE: Mapping[OnSilence, str] = {
    OnSilence.PROCEED: "goes ahead: silence is consent",
    OnSilence.SKIP: "is withdrawn",
    OnSilence.ASK: "waits for an approval",
}
