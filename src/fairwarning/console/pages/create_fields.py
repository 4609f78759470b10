"""The fields of the create forms: label, hint, type of input and step."""

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
    """The type of input of a field."""

    TEXT = "text"
    NUMBER = "number"
    LINES = "lines"
    CHOICE = "choice"
    SWITCH = "switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateField:
    """A field of a form."""

    label: str
    default: str = ""
    hint: str = ""
    type: FieldType = FieldType.TEXT
    #: The values of a choice, and their labels.
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    limits: tuple[int, int] = (0, 0)
    tab: Tab = Tab.BASICS

    def display(self, value: str) -> str:
        """Return a value as the review shows it."""
        return self.options.get(value, value)


#: The fewest and the most domains; Azure allows at most 20 per set.
DOMAINS = (1, 20)

#: T-02: the shortest and the longest termination delay, in minutes.
DELAYS = (TERMINATE_NOTICE[0] // timedelta(minutes=1), TERMINATE_NOTICE[1] // timedelta(minutes=1))

CREATE_FIELDS: Mapping[str, CreateField] = {
    "name": CreateField(label="Name", hint="letters, digits, dots, dashes and underscores"),
    "mode": CreateField(
        label="Orchestration mode",
        default="uniform",
        type=FieldType.CHOICE,
        options={"uniform": "Uniform", "flexible": "Flexible"},
        hint="instances of a uniform set are numbered: web_0, web_1",
    ),
    "count": CreateField(
        label="Machines", default="3", hint="up to 1,000", type=FieldType.NUMBER, limits=(0, MOST_MACHINES)
    ),
    "zones": CreateField(label="Zones", hint="for example 1, 2, 3; each zone is a scope; empty: no zones"),
    "priority": CreateField(
        label="Priority",
        default="regular",
        type=FieldType.CHOICE,
        options={"regular": "Regular", "spot": "Spot"},
        hint="Spot machines can be evicted with 30 seconds' notice",
    ),
    "eviction": CreateField(
        label="Eviction policy",
        default=EvictionPolicy.DEALLOCATE,
        type=FieldType.CHOICE,
        options={policy.value: policy.value for policy in EvictionPolicy},
        hint="what happens to a Spot machine when it is evicted",
    ),
    "update_domains": CreateField(
        label="Update domains", hint="default: 5", type=FieldType.NUMBER, limits=DOMAINS
    ),
    "fault_domains": CreateField(
        label="Fault domains", hint="default: 2", type=FieldType.NUMBER, limits=DOMAINS
    ),
    "roles": CreateField(
        label="Roles", default="FrontEnd=2", hint="one per line, for example FrontEnd=2", type=FieldType.LINES
    ),
    "tags": CreateField(
        label="Tags", hint="optional; one per line, for example owner=ops", type=FieldType.LINES
    ),
    "notification": CreateField(
        label="Instance termination notification",
        default="off",
        type=FieldType.SWITCH,
        options={"on": "On", "off": "Off"},
        hint="warns an instance before it is deleted; the instance can approve early",
        tab=Tab.MANAGEMENT,
    ),
    "delay": CreateField(
        label="Termination delay (minutes)",
        default=str(DELAYS[0]),
        hint=f"{DELAYS[0]} to {DELAYS[1]}",
        type=FieldType.NUMBER,
        limits=DELAYS,
        tab=Tab.MANAGEMENT,
    ),
}
