"""A fleet of 100,000 machines is backed up, restored and checked in little memory."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from fairwarning.core.blueprint import Blueprint, build
from fairwarning.core.policy import Policy
from fairwarning.store.sqlite import SqliteStore
from tests.conftest import NOON
from tests.store.stores import Node

SETS, MACHINES = 100, 1000

#: The most memory in kB that a command may use; the fleet alone would need more.
BACKUP, CHECK = 60_000, 110_000


async def fill(directory: Path) -> None:
    store = await SqliteStore.open(directory)
    for number in range(SETS):
        blueprint = Blueprint(name=f"set{number}", count=MACHINES)
        await store.commit(Node().decide(tuple(build(blueprint, str(number), Policy(), NOON, "operator"))))
    await store.close()


#: Runs a command and prints the most memory that the process has used; ru_maxrss would count its parent's.
MEASURED = """
import re, sys
from fairwarning.cli import cli
cli(sys.argv[1:], standalone_mode=False)
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
"""


def memory_of(*words: str) -> int:
    """Run a command that must succeed, and return the most memory that it used, in kB."""
    command = (sys.executable, "-c", MEASURED, "db", *words)
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(output.splitlines()[-1])


@pytest.mark.slow
def test_a_large_fleet_streams(tmp_path: Path) -> None:
    old, new, file = str(tmp_path / "old"), str(tmp_path / "new"), str(tmp_path / "fleet.backup")
    asyncio.run(fill(tmp_path / "old"))

    assert memory_of("backup", file, "--data", old) < BACKUP
    assert memory_of("restore", file, "--data", new) < BACKUP
    assert memory_of("check", "--data", new) < CHECK
