"""What a whole server does across its own end and beginning."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from fairwarning.config import Settings
from fairwarning.core.commands import Schedule
from fairwarning.core.model import MachineRef, ScopeId, ScopeKind, Status, VmName
from fairwarning.core.policy import PROFILES
from fairwarning.core.scope import Blueprint
from fairwarning.serve import Service
from tests.guest import E1

DB = MachineRef(ScopeId("db"), VmName("db"))


def settings(data: Path) -> Settings:
    azure = PROFILES["azure"]
    return Settings(
        blueprints=(Blueprint(name="db", kind=ScopeKind.STANDALONE),),
        profile=replace(azure, policy=replace(azure.policy, start_enabled=True)),
        manual_clock=True,
        data=data,
        port_base=0,
    )


def test_manual_time_stands_still_while_the_server_is_away(tmp_path: Path) -> None:
    async def story() -> tuple[timedelta, Status]:
        async with Service(settings(tmp_path)) as first:
            began = first.engine.clock.now()
            notice = timedelta(milliseconds=1)
            await first.engine.handle(Schedule(id=E1, cause="freeze", machines=(DB,), notice=notice))
        async with Service(settings(tmp_path)) as second:
            event = second.engine.scope(DB.scope).events[E1]
            return second.engine.clock.now() - began, event.status

    passed, status = asyncio.run(story())

    assert passed == timedelta(0)
    assert status is Status.SCHEDULED


def test_a_machine_keeps_its_place_among_the_ports(tmp_path: Path) -> None:
    async def story() -> tuple[str | None, str | None]:
        async with Service(settings(tmp_path)) as first:
            kept = await first.engine.store.noted("slots")
        async with Service(settings(tmp_path)) as second:
            return kept, await second.engine.store.noted("slots")

    before, after = asyncio.run(story())

    assert before == after == '{"db/db": 0}'
