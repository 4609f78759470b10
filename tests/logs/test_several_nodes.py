"""A node logs what it has written itself, on request or because it was due, and nothing else."""

import asyncio
import logging

import pytest

from fairwarning.core.commands import SetPower
from fairwarning.core.model import PowerState, ScopeId
from fairwarning.logs.follow import JournalLog
from tests.deciders.cluster import ref
from tests.deciders.members import open_members
from tests.deciders.virtual_time import run


def test_a_node_logs_its_own_requests_and_transitions_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        cluster = await open_members()
        a, b = await cluster.join(), await cluster.join()
        journal_log = JournalLog(a)
        journal_log.start()
        await cluster.create(a, "first")
        await asyncio.sleep(2.5)
        names = [f"set{number}" for number in range(10)]
        mine = next(name for name in names if a.membership.rank(ScopeId(name)) == 0)
        theirs = next(name for name in names if b.membership.rank(ScopeId(name)) == 0)
        for node, name in ((b, mine), (a, theirs)):
            await cluster.create(node, name)
            await cluster.announce(node, f"{name}_0", cause="freeze")
        await asyncio.sleep(1000)
        await journal_log.close()
        scopes.extend((mine, theirs))

    scopes: list[str] = []
    with caplog.at_level(logging.INFO, "fairwarning.journal"):
        run(story())

    mine, theirs = scopes
    told = [
        (line.split()[0], scope) for line in caplog.messages for scope in scopes if f"scope={scope} " in line
    ]
    assert told == [
        ("set_created", theirs),
        ("event_scheduled", theirs),
        ("event_started", mine),
        ("event_finished", mine),
    ]


def test_what_another_node_has_changed_is_known_when_this_one_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        cluster = await open_members()
        a, b = await cluster.join(), await cluster.join()
        await cluster.create(a, "web")
        await asyncio.sleep(1)
        journal_log = JournalLog(a)
        journal_log.start()
        await cluster.do(b, SetPower(machine=ref("web_0"), power=PowerState.STOPPED))
        await asyncio.sleep(1)
        await cluster.do(a, SetPower(machine=ref("web_0"), power=PowerState.RUNNING))
        await journal_log.close()

    with caplog.at_level(logging.INFO, "fairwarning.journal"):
        run(story())

    (line,) = caplog.messages
    assert line.startswith("power_changed power=running")
