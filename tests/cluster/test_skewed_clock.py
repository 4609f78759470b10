"""The clock that cluster tests give their nodes."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cluster.skewed_clock import SkewedClock, build_library

PROGRAM = "import datetime\nwhile input(): print(datetime.datetime.now(datetime.UTC).isoformat(), flush=True)"


@pytest.mark.needs("gcc", "/usr/include/stdio.h")
def test_a_process_has_the_wall_clock_that_the_test_gives_it(tmp_path: Path) -> None:
    clock = SkewedClock(build_library(tmp_path), tmp_path / "offset")
    environment = {**os.environ, **clock.environment}
    offsets = []

    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for hours in (0, 2, -3, 0):
            clock.set(timedelta(hours=hours))
            print("now", file=process.stdin, flush=True)
            shown = datetime.fromisoformat(process.stdout.readline().strip())
            offsets.append(round((shown - datetime.now(UTC)) / timedelta(hours=1)))
        print(file=process.stdin, flush=True)

    assert offsets == [0, 2, -3, 0]
