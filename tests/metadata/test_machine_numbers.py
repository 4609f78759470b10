"""A machine keeps its number, whatever is created, deleted, restarted or not written."""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairwarning.core.commands import AddMachines
from fairwarning.core.errors import FairWarningError
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.http1.messages import Request, Response
from fairwarning.http1.server import HttpServer
from fairwarning.metadata.identity import FIRST_ADDRESS, LAST_ADDRESS, Inventory
from fairwarning.metadata.listener_sync import sync_listeners
from fairwarning.metadata.listeners import MAX_PATH_BYTES, Listeners, ListenPlan, socket_name
from fairwarning.metadata.machine_numbers import PAGE, MachineNumbers, NumbersDamagedError
from fairwarning.store.memory import MemoryStore
from tests.guest import NOON
from tests.metadata.test_identity import OpenFleet, free_base

WEB = ScopeId("web")

scopes = st.sampled_from(("web", "web.zone1", "db", "rg1/db", "rg1.db", "rg1"))
names = st.one_of(
    st.builds("{}{}".format, st.sampled_from(("web_", "db", "vm0", "vm00", "")), st.integers(0, 30)),
    st.sampled_from(("db", "web_", "vm007", "vm1234567890123", "x_1a2b3c4d", "00")),
)
#: Some of a few, so that names often follow one another, and some of many.
machines = st.one_of(
    st.builds(MachineRef, st.just(WEB), st.integers(0, 5).map("web_{}".format).map(VmName)),
    st.builds(MachineRef, scopes.map(ScopeId), names.map(VmName)),
)
RESTART = "restart"


class Refusing(MemoryStore):
    """A store whose disk may be full."""

    full = False

    async def put_value(self, key: str, value: str | None) -> None:
        if self.full:
            raise FairWarningError("the disk is full")
        await super().put_value(key, value)


def web(*numbers: int) -> list[MachineRef]:
    return [MachineRef(WEB, VmName(f"web_{number}")) for number in numbers]


async def reopened(store: MemoryStore) -> MachineNumbers:
    numbers = MachineNumbers(store)
    await numbers.load()
    return numbers


@dataclass
class Claims:
    """The first owner of every address, port and socket."""

    owners: dict[str, MachineRef]

    def claim(self, what: str, machine: MachineRef) -> None:
        assert self.owners.setdefault(what, machine) == machine


@pytest.mark.rule("R-03")
@settings(max_examples=40, deadline=None)
@given(history=st.lists(st.one_of(machines, machines, st.just(RESTART)), max_size=25))
def test_no_address_port_or_socket_ever_belongs_to_two_machines(history: Sequence[MachineRef | str]) -> None:
    """A machine is made if it is not there, and deleted if it is."""
    base = free_base(4)

    async def refuse(caller: MachineRef | None, request: Request) -> Response:
        raise AssertionError("no request is expected")

    async def story(folder: Path) -> None:
        store, there, claims = MemoryStore(), set[MachineRef](), Claims({})
        server = HttpServer[MachineRef](refuse, lambda: NOON)
        plan = ListenPlan(port=base, own=3, sockets=folder)
        listeners = Listeners(server, plan, store)
        try:
            for step in history:
                if not isinstance(step, MachineRef):
                    await server.close()
                    server = HttpServer[MachineRef](refuse, lambda: NOON)
                    listeners = Listeners(server, plan, store)
                    await listeners.open(sorted(there, key=hash))
                elif step in there:
                    there.remove(step)
                    await listeners.close(step)
                else:
                    there.add(step)
                    await listeners.open([step])
                assert listeners.machines() == there
                for machine in there:
                    ways = (listeners.url(machine), *listeners.alternatives(machine))
                    for way in {*ways, None} - {None, *listeners.shared_urls()}:
                        claims.claim(str(way), machine)
        finally:
            await server.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))


@settings(deadline=None)
@given(
    history=st.lists(
        st.one_of(*[st.lists(machines, min_size=1, max_size=2)] * 4, st.sampled_from((RESTART, "full"))),
        max_size=40,
    )
)
def test_numbers_are_kept_once_they_are_given_even_if_the_disk_was_full_at_times(
    history: Sequence[list[MachineRef] | str],
) -> None:
    """A full disk has room again after one write that failed."""

    async def story() -> None:
        store, known = Refusing(), dict[MachineRef, int]()
        numbers = await reopened(store)
        for step in history:
            if step == RESTART:
                numbers = await reopened(store)
            elif isinstance(step, str):
                store.full = True
            else:
                with suppress(FairWarningError):
                    given_now = dict(zip(step, await numbers.assign(step), strict=True))
                    assert all(known.get(machine, number) == number for machine, number in given_now.items())
                    known |= given_now
                store.full = False
            assert len(set(known.values())) == len(known)
            for machine, number in known.items():
                assert numbers.number(machine) == number
                assert numbers.owner(number) == machine

    asyncio.run(story())


