"""Commands that cannot go on end without a traceback: a full disk, and Ctrl-C before they have begun."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.check.sandboxed import skip_without_sandbox
from tests.cli.server import FAIRWARNING, Server, until

FULL = Path("/dev/full")
NO_SPACE = "error: the output cannot be written: No space left on device\n"

needs_a_full_device = pytest.mark.skipif(not FULL.exists(), reason="no device that is always full")


def run_full(*words: str, url: str = "") -> tuple[int, str]:
    """Run a command whose output goes to a full device; return its exit code and its errors."""
    with FULL.open("w") as full:
        done = subprocess.run(
            [*FAIRWARNING, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "FAIRWARNING_URL": url},
        )
    return done.returncode, done.stderr


@needs_a_full_device
def test_a_table_that_cannot_be_written_is_one_error_line(bare: Server) -> None:
    assert run_full("vms", url=bare.ready["operator"]) == (1, NO_SPACE)


@needs_a_full_device
@pytest.mark.parametrize("words", [("--help",), ("vms", "--help"), ("check", "--list")])
def test_output_that_needs_no_server_and_cannot_be_written_is_one_error_line(words: tuple[str, ...]) -> None:
    code, errors = run_full(*words)

    assert (code, errors) == (2 if "check" in words else 1, NO_SPACE)


@needs_a_full_device
def test_results_of_a_check_that_cannot_be_written_are_no_verdict() -> None:
    code, errors = run_full("check", "preempt", "--", "sh", "-c", "exit 1")

    skip_without_sandbox(errors)
    assert (code, errors) == (2, NO_SPACE)


def test_an_interrupt_while_modules_are_imported_leaves_no_traceback(tmp_path: Path) -> None:
    importing = tmp_path / "importing"
    (tmp_path / "click.py").write_text(
        f"import time\nopen({str(importing)!r}, 'w').close()\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [*FAIRWARNING, "vms"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as process:
        until(importing.exists, "the import of a module")

        process.send_signal(signal.SIGINT)

        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (-signal.SIGINT, "")
