"""A machine that is switched off stays allocated; release 0.2 kept that in markers beside the machine."""

import json
from collections.abc import Sequence

import pytest

from fairwarning.arm.compute import older_documents
from fairwarning.control.control import Control
from fairwarning.core.errors import StorageError
from fairwarning.core.model import OPERATOR, PowerState
from fairwarning.core.stored.kinds import SWITCHED_OFF
from fairwarning.core.stored.releases import NEWEST, OLDEST
from fairwarning.engine.ports import Batch, Entry
from fairwarning.store.memory import MemoryStore
from tests.arm.azure import Azure, at
from tests.arm.compute import SET, VM, compute, make_set_of_0_2
from tests.fleet_harness import run


class SharedStore(MemoryStore):
    """A store that nodes of release 0.2 may use until the migration is finished."""

    oldest_reader = OLDEST

    def finish(self) -> None:
        self.oldest_reader = NEWEST


def power(azure: Azure, name: str) -> str:
    view = json.dumps(azure.get(f"{VM}/{name}/instanceView"))
    return view.partition("PowerState/")[2].partition('"')[0]


def markers(azure: Azure) -> list[str]:
    return [key for key in azure.fleet.engine.texts() if key.startswith(SWITCHED_OFF.prefix)]


def mark(azure: Azure, name: str, vm_id: str = "") -> None:
    """Stop a machine as release 0.2 did."""
    machine = azure.fleet.machine(name)
    text = json.dumps({"vmId": vm_id or machine.vm_id})
    key = SWITCHED_OFF.key(machine.ref.full.lower())
    run(Control(azure.fleet.engine).set_power(OPERATOR, name, PowerState.STOPPED))
    azure.keep_texts({key: text})


def with_machines(*names: str, store: MemoryStore | None = None) -> Azure:
    azure = compute(store=store)
    for name in names:
        azure.put(f"{VM}/{name}", {"location": "westeurope"})
    return azure


def test_the_machine_itself_says_whether_it_is_switched_off_or_deallocated() -> None:
    azure = with_machines("Off")

    states = [power(azure, "Off")]
    for verb in ("powerOff", "deallocate", "powerOff", "start"):
        azure.post(f"{VM}/Off/{verb}")
        states.append(power(azure, "Off"))
    azure.post(f"{VM}/Off/powerOff")
    azure.restart()

    assert states == ["running", "stopped", "deallocated", "stopped", "running"]
    assert power(azure, "Off") == "stopped"
    assert markers(azure) == []


def test_markers_of_release_0_2_are_moved_to_their_machines() -> None:
    azure = with_machines("Off", "down", "again", "gone")
    mark(azure, "Off")
    mark(azure, "again", "the machine of this name before it")
    mark(azure, "gone")
    azure.post(f"{VM}/down/deallocate")
    azure.delete(f"{VM}/gone?forceDeletion=true")
    azure.advance("10m")
    names = ("Off", "down", "again")
    before = [power(azure, name) for name in names]

    azure.restart()

    assert before == ["stopped", "deallocated", "deallocated"]
    assert [power(azure, name) for name in names] == before
    assert [azure.fleet.machine(name).allocated for name in names] == [True, False, False]
    assert markers(azure) == []


class FullStore(MemoryStore):
    """A store that is full after some commits."""

    room = 10_000

    async def commit(self, batch: Batch) -> Sequence[Entry]:
        if self.room == 0:
            raise StorageError("the disk is full", "the disk is full")
        self.room -= 1
        return await super().commit(batch)


def test_a_conversion_that_was_interrupted_is_carried_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(older_documents, "SLICE", 2)
    store, names = FullStore(), ("a", "b", "c", "d", "e")
    azure = with_machines(*names, store=store)
    for name in names:
        mark(azure, name)
    store.room = 1
    with pytest.raises(StorageError):
        azure.restart()
    interrupted = [azure.fleet.machine(name).allocated for name in names], len(markers(azure))
    store.room = 10_000

    azure.restart()

    assert interrupted == ([True, True, False, False, False], 3)
    assert [power(azure, name) for name in names] == ["stopped"] * 5
    assert markers(azure) == []


@pytest.mark.rule("U-01")
def test_a_tag_of_a_scale_set_waits_until_the_migration_is_finished() -> None:
    store = SharedStore()
    azure = compute(store=store)
    make_set_of_0_2(azure)

    refused = azure.refused("PATCH", f"{SET}/old", {"tags": {"a": "b"}})
    store.finish()
    azure.patch(f"{SET}/old", {"tags": {"a": "b"}})

    assert refused[0] == 409
    assert "run fairwarning db migrate --finish first" in refused[2]
    assert at(azure.get(f"{SET}/old"), "tags") == {"a": "b"}


@pytest.mark.rule("U-01")
def test_nothing_is_converted_and_no_machine_is_switched_off_before_the_migration_is_finished() -> None:
    store = SharedStore()
    azure = with_machines("off", "on", store=store)
    mark(azure, "off")
    azure.restart()

    refused = azure.refused("POST", f"{VM}/on/powerOff")
    before = [power(azure, name) for name in ("off", "on")], len(markers(azure))
    store.finish()
    azure.restart()
    azure.post(f"{VM}/on/powerOff")

    assert refused[0] == 409
    assert "run fairwarning db migrate --finish first" in refused[2]
    assert before == (["stopped", "running"], 1)
    assert [power(azure, name) for name in ("off", "on")] == ["stopped", "stopped"]
    assert markers(azure) == []


def test_a_marked_machine_can_be_started_before_its_marker_is_converted() -> None:
    azure = with_machines("off", store=SharedStore())
    mark(azure, "off")

    azure.post(f"{VM}/off/start")
    azure.post(f"{VM}/off/deallocate")

    assert power(azure, "off") == "deallocated"
    assert markers(azure) == []
