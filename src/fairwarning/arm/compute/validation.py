"""Checks the bodies of requests, and reads the settings of scheduled events from them.

``members`` refuses members that Azure does not know. The values that the core uses are checked here:
leniently where az is careless (T-03), strictly elsewhere. All other values are opaque.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import NamedTuple

from fairwarning.arm import catalog
from fairwarning.arm.compute import members
from fairwarning.arm.documents import Document, get_fields, get_items, get_path, without, without_secrets
from fairwarning.arm.errors import AzureError, invalid
from fairwarning.arm.messages import ArmRequest
from fairwarning.arm.state import core_group
from fairwarning.arm.templates.coercion import coerce
from fairwarning.core.azure.identity import SCALE_SETS, VMS
from fairwarning.core.blueprint import MOST_MACHINES, Blueprint
from fairwarning.core.document.render import Json
from fairwarning.core.errors import InvalidError, SpotIsNotWarnedError
from fairwarning.core.inputs import parse_duration
from fairwarning.core.model import ApprovalSettings, EventType, EvictionPolicy, ScopeKind
from fairwarning.core.policy import NOTICE, TERMINATE_NOTICE

Path = tuple[str, ...]

_MODEL: Path = ("properties", "virtualMachineProfile")
_POLICY: Path = ("properties", "scheduledEventsPolicy")

Check = Callable[[Json], bool]


def _is_count(value: Json) -> bool:
    number = value if isinstance(value, int) and not isinstance(value, bool) else -1
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value, re.ASCII):
        number = int(value)
    return 0 <= number <= MOST_MACHINES


_OBJECT: tuple[Check, str] = (lambda value: isinstance(value, dict), "it must be an object")
_TEXT: tuple[Check, str] = (lambda value: isinstance(value, str), "it must be a string")
_FLAG: tuple[Check, str] = (lambda value: isinstance(value, bool), "it must be true or false")
_COUNT: tuple[Check, str] = (_is_count, f"it must be a whole number between 0 and {MOST_MACHINES}")
_TEXTS: tuple[Check, str] = (
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "it must be a list of strings",
)
_TAGS: tuple[Check, str] = (
    lambda value: isinstance(value, dict) and all(isinstance(item, str) for item in value.values()),
    "it must be an object of strings",
)

# GAP(T-44): hooks are not implemented, so nothing would wait for them.
_NO_HOOKS: tuple[Check, str] = (
    lambda value: isinstance(value, dict) and not any(value.values()),
    "lifecycle hooks are not supported by this server",
)


def _one_of(*words: str) -> tuple[Check, str]:
    return lambda value: value in words, f"it must be one of {', '.join(words)}"


def _of_model(model: Path) -> dict[Path, tuple[Check, str]]:
    profile, image = (*model, "scheduledEventsProfile"), "osImageNotificationProfile"
    return {
        (*model, "priority"): _one_of("Regular", "Low", "Spot"),
        (*model, "evictionPolicy"): _one_of("Deallocate", "Delete"),
        (*model, "osProfile"): _OBJECT,
        (*model, "storageProfile"): _OBJECT,
        (*model, "networkProfile"): _OBJECT,
        (*model, "userData"): _TEXT,
        profile: _OBJECT,
        (*profile, "terminateNotificationProfile"): _OBJECT,
        (*profile, "terminateNotificationProfile", "enable"): _FLAG,
        (*profile, image): _OBJECT,
        (*profile, image, "enable"): _FLAG,
    }


#: The members of a policy, and the settings that they are.
APPROVALS = {
    "userInitiatedReboot": "user_reboot",
    "userInitiatedRedeploy": "user_redeploy",
    "allInstancesDown": "all_instances_down",
}

#: The shapes of the members that are read; null counts as absent.
SHAPES: Mapping[Path, tuple[Check, str]] = {
    ("location",): _TEXT,
    ("tags",): _TAGS,
    ("zones",): _TEXTS,
    ("sku",): _OBJECT,
    ("sku", "name"): _TEXT,
    ("sku", "capacity"): _COUNT,
    ("properties",): _OBJECT,
    _MODEL: _OBJECT,
    **_of_model(_MODEL),
    **_of_model(("properties",)),
    ("properties", "hardwareProfile"): _OBJECT,
    ("properties", "hardwareProfile", "vmSize"): _TEXT,
    ("properties", "orchestrationMode"): _one_of("Uniform", "Flexible"),
    ("properties", "upgradePolicy"): _OBJECT,
    ("properties", "upgradePolicy", "mode"): _one_of("Manual", "Automatic", "Rolling"),
    ("properties", "platformFaultDomainCount"): _COUNT,
    ("properties", "platformUpdateDomainCount"): _COUNT,
    ("properties", "protectionPolicy"): _OBJECT,
    ("properties", "protectionPolicy", "protectFromScaleIn"): _FLAG,
    ("properties", "lifecycleHooksProfile"): _NO_HOOKS,
    _POLICY: _OBJECT,
    **{(*_POLICY, name): _OBJECT for name in APPROVALS},
    **{(*_POLICY, name, "automaticallyApprove"): _FLAG for name in APPROVALS},
}

#: The size of a scale set whose machines differ in size.
_MIXED = "mix"


def _size_names() -> re.Pattern[str]:
    """Return the pattern of the names of sizes, which follow Azure's naming convention.

    A family, processors, processors that are left on, features, then an accelerator and a version:
    ``Standard_NC24ads_A100_v4``.
    """
    families = "|".join(
        f"{tier['tier']}_(?:{str(tier['families']).replace(' ', '|')})" for tier in catalog.SIZE_FAMILIES
    )
    return re.compile(
        rf"(?:{families})\d{{1,4}}(?:-\d{{1,4}})?[a-z]{{0,6}}(?:(?:_[a-z0-9]+){{0,3}}_v\d{{1,2}})?(?:_Promo)?",
        re.IGNORECASE | re.ASCII,
    )


_SIZE_NAME = _size_names()

#: The only notice of a new image that is allowed.
_IMAGE_NOTICE = timedelta(minutes=15)
#: Size families without memory-preserving updates (T-20).
_NO_MEMORY_PRESERVING = re.compile(r"(?:Standard|Basic)_[GHMN]", re.IGNORECASE)


def read_body(kind: str, request: ArmRequest) -> Document:
    """Return the checked and coerced body of a PUT or PATCH.

    Raises:
        AzureError: a member is not valid, or not in this api-version.
    """
    body = coerce(members.read_members(kind, request))
    for path, (check, problem) in SHAPES.items():
        value = get_path(body, *path)
        if value is not None and not check(value):
            raise invalid(".".join(path), problem)
    _check_sizes(kind, body)
    # Clients put back what they have read, instance view included.
    return without(get_fields(without_secrets(body)), "properties", "instanceView")


class EventSettings(NamedTuple):
    """The settings of a document that the core uses."""

    terminate_notice: timedelta | None
    image_notice: bool
    approvals: ApprovalSettings
    spot: bool
    eviction: EvictionPolicy
    tags: tuple[tuple[str, str], ...]

    def blueprint(self, kind: ScopeKind, names: Mapping[str, str]) -> Blueprint:
        """Return the blueprint of a set with these settings; ``names`` are those of its group and itself."""
        return Blueprint(
            name=names["name"],
            group=core_group(names["group"]),
            kind=kind,
            spot=self.spot,
            eviction=self.eviction,
            terminate_notice=self.terminate_notice,
            image_notice=self.image_notice,
            approvals=self.approvals,
            tags=self.tags,
        )


def event_settings(kind: str, document: Document) -> EventSettings:
    """Return the settings of a document that the core uses."""
    model = _MODEL if kind == SCALE_SETS else ("properties",)
    size = get_path(document, "sku", "name") or get_path(document, "properties", "hardwareProfile", "vmSize")
    spot = get_path(document, *model, "priority") in ("Spot", "Low")
    profile = (*model, "scheduledEventsProfile")
    terminate = (*profile, "terminateNotificationProfile")
    default = NOTICE[EventType.TERMINATE]
    notice = _notice(document, terminate, default, TERMINATE_NOTICE, "between PT5M and PT15M")
    if spot and notice is not None:
        raise SpotIsNotWarnedError  # T-05
    upgrade = (*profile, "osImageNotificationProfile")
    image = _notice(document, upgrade, _IMAGE_NOTICE, (_IMAGE_NOTICE, _IMAGE_NOTICE), "PT15M")
    return EventSettings(
        terminate_notice=notice,
        image_notice=image is not None and not _NO_MEMORY_PRESERVING.match(str(size)),
        approvals=_approvals(get_path(document, *_POLICY)),
        spot=spot,
        eviction=EvictionPolicy(
            str(get_path(document, *model, "evictionPolicy") or EvictionPolicy.DEALLOCATE)
        ),
        tags=tags_of(document),
    )


def tags_of(document: Document) -> tuple[tuple[str, str], ...]:
    """Return the tags of a document, as machines have them."""
    return tuple((name, str(value)) for name, value in get_fields(document, "tags").items())


def immutable_property(name: str) -> AzureError:
    """Return the error for changing a property that cannot be changed."""
    message = f"Changing property '{name}' is not allowed."
    return AzureError(409, "PropertyChangeNotAllowed", message, name)


def get_count(document: Json, *path: str) -> int | None:
    """Return the number at a path of a checked document, or None."""
    value = get_path(document, *path)
    return int(value) if isinstance(value, int | str) else None


def get_texts(document: Json, *path: str) -> tuple[str, ...]:
    """Return the strings in the list at a path of a checked document; empty if there is no list."""
    return tuple(str(item) for item in get_items(document, *path))


def read_texts(request: ArmRequest, member: str) -> tuple[str, ...] | None:
    """Return a list of strings from the request body; None if the body does not have the member."""
    value, (check, problem) = get_path(request.fields(), member), _TEXTS
    if value is not None and not check(value):
        raise invalid(member, problem)
    return None if value is None else get_texts(request.fields(), member)


def _sizes(kind: str, body: Json) -> Iterator[Json]:
    """Yield the sizes that a body names."""
    if kind == VMS:
        yield get_path(body, "properties", "hardwareProfile", "vmSize")
    if kind == SCALE_SETS:
        size = get_path(body, "sku", "name")
        yield None if str(size).lower() == _MIXED else size
        yield from (get_path(item, "name") for item in get_items(body, "properties", "skuProfile", "vmSizes"))


def _check_sizes(kind: str, body: Json) -> None:
    for size in _sizes(kind, body):
        if isinstance(size, str) and not _SIZE_NAME.fullmatch(size):
            names = ",".join(str(entry["name"]) for entry in catalog.SIZES)
            message = (
                f"The value {size} provided for the VM size is not valid. "
                f"The valid sizes in the current region are: {names}."
            )
            raise AzureError(400, "InvalidParameter", message, "vmSize")  # T-40


def _notice(
    document: Document, profile: Path, default: timedelta, limits: tuple[timedelta, timedelta], words: str
) -> timedelta | None:
    """Return the notice that a profile enables: the default, unless the profile says otherwise."""
    place, text = (*profile, "notBeforeTimeout"), get_path(document, *profile, "notBeforeTimeout")
    notice = default if text is None else _duration(text, place)
    shortest, longest = limits
    if not shortest <= notice <= longest:
        raise invalid(".".join(place), f"{text} is not {words}")
    return notice if get_path(document, *profile, "enable") is True else None


def _duration(text: Json, path: Path) -> timedelta:
    problem = invalid(".".join(path), f"{text!r} is not an ISO 8601 duration")
    if not isinstance(text, str) or not text.startswith("P"):
        raise problem
    try:
        return parse_duration(text)
    except InvalidError:
        raise problem from None


def _approvals(policy: Json) -> ApprovalSettings:
    given = {name: get_path(policy, member, "automaticallyApprove") for member, name in APPROVALS.items()}
    return ApprovalSettings(**{name: value for name, value in given.items() if isinstance(value, bool)})
