"""A server that is killed again and again, under guests, operators, management writes and rollouts, keeps
every promise: nothing answered is lost, nothing starts early, nobody is taken for somebody else.
"""

import asyncio
import random
from itertools import count
from pathlib import Path

import pytest

from tests.arm.live import token
from tests.chaos.ledger import Ledger
from tests.chaos.players import Game
from tests.cli.server import free_port, up

#: One after the other: while a killed server is down, its ports look free to another rampage.
pytestmark = pytest.mark.xdist_group("rampage")

FLEET = ("--scale-set", "web=4", "--availability-set", "app=3", "--vm", "db", "--spot-vm", "batch")
#: The number of ports above the base that a server may use: operator, machines, and management at 443.
SPAN = 450


def rampage(scratch: Path, kills: int, clock: str) -> Ledger:
    """Kill a server so many times and return the ledger."""
    chance, names, ledger = random.Random(f"{clock}{kills}"), count(), Ledger()
    time = ("--clock", "manual") if clock == "manual" else ("--speed", "120")
    words = ("--data", str(scratch / "data"), "--port-base", str(free_port(SPAN)), "--start-enabled", *time)
    for number in range(kills + 1):
        directory = scratch / str(number)  # the ready file of a killed server stays behind
        directory.mkdir()
        with up(directory, *words, *FLEET) as server:
            game = Game(server, ledger, chance, token(server), clock == "manual", names)
            asyncio.run(game.run(to_the_death=number < kills))
        if ledger.violations:
            break
    return ledger


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.rule("R-03", "R-12", "L-02", "T-13")
@pytest.mark.parametrize("clock", ["real", "manual"])
def test_fifty_kills_break_no_promise(tmp_path: Path, clock: str) -> None:
    ledger = rampage(tmp_path, 50, clock)

    assert ledger.violations == []
    # The run tested something: everything that could be lost existed.
    assert min(map(len, (ledger.announced, ledger.approved, ledger.created, ledger.cancelled))) > 25
    assert ledger.deletions


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("clock", ["real", "manual"])
def test_150_kills_break_no_promise(tmp_path: Path, clock: str) -> None:
    assert rampage(tmp_path, 150, clock).violations == []
