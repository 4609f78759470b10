"""What the create forms ask: how each field is called, explained and filled in, and on which step it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType

from fairwarning.core.blueprint import MOST_MACHINES
from fairwarning.core.model import EvictionPolicy
from fairwarning.core.policy import TERMINATE_NOTICE


class Tab(StrEnum):
    """A step of a form."""

    BASICS = "basics"
    MANAGEMENT = "management"
    REVIEW = "review"


class FieldType(StrEnum):
    """How a field is filled in."""

    TEXT = "text"
    NUMBER = "number"
    LINES = "lines"
    CHOICE = "choice"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateField:
    """One field of a form."""

    label: str
    default: str = ""
    hint: str = ""
    sort: FieldType = FieldType.TEXT
    #: What is sent, and what people read.
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    limits: tuple[int, int] = (0, 0)
    tab: Tab = Tab.BASICS

    def answered(self, value: str) -> str:
        """Return an answer as people read it."""
        return self.options.get(value, value)


#: The most domains a form takes; Azure gives a set twenty at the most.
DOMAINS = (1, 20)

#: T-02: the shortest and the longest delay, in minutes.
DELAYS = (TERMINATE_NOTICE[0] // timedelta(minutes=1), TERMINATE_NOTICE[1] // timedelta(minutes=1))

CREATE_FIELDS: Mapping[str, CreateField] = {
    "name": CreateField(label="Name", hint="letters, digits, dot, dash or underscore"),
    "mode": CreateField(
        label="Orchestration mode",
        default="uniform",
        sort=FieldType.CHOICE,
        options={"uniform": "Uniform", "flexible": "Flexible"},
        hint="instances of a uniform set are numbered: web_0, web_1",
    ),
    "count": CreateField(
        label="Machines", default="3", hint="up to 1,000", sort=FieldType.NUMBER, limits=(0, MOST_MACHINES)
    ),
    "zones": CreateField(label="Zones", hint="such as 1, 2, 3: a scope for each; empty for none"),
    "priority": CreateField(
        label="Priority",
        default="regular",
        sort=FieldType.CHOICE,
        options={"regular": "Regular", "spot": "Spot"},
        hint="Spot machines may be evicted at thirty seconds' notice",
    ),
    "eviction": CreateField(
        label="Eviction policy",
        default=EvictionPolicy.DEALLOCATE,
        sort=FieldType.CHOICE,
        options={one.value: one.value for one in EvictionPolicy},
        hint="what becomes of a Spot machine that is evicted",
    ),
    "update_domains": CreateField(
        label="Update domains", hint="5 unless you say", sort=FieldType.NUMBER, limits=DOMAINS
    ),
    "fault_domains": CreateField(
        label="Fault domains", hint="2 unless you say", sort=FieldType.NUMBER, limits=DOMAINS
    ),
    "roles": CreateField(
        label="Roles", default="FrontEnd=2", hint="a line each, as FrontEnd=2", sort=FieldType.LINES
    ),
    "tags": CreateField(label="Tags", hint="a line each, as owner=ops; optional", sort=FieldType.LINES),
    "notification": CreateField(
        label="Instance termination notification",
        default="off",
        sort=FieldType.SWITCH,
        options={"on": "On", "off": "Off"},
        hint="an instance learns of its deletion in time, and may approve it early",
        tab=Tab.MANAGEMENT,
    ),
    "delay": CreateField(
        label="Termination delay (minutes)",
        default=str(DELAYS[0]),
        hint=f"{DELAYS[0]} to {DELAYS[1]}",
        sort=FieldType.NUMBER,
        limits=DELAYS,
        tab=Tab.MANAGEMENT,
    ),
}