def test_a_million_machines_that_count_up_are_a_handful_of_runs() -> None:
    async def story() -> str | None:
        store = MemoryStore()
        numbers = await reopened(store)
        await numbers.assign(web(*range(1_000)))
        await numbers.assign(
            [MachineRef(ScopeId("web.zone2"), VmName(f"web_{n}")) for n in range(1, 3_000, 3)]
        )
        return await store.get_value("numbers/0")

    assert asyncio.run(story()) == '[[0, "web", "web_", 0, 1, 1000], [1000, "web.zone2", "web_", 1, 3, 1000]]'


def test_a_run_that_grows_is_kept_as_it_has_grown() -> None:
    async def story() -> list[int]:
        store = MemoryStore()
        numbers = await reopened(store)
        for number in range(3):
            await numbers.assign(web(number))
        again = await reopened(store)
        return await again.assign([*web(3), *web(0, 1, 2)])

    assert asyncio.run(story()) == [3, 0, 1, 2]


def test_one_more_machine_does_not_write_everything_anew() -> None:
    async def story() -> list[int]:
        store = MemoryStore()
        numbers = await reopened(store)
        await numbers.assign([MachineRef(ScopeId(f"s{n}x"), VmName("vm")) for n in range(PAGE + 1)])
        again = await reopened(store)
        return await again.assign([MachineRef(ScopeId(f"s{n}x"), VmName("vm")) for n in (0, PAGE, PAGE + 1)])

    assert asyncio.run(story()) == [0, PAGE, PAGE + 1]


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "null",
        "[[1]]",
        '{"a": 1}',
        '[["x", "web", "web_", 0, 1, 1]]',
        '[[-1, "web", "web_", 0, 1, 1]]',
        '[[0, "web", "web_", 0, 0, 1]]',
    ],
)
def test_numbers_that_cannot_be_read_are_an_error_that_says_so(text: str) -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.put_value("numbers/0", text)
        await reopened(store)

    with pytest.raises(NumbersDamagedError, match="entry numbers/0 is damaged"):
        asyncio.run(story())


def test_beyond_the_last_address_a_machine_has_none_rather_than_somebody_elses() -> None:
    last = int(LAST_ADDRESS) - int(FIRST_ADDRESS)

    async def story() -> list[str | None]:
        store = MemoryStore()
        await store.put_value("numbers/0", f'[[{last}, "web", "web_", 0, 1, 1]]')
        numbers = await reopened(store)
        inventory = Inventory(numbers)
        for number in await numbers.assign(web(0, 1)):
            inventory.activate(number)
        return [inventory.address(machine) for machine in web(0, 1)]

    assert asyncio.run(story()) == ["127.255.255.254", None]


@given(one=machines, other=machines)
def test_no_two_machines_have_sockets_of_one_name(one: MachineRef, other: MachineRef) -> None:
    folder = Path("/run/fairwarning")

    assert (socket_name(folder, one) == socket_name(folder, other)) == (one == other)


@pytest.mark.parametrize("folder", ["/run", "/a-folder-with-a-rather-long-name-for-sockets/in-it"])
def test_the_path_of_a_socket_is_never_too_long(folder: str) -> None:
    long = [MachineRef(ScopeId(f"{'g' * 63}/{'s' * 63}"), VmName(f"{'v' * 62}{end}")) for end in "12"]

    found = [f"{folder}/{socket_name(Path(folder), machine)}" for machine in long]

    assert found[0] != found[1]
    assert max(map(len, found)) <= MAX_PATH_BYTES


def test_a_disk_that_was_full_once_keeps_no_later_machine_without_its_listener() -> None:
    async def story() -> tuple[str | None, str | None]:
        store = Refusing()
        async with OpenFleet(ListenPlan(port=0), count=0, store=store) as fleet:
            with fleet.engine.feed.subscribe() as subscription:
                syncing = asyncio.create_task(
                    sync_listeners(fleet.engine, fleet.listeners, lambda machine: None, subscription)
                )
                for full in (True, False):
                    store.full = full
                    await fleet.engine.handle(AddMachines(seed=str(full), scope=WEB))
                    for _ in range(100):
                        await asyncio.sleep(0)
                syncing.cancel()
            return fleet.listeners.url(web(0)[0]), fleet.listeners.url(web(1)[0])

    first, second = asyncio.run(story())

    assert first is None
    assert second is not None
