"""One run: three nodes, their clients, failures until the time is up, and then every promise."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fairwarning.database.operations import check_database
from fairwarning.database.postgres import PostgresDatabase
from fairwarning.engine.ports import Entry, FleetSnapshot
from fairwarning.store.postgres.store import PostgresStore
from tests import postgres
from tests.cluster import comparison
from tests.cluster.answers import Answers
from tests.cluster.audit import Audit, compare_with_rows
from tests.cluster.failures import Failures
from tests.cluster.nodes import ADDRESSES, MANAGED, NEIGHBOURS, Node, running_nodes
from tests.cluster.players import Players, client_from
from tests.cluster.skewed_clock import build_library

#: The lines of each batch, and when it was stored by the clock of the database.
_STORED_AT = "SELECT first, last, at FROM receipt"
_HANG_UP = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'"

#: How many kinds of failures a run has at least.
KINDS = 4


@dataclass
class Report:
    """What happened in a run."""

    seed: str
    answers: Answers = field(default_factory=Answers)
    failures: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    lines: int = 0

    def __str__(self) -> str:
        silence = self.answers.longest_silence().total_seconds()
        rows = {
            "seed": self.seed,
            "failures": _list(self.failures),
            **{kind: _list(counts) for kind, counts in sorted(self.answers.counts().items())},
            "polls": _list(self.answers.polls),
            "journal": f"{self.lines} lines",
            "longest silence": f"{silence:.1f} s without any answered write",
            "longest behind": f"{self.answers.behind:.1f} s with an older document after a move",
            "violations": len(self.violations),
        }
        return "\n".join([*(f"{name:16} {row}" for name, row in rows.items()), *self.violations])


def _list(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


async def run(folder: Path, seconds: float, seed: str) -> Report:
    """Let the nodes of a new cluster fail for some seconds, and return what was seen."""
    chance, report, over = random.Random(seed), Report(seed), asyncio.Event()
    dsn = await asyncio.to_thread(postgres.new_database)
    async with running_nodes(dsn, folder, build_library(folder), "a", "b", "c") as nodes:
        token = await _token(nodes[0])
        failures = Failures(
            nodes, chance, over, lambda node: _discard(postgres.execute(dsn, _HANG_UP.format(node.name)))
        )
        players = Players(nodes, ADDRESSES, NEIGHBOURS, MANAGED, report.answers, chance, over, token)
        async with asyncio.TaskGroup() as game:
            game.create_task(players.play())
            game.create_task(failures.run())
            game.create_task(_end(failures, seconds, over))
        report.failures = dict(failures.counts)
        for node in nodes:
            await node.become_ready()
        await comparison.check_writable(nodes, report.answers)
        # A node that has just read everything from the database says what the database says.
        nodes[0].kill()
        await nodes[0].start()
        report.violations += await comparison.differences(nodes, token, report.answers.operations)
        for node in nodes:
            await node.stop()
    journal, snapshot = await _read(dsn)
    report.lines = len(journal)
    report.violations += Audit(report.answers, journal, _stored_at(dsn)).violations()
    report.violations += compare_with_rows(journal, snapshot)
    check = await asyncio.to_thread(check_database, PostgresDatabase(dsn))
    report.violations += [f"{found.where}: {found.problem}" for found in check.findings.kept]
    return report


async def _end(failures: Failures, seconds: float, over: asyncio.Event) -> None:
    """End the game after some seconds, but not before it had several kinds of failures."""
    await asyncio.sleep(seconds)
    while len(failures.counts) < KINDS:
        await asyncio.sleep(0.1)
    over.set()


async def _token(node: Node) -> str:
    form = {"grant_type": "client_credentials", "client_id": "chaos", "client_secret": "chaos"}
    async with client_from(patience=comparison.PATIENCE) as client:
        answer = await client.post(f"{node.management}/adfs/oauth2/token", data=form)
    token: str = answer.json()["access_token"]
    return token


async def _read(dsn: str) -> tuple[Sequence[Entry], FleetSnapshot]:
    store = await PostgresStore.open(dsn)
    try:
        journal: list[Entry] = []
        while page := await store.journal(after=journal[-1].seq if journal else 0):
            journal += page
        return journal, await store.snapshot()
    finally:
        await store.close()


def _stored_at(dsn: str) -> dict[int, datetime]:
    times: dict[int, datetime] = {}
    for first, last, at in postgres.execute(dsn, _STORED_AT):
        assert isinstance(first, int)
        assert isinstance(last, int)
        assert isinstance(at, datetime)
        times |= dict.fromkeys(range(first, last + 1), at)
    return times


def _discard(_: object) -> None:
    """Forget a result."""
