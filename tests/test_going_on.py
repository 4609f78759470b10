"""A server that is started on a directory goes on from what is there."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.cli.client import OperatorClient
from fairwarning.cli.up import Reporter
from fairwarning.cli.up_settings import UpOptions
from fairwarning.cli.up_settings import settings as fulfilled
from fairwarning.config import Settings
from fairwarning.core.commands import DeleteScopes, Schedule
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.model import MachineRef, ScopeId, VmName
from fairwarning.engine.clock import ManualClock, new_event_id
from fairwarning.engine.time_control import advance_to
from fairwarning.server import Service

DB = MachineRef(ScopeId("db"), VmName("db"))
EVERYBODY = ["web_0", "web_1", "web_2", "app-0", "app-1", "app-2", "db", "batch"]


def asked(
    data: Path | None, vm: tuple[str, ...] = (), scale_set: tuple[tuple[str, int], ...] = ()
) -> Settings:
    """Return the settings of ``up`` with these machines, a manual clock and any free ports."""
    wishes = UpOptions(
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
        start_enabled=True,
        data=data,
        keep_history=None,
        keep_history_size=None,
        ready_file=None,
        port_base=0,
        operator=None,
        arm=None,
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
    )
    return fulfilled(wishes)


async def started(settings: Settings) -> tuple[list[str], tuple[str, ...]]:
    """Return who is there once a server has started, and what it remarks."""
    async with Service(settings) as service:
        return [ref.name for ref in service.engine.refs()], service.remarks


@pytest.mark.parametrize("kept", [True, False], ids=["in a directory", "in memory"])
def test_the_default_fleet_is_made_where_nothing_ever_was(tmp_path: Path, kept: bool) -> None:
    assert asyncio.run(started(asked(tmp_path if kept else None))) == (EVERYBODY, ())


def test_no_default_fleet_is_added_to_a_fleet_that_is_there(tmp_path: Path) -> None:
    asyncio.run(started(asked(tmp_path, vm=("db",), scale_set=(("pool", 2),))))

    found = asyncio.run(started(asked(tmp_path)))

    assert found == (["pool_0", "pool_1", "db"], (f"3 machines in 2 sets from {tmp_path}",))


def test_machines_that_are_asked_for_are_added_to_what_is_there(tmp_path: Path) -> None:
    asyncio.run(started(asked(tmp_path, vm=("db",))))

    found = asyncio.run(started(asked(tmp_path, vm=("db", "other"))))

    assert found == (["db", "other"], (f"1 machine in 1 set from {tmp_path}",))


def test_the_default_fleet_does_not_come_back_after_everything_was_deleted(tmp_path: Path) -> None:
    async def story() -> tuple[list[str], tuple[str, ...]]:
        async with Service(asked(tmp_path, vm=("db",))) as service:
            clock = service.engine.clock
            assert isinstance(clock, ManualClock)
            await service.engine.handle(DeleteScopes(id=new_event_id(), scopes=(DB.scope,), force=True))
            await advance_to(service.engine, clock, clock.now() + timedelta(minutes=1))
        return await started(asked(tmp_path))

    assert asyncio.run(story()) == (
        [],
        (f"no machines are left in {tmp_path}; hint: --scale-set web=3 makes some",),
    )


def test_an_event_of_another_day_is_announced_with_its_date(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> str:
        said = ""
        async with Service(asked(None, vm=("db",))) as service:
            now = service.engine.clock.now()
            client = OperatorClient(service.operator_url)
            reporter = Reporter(client, await service.position(), NEWEST, now, json_=False)
            try:
                with reporter:
                    await asyncio.to_thread(reporter.catch_up)
                    freeze = Schedule(
                        id=new_event_id(), cause="freeze", machines=(DB,), notice=timedelta(days=7)
                    )
                    await service.engine.handle(freeze)
                    async with asyncio.timeout(30):
                        while "it starts at" not in said:
                            await asyncio.sleep(0.01)
                            said += capsys.readouterr().out
                starts = service.engine.scope(DB.scope).events[freeze.id].not_before
            finally:
                ending = asyncio.create_task(asyncio.to_thread(reporter.close))
        await ending
        assert f"it starts at {starts:%Y-%m-%d %H:%M:%SZ}, or once" in said
        return said.splitlines()[0]

    assert asyncio.run(story())[:2].isdigit()
