"""The listener identifies the caller, whatever the request says."""

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import AddMachines, CreateSet, Schedule
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.core.policy import Policy, Profile
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock
from fairwarning.engine.engine import Engine
from fairwarning.http1.server import HttpServer
from fairwarning.metadata.app import MetadataApp
from fairwarning.metadata.identity import Inventory
from fairwarning.metadata.listeners import LOOPBACK, CannotListenError, Listeners, ListenPlan
from fairwarning.metadata.machine_numbers import MachineNumbers
from fairwarning.store.memory import MemoryStore
from tests.guest import E1, NOON

WEB_0, WEB_1, WEB_2 = (MachineRef(ScopeId("web"), VmName(f"web_{n}")) for n in range(3))
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


async def fetch(
    target: str | Path,
    path: str = NAME,
    *,
    source: str | None = None,
    headers: Mapping[str, str] = {},
    body: bytes = b"",
) -> tuple[int, str]:
    """Ask over a real socket and return status and body."""
    if isinstance(target, Path):
        reader, writer = await asyncio.open_unix_connection(target)
    else:
        host, _, port = target.removeprefix("http://").partition(":")
        local = None if source is None else (source, 0)
        reader, writer = await asyncio.open_connection(host, int(port), local_addr=local)
    method = "POST" if body else "GET"
    lines = [f"{method} {path} HTTP/1.1", "Host: 169.254.169.254", "Metadata: true", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] if body else []
    writer.write("\r\n".join([*lines, "", ""]).encode() + body)
    head, _, answer = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), answer


class OpenFleet:
    """A fleet with real listeners."""

    def __init__(self, plan: ListenPlan, count: int = 3, store: MemoryStore | None = None) -> None:
        self.engine = Engine(store or MemoryStore(), ManualClock(NOON), SimulatedDriver(), Policy())
        app = MetadataApp(Control(self.engine), Profile(requests_per_second=1e9, burst=1e9))
        self.server = HttpServer[MachineRef](app.answer, self.engine.clock.now)
        self.listeners = Listeners(self.server, plan, self.engine.store)
        self.count = count

    async def __aenter__(self) -> "OpenFleet":
        await self.engine.handle(CreateSet(seed="s", blueprint=Blueprint(name="web", count=self.count)))
        await self.listeners.open_shared()
        await self.listeners.open(m.ref for m in self.engine.scope(ScopeId("web")).machines.values())
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.server.close()


def url(fleet: OpenFleet, machine: MachineRef) -> str:
    found = fleet.listeners.url(machine)
    assert found is not None
    return found


def free_base(count: int) -> int:
    """Return a port behind which some are free, below those that the system hands out."""
    for base in range(21_000 + os.getpid() % 100 * 50, 32_000, 10):
        with ExitStack() as stack:
            try:
                for port in range(base + 1, base + 1 + count):
                    stack.enter_context(socket.create_server((LOOPBACK, port)))
            except OSError:
                continue
            return base
    raise AssertionError("no free ports")


@pytest.mark.rule("R-03")
def test_each_machine_has_a_port_an_address_and_a_socket_of_its_own(tmp_path: Path) -> None:
    async def story() -> list[tuple[int, str]]:
        async with OpenFleet(ListenPlan(port=free_base(3), sockets=tmp_path)) as fleet:
            own, address, unix = url(fleet, WEB_1), *fleet.listeners.alternatives(WEB_1)
            assert address.startswith("http://127.0.10.2:")
            assert unix == f"unix:{tmp_path}/web+web_1.sock"
            return [await fetch(own), await fetch(address), await fetch(tmp_path / "web+web_1.sock")]

    assert asyncio.run(story()) == [(200, "web_1")] * 3


def test_the_ports_of_machines_can_be_on_every_address_of_the_host() -> None:
    async def story() -> list[tuple[int, str]]:
        async with OpenFleet(ListenPlan(port=0, host="0.0.0.0")) as fleet:
            own = url(fleet, WEB_1)
            assert own.startswith("http://127.0.0.1:")
            return [await fetch(own), await fetch(own.replace("127.0.0.1", "127.6.0.1"))]

    assert asyncio.run(story()) == [(200, "web_1")] * 2


def test_on_any_free_ports_a_machine_has_no_address_that_nobody_could_guess() -> None:
    async def story() -> tuple[str, ...]:
        async with OpenFleet(ListenPlan(port=0)) as fleet:
            return fleet.listeners.alternatives(WEB_1)

    assert asyncio.run(story()) == ()


