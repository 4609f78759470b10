"""Copies of values with some fields changed."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from fairwarning import core
from fairwarning.core.model import (
    BarrierId,
    Event,
    EventId,
    EventSource,
    EventStatus,
    EventType,
    ScopeId,
    VmName,
    replace,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _values() -> Iterator[type]:
    for module in pkgutil.iter_modules(core.__path__, f"{core.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if (
                isinstance(value, type)
                and dataclasses.is_dataclass(value)
                and value.__module__ == module.name
            ):
                yield value


def test_a_copy_has_the_changes_and_otherwise_the_fields_of_the_original() -> None:
    event = Event(
        id=EventId("E1"),
        scope=ScopeId("web"),
        cause="restart",
        kind=EventType.REBOOT,
        source=EventSource.USER,
        resources=(VmName("web_0"),),
        description="",
        duration=-1,
        created_at=NOON,
        not_before=NOON,
        barrier=BarrierId("event:E1"),
    )

    started = replace(event, status=EventStatus.STARTED, started_at=NOON)

    assert started == dataclasses.replace(event, status=EventStatus.STARTED, started_at=NOON)
    assert event.status is EventStatus.SCHEDULED


@pytest.mark.parametrize("kind", tuple(_values()), ids=lambda kind: kind.__name__)
def test_every_value_of_the_core_can_be_copied_by_its_slots(kind: type) -> None:
    names = [field.name for field in dataclasses.fields(kind)]

    slots = vars(kind).get("__slots__")

    assert slots == tuple(names)
    assert not hasattr(kind, "__post_init__")
