"""A server continues from the fleet that its data directory holds."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.cli.client import OperatorClient
from fairwarning.cli.up import Reporter
from fairwarning.cli.up_settings import UpOptions
from fairwarning.cli.up_settings import settings as settings_of
from fairwarning.config import Settings
from fairwarning.core.commands import DeleteScopes, Schedule
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.engine.clock import ManualClock, new_event_id
from fairwarning.engine.time_control import advance_to
from fairwarning.server import FleetServer

DB = MachineRef(ScopeId("db"), VmName("db"))
DEFAULT_FLEET = ["web_0", "web_1", "web_2", "app-0", "app-1", "app-2", "db", "batch"]


def up_settings(
    data: Path | None, vm: tuple[str, ...] = (), scale_set: tuple[tuple[str, int], ...] = ()
) -> Settings:
    """Return the settings of ``up`` with these machines, a manual clock and any free ports."""
    options = UpOptions(
        scale_set=scale_set,
        flexible_set=(),
        availability_set=(),
        vm=vm,
        spot_vm=(),
        cloud_service=(),
        zones=None,
        terminate_notice=None,
        profile="azure",
        speed=None,
        clock="manual",
        timings="brief",
        driver="simulated",
        start_enabled=True,
        data=data,
        keep_history=None,
        keep_history_size=None,
        ready_file=None,
        port_base=0,
        machine_host="127.0.0.1",
        operator=None,
        arm=None,
        arm_names=False,
        no_arm=True,
        identity=False,
        token_file=None,
        listen=(),
        address=(),
        sockets=None,
        preview_version=False,
        first_call="none",
        first_call_delay=timedelta(0),
        replay=(),
        json_=False,
        log_level=None,
        log_format=None,
    )
    return settings_of(options)


async def started(settings: Settings) -> tuple[list[str], tuple[str, ...]]:
    """Start a server; return its machines and its notes."""
    async with FleetServer(settings) as server:
        return [ref.name for ref in server.engine.refs()], server.notes


@pytest.mark.parametrize("stored", [True, False], ids=["in a directory", "in memory"])
def test_the_default_fleet_is_created_in_an_empty_store(tmp_path: Path, stored: bool) -> None:
    assert asyncio.run(started(up_settings(tmp_path if stored else None))) == (DEFAULT_FLEET, ())


def test_no_default_fleet_is_added_to_a_stored_fleet(tmp_path: Path) -> None:
    asyncio.run(started(up_settings(tmp_path, vm=("db",), scale_set=(("pool", 2),))))

    result = asyncio.run(started(up_settings(tmp_path)))

    assert result == (["pool_0", "pool_1", "db"], (f"3 machines in 2 sets from {tmp_path}",))


def test_machines_of_the_settings_are_added_to_a_stored_fleet(tmp_path: Path) -> None:
    asyncio.run(started(up_settings(tmp_path, vm=("db",))))

    result = asyncio.run(started(up_settings(tmp_path, vm=("db", "other"))))

    assert result == (["db", "other"], (f"1 machine in 1 set from {tmp_path}",))


def test_the_default_fleet_does_not_come_back_after_everything_was_deleted(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], tuple[str, ...]]:
        async with FleetServer(up_settings(tmp_path, vm=("db",))) as server:
            clock = server.engine.clock
            assert isinstance(clock, ManualClock)
            await server.engine.handle(DeleteScopes(id=new_event_id(), scopes=(DB.scope,), force=True))
            await advance_to(server.engine, clock, clock.now() + timedelta(minutes=1))
        return await started(up_settings(tmp_path))

    assert asyncio.run(story()) == (
        [],
        (f"no machines are left in {tmp_path}; hint: create some with --scale-set web=3",),
    )


def test_an_event_of_another_day_is_announced_with_its_date(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> str:
        printed = ""
        async with FleetServer(up_settings(None, vm=("db",))) as server:
            now = server.engine.clock.now()
            client = OperatorClient(server.operator_url)
            reporter = Reporter(client, await server.position(), NEWEST, now, json_=False)
            try:
                with reporter:
                    await asyncio.to_thread(reporter.catch_up)
                    freeze = Schedule(
                        id=new_event_id(), cause="freeze", machines=(DB,), notice=timedelta(days=7)
                    )
                    await server.engine.handle(freeze)
                    async with asyncio.timeout(30):
                        while "it starts at" not in printed:
                            await asyncio.sleep(0.01)
                            printed += capsys.readouterr().out
                starts = server.engine.scope(DB.scope).events[freeze.id].not_before
            finally:
                ending = asyncio.create_task(asyncio.to_thread(reporter.close))
        await ending
        assert f"it starts at {starts:%Y-%m-%d %H:%M:%SZ}, or once" in printed
        return printed.splitlines()[0]

    assert asyncio.run(story())[:2].isdigit()