@pytest.mark.rule("R-03")
@pytest.mark.parametrize(
    "headers",
    [
        {"X-Machine": "web_0"},
        {"X-Fairwarning-Machine": "web_0"},
        {"X-Real-IP": "127.1.0.1"},
        {"Forwarded": "for=127.1.0.1"},
        {"Host": "web_0"},
    ],
    ids=lambda headers: next(iter(headers)),
)
def test_no_header_makes_a_machine_another(headers: dict[str, str]) -> None:
    async def story() -> tuple[int, str]:
        async with OpenFleet(ListenPlan(port=0)) as fleet:
            return await fetch(url(fleet, WEB_1), headers=headers)

    status, body = asyncio.run(story())

    assert (status, body) == (200, "web_1") or status == 400


@pytest.mark.rule("R-03")
def test_on_a_shared_listener_the_source_address_tells_who_is_calling() -> None:
    plan = ListenPlan(port=0, shared=(("127.0.0.1", 0),), addresses={WEB_0: "127.7.0.1", WEB_1: "127.7.0.2"})

    async def story() -> list[tuple[int, str]]:
        async with OpenFleet(plan) as fleet:
            (shared,) = fleet.listeners.shared_urls()
            return [await fetch(shared, source=f"127.7.0.{n}") for n in (1, 2, 3)]

    (known, other, unknown) = asyncio.run(story())

    assert (known, other) == ((200, "web_0"), (200, "web_1"))
    assert unknown[0] == 403
    assert "no machine" in json.loads(unknown[1])["error"]


def test_machines_beyond_the_first_share_a_listener() -> None:
    async def story() -> tuple[str, tuple[int, str]]:
        async with OpenFleet(ListenPlan(port=0, own=2)) as fleet:
            (interface,) = fleet.listeners.alternatives(WEB_2)
            source = interface.removeprefix("--interface ")
            return interface, await fetch(url(fleet, WEB_2), source=source)

    interface, answer = asyncio.run(story())

    assert interface.startswith("--interface 127.1.")
    assert answer == (200, "web_2")


def test_a_deleted_machine_loses_its_listener_and_a_new_machine_gets_its_own() -> None:
    base = free_base(4)

    async def story() -> tuple[str, str]:
        async with OpenFleet(ListenPlan(port=base)) as fleet:
            gone = url(fleet, WEB_1)
            await fleet.listeners.close(WEB_1)
            with pytest.raises(ConnectionRefusedError):
                await fetch(gone)
            await fleet.engine.handle(AddMachines(seed="t", scope=ScopeId("web")))
            new = MachineRef(ScopeId("web"), VmName("web_3"))
            await fleet.listeners.open([new])
            assert (await fetch(url(fleet, new)))[1] == "web_3"
            return gone, url(fleet, new)

    gone, new = asyncio.run(story())

    assert (gone, new) == (f"http://127.0.0.1:{base + 2}", f"http://127.0.0.1:{base + 4}")


def test_what_is_given_is_kept_before_anybody_listens() -> None:
    base = free_base(1)

    class Watchful(MemoryStore):
        async def put_value(self, key: str, value: str | None) -> None:
            with pytest.raises(ConnectionRefusedError):
                await fetch(f"http://{LOOPBACK}:{base + 1}")
            await super().put_value(key, value)

    async def story() -> tuple[str | None, tuple[int, str]]:
        async with OpenFleet(ListenPlan(port=base), count=1, store=Watchful()) as fleet:
            return await fleet.engine.store.get_value("numbers/0"), await fetch(url(fleet, WEB_0))

    kept, answer = asyncio.run(story())

    assert kept is not None
    assert answer == (200, "web_0")


def test_a_socket_is_for_its_owner_alone(tmp_path: Path) -> None:
    async def story() -> int:
        async with OpenFleet(ListenPlan(port=0, sockets=tmp_path)):
            return (tmp_path / "web+web_0.sock").stat().st_mode & 0o777

    assert asyncio.run(story()) == 0o600


async def inventory(*machines: MachineRef, named: Mapping[MachineRef, str] = {}) -> Inventory:
    """Return an inventory in which these machines are active."""
    numbers = MachineNumbers(MemoryStore())
    found = Inventory(numbers)
    await found.assign(named)
    for number in await numbers.assign(machines):
        found.activate(number)
    return found


