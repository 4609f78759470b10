"""What an earlier release cannot read is not written while its nodes may use the database."""

from collections.abc import Mapping

import pytest

from fairwarning.core.changes import EventMilestone, MachineChanged, MachineRemoved, TextChanged
from fairwarning.core.errors import UnfinishedMigrationError
from fairwarning.core.model import HostId, Machine, MachineModel, PowerState, ScopeId, VmName, replace
from fairwarning.core.stored import gate
from fairwarning.core.stored.gate import SINCE, StoredPart, check_readable
from fairwarning.core.stored.kinds import StoredKind, kind_of
from fairwarning.core.stored.releases import NEWEST, OLDEST, DataRelease
from fairwarning.engine.ports import Line
from tests.store.stories import happened

WEB = ScopeId("web")
MACHINE = Machine(scope=WEB, name=VmName("web_0"), vm_id="1", host=HostId("h"))


def changed(machine: Machine) -> MachineChanged:
    return MachineChanged(scope=WEB, machine=machine)


#: A part that a later release brings, a line that has the part, and one that does not have it.
PARTS: Mapping[str, tuple[StoredPart, Line, Line]] = {
    "MachineRemoved": (
        MachineRemoved,
        MachineRemoved(scope=WEB, name=MACHINE.name),
        changed(MACHINE),
    ),
    "PowerState.STOPPED": (
        (PowerState, "STOPPED"),
        changed(replace(MACHINE, power=PowerState.STOPPED)),
        changed(MACHINE),
    ),
    "EventMilestone.SHOWN": (
        (EventMilestone, "SHOWN"),
        happened(1, EventMilestone.SHOWN),
        happened(1),
    ),
    "Machine.protected": (
        (Machine, "protected"),
        changed(replace(MACHINE, protected=True)),
        changed(MACHINE),
    ),
    "MachineModel.image_notice": (
        (MachineModel, "image_notice"),
        changed(replace(MACHINE, model=MachineModel(image_notice=True))),
        changed(replace(MACHINE, model=MachineModel(number=7))),
    ),
}


@pytest.mark.rule("U-01")
@pytest.mark.parametrize("name", PARTS)
def test_only_what_has_a_part_of_a_later_release_is_refused(name: str) -> None:
    part, line_with_it, line_without = PARTS[name]
    since = {part: DataRelease.V0_3}

    check_readable((line_without,), OLDEST, since)
    with pytest.raises(
        UnfinishedMigrationError, match="run fairwarning db migrate --finish first"
    ) as refused:
        check_readable((line_without, line_with_it), OLDEST, since)

    assert refused.value.part == name
    assert "nodes of release 0.2 may use the database" in str(refused.value)


@pytest.mark.rule("U-01")
@pytest.mark.parametrize("name", PARTS)
def test_a_release_that_knows_the_part_is_no_reason_to_refuse(name: str) -> None:
    part, line, _ = PARTS[name]

    check_readable((line,), DataRelease.V0_3, {part: DataRelease.V0_3})
    check_readable((line,), NEWEST, {part: NEWEST})


@pytest.mark.rule("U-01")
def test_a_stored_value_of_a_later_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = StoredKind(name="plan", keys=("plan:*",), action=None, rules="", since=NEWEST)
    monkeypatch.setattr(gate, "kind_of", lambda key: plan if plan.has(key) else kind_of(key))
    line = TextChanged(key="plan:1", text="{}")

    check_readable((line,), NEWEST)
    check_readable((TextChanged(key="operation:1", text="{}"),), OLDEST)
    with pytest.raises(UnfinishedMigrationError, match="do not know a stored plan"):
        check_readable((line,), OLDEST)


def test_what_is_listed_exists_and_came_after_the_oldest_release() -> None:
    for part, release in SINCE.items():
        assert release > OLDEST
        if isinstance(part, tuple):
            owner, name = part
            assert name in getattr(owner, "__members__", getattr(owner, "__dataclass_fields__", {}))
