"""A machine keeps its address, port and socket, whatever is deleted, created or restarted."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from httpx2 import AsyncClient

from fairwarning.cli.up import introduce
from fairwarning.config import Settings
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.commands import AddMachines, CreateSet, DeleteScopes, Schedule
from fairwarning.core.document.render import render_start_request
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import InvalidError
from fairwarning.core.model import MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import Policy
from fairwarning.drivers.simulated import SimulatedDriver
from fairwarning.engine.clock import ManualClock, SystemClock, new_event_id
from fairwarning.engine.engine import Engine
from fairwarning.engine.time_control import advance_to
from fairwarning.server import FleetServer
from fairwarning.store.sqlite import SqliteStore
from tests.cli.server import call
from tests.metadata.test_identity import fetch, free_base

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"


def ref(name: str, scope: str = "") -> MachineRef:
    return MachineRef(ScopeId(scope or name), VmName(name))


ALPHA, BETA, GAMMA, DELTA = map(ref, ("alpha", "beta", "gamma", "delta"))


def alone(*names: str) -> tuple[Blueprint, ...]:
    return tuple(Blueprint(name=name, kind=ScopeKind.STANDALONE) for name in names)


def serving(
    data: Path,
    *blueprints: Blueprint,
    port_base: int = 0,
    sockets: Path | None = None,
    addresses: Mapping[str, str] = {},
) -> FleetServer:
    """Return a server with a shared listener, whose fleet is kept in a directory."""
    return FleetServer(
        Settings(
            blueprints=blueprints,
            data=data,
            manual_clock=True,
            port_base=port_base,
            operator=("127.0.0.1", 0),
            listen=(("127.0.0.1", 0),),
            addresses=addresses,
            sockets=sockets,
        )
    )


async def make(service: FleetServer, blueprint: Blueprint) -> None:
    await service.engine.handle(CreateSet(seed=new_event_id(), blueprint=blueprint))
    await service.listeners.open(list(service.engine.refs()))


async def deleted(engine: Engine, machine: MachineRef) -> None:
    if len(engine.scope(machine.scope).machines) == 1:
        await engine.handle(DeleteScopes(id=new_event_id(), scopes=(machine.scope,), force=True))
    else:
        command = Schedule(id=new_event_id(), cause="delete", machines=(machine,), force=True)
        await engine.handle(command)
    clock = engine.clock
    assert isinstance(clock, ManualClock)
    await advance_to(engine, clock, clock.now() + timedelta(minutes=1))
    assert machine not in set(engine.refs())


@asynccontextmanager
async def engine_alone(data: Path) -> AsyncIterator[Engine]:
    """Give an engine without listeners, like a server that is killed before it opens them."""
    store = await SqliteStore.open(data)
    engine = Engine(store, ManualClock(SystemClock().now()), SimulatedDriver(), Policy())
    await engine.open()
    yield engine
    await engine.close()
    await store.close()


async def delete(service: FleetServer, machine: MachineRef) -> None:
    """Delete a machine, and wait until nobody is answered in its name any more."""
    await deleted(service.engine, machine)
    while machine in service.listeners.machines():
        await asyncio.sleep(0)


async def name_at(service: FleetServer, source: str) -> str:
    """Return whom a caller with this address is taken for."""
    status, body = await fetch(service.shared_urls()[0], source=source)
    return body if status == 200 else str(status)


@pytest.mark.rule("R-03")
def test_a_guest_is_nobody_else_after_another_was_deleted_and_the_server_started_again(
    tmp_path: Path,
) -> None:
    async def story() -> tuple[list[str], list[str]]:
        async with serving(tmp_path, *alone("alpha", "beta", "gamma")) as first:
            before = [await name_at(first, f"127.1.0.{n}") for n in (1, 2, 3)]
            await delete(first, ALPHA)
        async with serving(tmp_path) as second:
            return before, [await name_at(second, f"127.1.0.{n}") for n in (1, 2, 3)]

    before, after = asyncio.run(story())

    assert before == ["alpha", "beta", "gamma"]
    assert after == ["403", "beta", "gamma"]


@pytest.mark.rule("R-03")
def test_after_a_restart_a_guest_cannot_start_the_event_of_another(tmp_path: Path) -> None:
    async def story() -> tuple[str, int, str | None]:
        async with serving(tmp_path, *alone("alpha", "beta", "gamma")) as first:
            for n in (2, 3):
                await fetch(first.shared_urls()[0], EVENTS, source=f"127.1.0.{n}")
            redeploy = Schedule(id=new_event_id(), cause="redeploy", machines=(GAMMA,))
            await delete(first, ALPHA)
            await first.engine.handle(redeploy)
        async with serving(tmp_path) as second:
            shared = second.shared_urls()[0]
            _, document = await fetch(shared, EVENTS, source="127.1.0.2")
            status, _ = await fetch(
                shared, EVENTS, source="127.1.0.2", body=render_start_request(redeploy.id)
            )
            return document, status, second.engine.scope(GAMMA.scope).events[redeploy.id].approved_by

    document, status, approved_by = asyncio.run(story())

    assert json.loads(document)["Events"] == []
    assert status == 400
    assert approved_by is None


@pytest.mark.rule("R-03")
def test_what_a_deleted_machine_had_is_given_to_nobody_else(tmp_path: Path) -> None:
    sockets = tmp_path / "run"
    base = free_base(6)

    async def story() -> tuple[list[str | None], list[str | None], list[str]]:
        async with serving(
            tmp_path / "data", *alone("alpha", "beta"), port_base=base, sockets=sockets
        ) as first:
            before = [first.listeners.url(ALPHA), *first.listeners.alternatives(ALPHA)]
            await delete(first, ALPHA)
            await make(first, *alone("gamma"))
            at_once = [first.listeners.url(GAMMA), *first.listeners.alternatives(GAMMA)]
            await delete(first, GAMMA)
        async with serving(tmp_path / "data", *alone("delta"), port_base=base, sockets=sockets) as second:
            later = [second.listeners.url(DELTA), *second.listeners.alternatives(DELTA)]
            seen = [await name_at(second, f"127.1.0.{n}") for n in (1, 2, 3, 4)]
            return before, [*at_once, *later], seen

    before, others, seen = asyncio.run(story())

    assert len(set(others)) == 6
    assert not set(before) & set(others)
    assert seen == ["403", "beta", "403", "delta"]


@pytest.mark.rule("R-03")
def test_a_machine_that_is_made_again_under_its_name_has_its_own_back(tmp_path: Path) -> None:
    base = free_base(3)

    async def story() -> tuple[str | None, str | None, str]:
        async with serving(tmp_path, *alone("alpha", "beta"), port_base=base) as first:
            before = first.listeners.url(ALPHA)
            await delete(first, ALPHA)
        async with serving(tmp_path, *alone("gamma"), port_base=base) as second:
            await make(second, *alone("alpha"))
            return before, second.listeners.url(ALPHA), await name_at(second, "127.1.0.1")

    before, after, name = asyncio.run(story())

    assert before == after == f"http://127.0.0.1:{base + 1}"
    assert name == "alpha"


@pytest.mark.rule("R-03")
def test_machines_beyond_those_with_ports_keep_their_addresses_too(tmp_path: Path) -> None:
    web = ScopeId("web")
    gone, kept = MachineRef(web, VmName("web_7")), MachineRef(web, VmName("web_220"))

    async def story() -> tuple[tuple[str, ...], tuple[str, ...], str, tuple[str, ...], str | None]:
        async with serving(tmp_path, Blueprint(name="web", count=230)) as first:
            before = first.listeners.alternatives(kept)
            await delete(first, gone)
        async with serving(tmp_path) as second:
            after = second.listeners.alternatives(kept)
            seen = await name_at(second, before[0].removeprefix("--interface "))
            await second.engine.handle(AddMachines(seed="more", scope=web))
            new = MachineRef(web, VmName("web_230"))
            await second.listeners.open([new])
            return before, after, seen, second.listeners.alternatives(new), second.listeners.url(new)

    before, after, seen, new, url = asyncio.run(story())

    assert before == after == ("--interface 127.1.0.221",)
    assert seen == "web_220"
    assert new == ("--interface 127.1.0.231",), "the port of a deleted machine is not free"
    assert url is not None


@pytest.mark.rule("R-03")
def test_a_socket_is_named_by_scope_and_machine_so_that_it_never_passes_to_a_namesake(tmp_path: Path) -> None:
    sockets = tmp_path / "run"
    twin = Blueprint(name="db", group="rg1", kind=ScopeKind.STANDALONE)

    async def story() -> tuple[set[str], set[str]]:
        async with serving(tmp_path / "data", *alone("db"), sockets=sockets) as first:
            before = {path.name for path in sockets.iterdir()}
            await delete(first, ref("db"))
        async with serving(tmp_path / "data", twin, sockets=sockets):
            return before, {path.name for path in sockets.iterdir()}

    before, after = asyncio.run(story())

    assert (len(before), len(after)) == (1, 1)
    assert not before & after


@pytest.mark.rule("R-03")
def test_a_server_killed_before_it_forgot_a_machine_gives_its_port_to_nobody_else(tmp_path: Path) -> None:
    """After a kill, a deletion may be committed while its listener was not closed."""
    base = free_base(3)

    async def story() -> tuple[str | None, str | None, str]:
        async with serving(tmp_path, *alone("alpha", "beta"), port_base=base) as first:
            before = first.listeners.url(ALPHA)
        async with engine_alone(tmp_path) as engine:
            await deleted(engine, ALPHA)
        async with serving(tmp_path, *alone("gamma"), port_base=base) as second:
            return before, second.listeners.url(GAMMA), await name_at(second, "127.1.0.1")

    before, other, seen = asyncio.run(story())

    assert before != other == f"http://127.0.0.1:{base + 3}"
    assert seen == "403"


@pytest.mark.rule("R-03")
def test_a_server_killed_before_it_listened_for_a_machine_listens_when_it_is_back(tmp_path: Path) -> None:
    base = free_base(3)

    async def story() -> list[str | None]:
        async with serving(tmp_path, *alone("alpha"), port_base=base):
            pass
        async with engine_alone(tmp_path) as engine:
            await engine.handle(CreateSet(seed="s", blueprint=alone("beta")[0]))
        async with serving(tmp_path, *alone("gamma"), port_base=base) as second:
            return [second.listeners.url(machine) for machine in (ALPHA, BETA, GAMMA)]

    assert asyncio.run(story()) == [f"http://127.0.0.1:{base + n}" for n in (1, 2, 3)]


def test_a_directory_of_an_earlier_version_keeps_its_ports(tmp_path: Path) -> None:
    base = free_base(5)

    async def story() -> list[str | None]:
        async with engine_alone(tmp_path) as engine:
            for blueprint in alone("alpha", "beta", "gamma"):
                await engine.handle(CreateSet(seed=blueprint.name, blueprint=blueprint))
            await engine.store.put_value("slots", '{"alpha/alpha": 2, "gamma/gamma": 0, "gone/gone": 3}')
        async with serving(tmp_path, port_base=base) as second:
            return [second.listeners.url(machine) for machine in (ALPHA, BETA, GAMMA)]

    assert asyncio.run(story()) == [f"http://127.0.0.1:{base + n}" for n in (3, 5, 1)]


def test_a_machine_that_comes_after_all_ports_were_given_is_told_how_to_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two hundred machines were made and deleted here, and have their ports for good."""

    async def story() -> tuple[str, str, int]:
        async with engine_alone(tmp_path) as engine:
            await engine.store.put_value("numbers/0", '[[0, "gone", "gone_", 0, 1, 200]]')
        async with serving(tmp_path, *alone("alpha")) as service, AsyncClient() as client:
            introduce(service, NEWEST)
            page = await client.get(f"{service.operator_url}/machines/alpha")
            done = await asyncio.to_thread(call, "exec", "--vm", "alpha", "true", url=service.operator_url)
            assert "known by its address 127.1.0.201" in done.stderr
            return service.shared_urls()[0], page.text, done.code

    shared, page, code = asyncio.run(story())
    said = capsys.readouterr()

    assert f'curl --interface 127.1.0.201 -H Metadata:true "{shared}/metadata' in said.out
    assert "without a port of their own: 1 machine; earlier machines have the ports" in said.err
    assert "curl --interface 127.1.0.201 " in page
    assert code == 1


def test_an_address_that_was_named_once_is_never_given_to_another_by_number(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], list[str]]:
        async with serving(tmp_path, *alone("alpha"), addresses={"alpha": "127.1.0.2"}) as first:
            before = [await name_at(first, f"127.1.0.{n}") for n in (1, 2, 3)]
        async with serving(tmp_path, *alone("beta", "gamma")) as second:
            return before, [await name_at(second, f"127.1.0.{n}") for n in (1, 2, 3, 4)]

    before, after = asyncio.run(story())

    assert before == ["403", "alpha", "403"]
    assert after == ["alpha", "403", "beta", "gamma"]


def test_an_address_that_was_given_cannot_be_named_for_another_even_when_its_machine_is_gone(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with serving(tmp_path, *alone("alpha", "beta")) as first:
            await delete(first, ALPHA)
        async with serving(tmp_path, addresses={"beta": "127.1.0.1"}):
            pass

    with pytest.raises(InvalidError, match=r"127\.1\.0\.1 belongs to alpha already"):
        asyncio.run(story())