def test_an_address_belongs_to_one_machine() -> None:
    with pytest.raises(InvalidError, match="belongs to web_0 already"):
        asyncio.run(inventory(named={WEB_0: "10.0.0.1", WEB_1: "10.0.0.1"}))


@pytest.mark.rule("R-03")
def test_an_address_is_the_same_however_it_is_spelled() -> None:
    found = asyncio.run(inventory(WEB_0, WEB_1, named={WEB_0: "10.0.0.1", WEB_1: "fd00:0:0::1"}))

    assert found.identify(("::ffff:10.0.0.1", 4711)) == WEB_0
    assert found.identify(("fd00::1", 4711)) == WEB_1
    assert found.identify(("::ffff:10.0.0.2", 4711)) is None


def test_a_machine_whose_address_was_named_has_no_other() -> None:
    found = asyncio.run(inventory(WEB_0, WEB_1, named={WEB_0: "127.1.0.1"}))

    assert [found.address(machine) for machine in found] == ["127.1.0.1", "127.1.0.3"]
    assert [found.identify((f"127.1.0.{n}", 1)) for n in (1, 2, 3)] == [WEB_0, None, WEB_1]


def test_a_deactivated_machine_keeps_its_address_and_is_not_answered_there() -> None:
    found = asyncio.run(inventory(WEB_0, WEB_1))
    found.deactivate(WEB_0)

    assert WEB_0 not in found
    assert list(found) == [WEB_1]
    assert [found.identify((f"127.1.0.{n}", 1)) for n in (0, 1, 2, 3)] == [None, None, WEB_1, None]


def test_what_is_no_address_cannot_be_named() -> None:
    with pytest.raises(InvalidError, match="'here' is not an IP address"):
        asyncio.run(inventory(named={WEB_0: "here"}))


def test_a_shared_listener_of_ipv6_is_written_as_one_would_paste_it() -> None:
    async def story() -> tuple[str, ...]:
        async with OpenFleet(ListenPlan(port=0, shared=(("::1", 0),))) as fleet:
            return fleet.listeners.shared_urls()

    (shared,) = asyncio.run(story())

    assert shared.startswith("http://[::1]:")


def test_a_folder_for_sockets_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "guests"

    async def story() -> int:
        async with OpenFleet(ListenPlan(port=0, sockets=folder)):
            return folder.stat().st_mode & 0o777

    assert asyncio.run(story()) == 0o700


def test_two_servers_do_not_share_a_folder_of_sockets(tmp_path: Path) -> None:
    async def story() -> tuple[int, str]:
        async with OpenFleet(ListenPlan(port=0, sockets=tmp_path), count=1):
            with pytest.raises(
                CannotListenError, match=f"{tmp_path}/web\\+web_0.sock: another server answers there"
            ):
                async with OpenFleet(ListenPlan(port=0, sockets=tmp_path), count=1):
                    pass
            return await fetch(tmp_path / "web+web_0.sock")

    assert asyncio.run(story()) == (200, "web_0")


def test_a_listener_that_could_not_be_opened_is_opened_by_the_next_try(tmp_path: Path) -> None:
    async def story() -> tuple[int, str]:
        async with OpenFleet(ListenPlan(port=free_base(1), sockets=tmp_path), count=0) as fleet:
            await fleet.engine.handle(AddMachines(seed="t", scope=ScopeId("web")))
            (tmp_path / "web+web_0.sock").write_text("in the way")
            with pytest.raises(CannotListenError):
                await fleet.listeners.open([WEB_0])
            (tmp_path / "web+web_0.sock").unlink()
            await fleet.listeners.open([WEB_0])
            return await fetch(url(fleet, WEB_0))

    assert asyncio.run(story()) == (200, "web_0")


def test_a_listener_keeps_working_while_an_event_goes_by() -> None:
    async def story() -> list[str]:
        async with OpenFleet(ListenPlan(port=0)) as fleet:
            events = "/metadata/scheduledevents?api-version=2020-07-01"
            await fetch(url(fleet, WEB_0), events)
            await fleet.engine.handle(Schedule(id=E1, cause="restart", machines=(WEB_0,)))
            return [(await fetch(url(fleet, ref), events))[1] for ref in (WEB_0, WEB_1)]

    seen = asyncio.run(story())

    assert seen[0] == seen[1]
    assert E1 in seen[0]


def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    async def story(port: int) -> None:
        async with OpenFleet(ListenPlan(port=port - 1)):
            pass

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            CannotListenError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: address already in use$"
        ):
            asyncio.run(story(port))
