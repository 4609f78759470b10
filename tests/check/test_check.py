"""The check command, run as a process: what it runs, what it prints, and how it exits."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from socket import gethostname
from xml.etree import ElementTree

import pytest

from fairwarning.check.scenario import standard, text
from tests.check.sandboxed import skip_without_sandbox
from tests.cli.server import FAIRWARNING, Done, call, until

ROOT = Path(__file__).parents[2]

AGENT = (
    *(sys.executable, "-W", "error", "-m", "fairwarning", "agent", "run"),
    *("--config", str(Path(__file__).with_name("agent.toml")), "--state", "{work}/state"),
)

#: These two take five seconds when they run at the same time.
QUICKEST = ("preempt", "old-version")


def check(*words: str) -> Done:
    """Run ``check`` to its end; skip where the machine allows no sandbox."""
    done = subprocess.run([*FAIRWARNING, "check", *words], capture_output=True, text=True, timeout=100)
    skip_without_sandbox(done.stdout)
    return Done(code=done.returncode, stdout=done.stdout, stderr=done.stderr)


def test_our_own_agent_is_safe(tmp_path: Path) -> None:
    junit, report = tmp_path / "report.xml", tmp_path / "report.json"

    done = check(*QUICKEST, "--strict", "--junit", str(junit), "--json-file", str(report), "--", *AGENT)

    assert (done.code, done.stderr) == (0, "2 scenarios: 2 safe\n"), done.stdout
    assert [line.split()[1] for line in done.stdout.splitlines()] == ["safe"] * 2
    assert [entry["name"] for entry in json.loads(report.read_text())["scenarios"]] == list(QUICKEST)
    assert len(ElementTree.parse(junit).findall("testsuite")) == 2


def test_a_handler_that_ends_at_once_did_not_start_whatever_its_exit_code() -> None:
    # With the descriptor for errors of its sandbox, it could claim that it cannot be run.
    handler = ("sh", "-c", "ls -l /proc/$$/fd | grep sandbox-errors; echo broken; exit 125")

    done = check("plain-reboot", "--", *handler)

    assert (done.code, done.stderr) == (4, "1 scenario: 1 did not start\n"), done.stdout
    assert done.stdout.splitlines()[1:] == [
        "    web_0 ended with exit code 125 before its first request (C-01)",
        "    | broken",
    ]


@pytest.mark.slow
def test_a_handler_may_take_only_the_time_to_start_that_it_is_given() -> None:
    done = check("plain-reboot", "--start-within", "1s", "--", "sleep", "600")

    assert (done.code, done.stderr) == (4, "1 scenario: 1 did not start\n"), done.stdout
    assert "    web_0 sent no request in 1." in done.stdout


@pytest.mark.rule("S-06")
def test_a_handler_has_the_host_name_of_its_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTNAME", "a-container")

    done = check(
        "plain-reboot", "--", "sh", "-c", 'hostname; cat /proc/sys/kernel/hostname; echo "$HOSTNAME"'
    )

    _, _, *printed = done.stdout.splitlines()
    assert [*dict.fromkeys(printed)] in (["    | web000000"], ["    | web000000", f"    | {gethostname()}"])


ONLY_DRAINS = """
last=
while sleep 0.5; do
    id=$(curl -sS -H Metadata:true "$1" | sed -n 's/.*"EventId":"\\([^"]*\\)".*/\\1/p')
    [ -n "$last" ] || [ -z "$id" ] || "$FAIRWARNING_DRAIN" "$id"
    [ -z "$last" ] || [ -n "$id" ] || "$FAIRWARNING_RECOVER" "$last"
    last=$id
done
"""
EVENTS = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"


@pytest.mark.slow
@pytest.mark.needs("curl")
@pytest.mark.rule("C-06")
def test_a_handler_that_only_drains_is_slow_and_unsafe_only_where_a_user_waits() -> None:
    handler = ("sh", "-c", ONLY_DRAINS, "sh", EVENTS)

    eviction, restart = check("preempt", "--", *handler), check("plain-reboot", "--", *handler)

    assert (eviction.code, eviction.stderr) == (3, "1 scenario: 1 slow\n"), eviction.stdout
    assert (restart.code, restart.stderr) == (1, "1 scenario: 1 UNSAFE\n"), restart.stdout


@pytest.mark.slow
@pytest.mark.rule("C-09")
def test_a_handler_that_takes_long_to_start_is_not_silent() -> None:
    handler = ("sh", "-c", f"sleep 14; exec {sys.executable} {ROOT / 'examples' / 'safe_handler.py'}")

    done = check("--quick", "hardware-failure", "--", *handler)

    assert (done.code, done.stderr) == (0, "1 scenario: 1 safe\n"), done.stdout


def test_a_scenario_that_cannot_run_has_no_verdict(tmp_path: Path) -> None:
    ambiguous = tmp_path / "mine.toml"
    ambiguous.write_text(text("plain-reboot").replace("scale_sets", 'vms = ["web_0"]\nscale_sets'))
    handler = tmp_path / "handler"
    handler.write_text("#!/no/such/interpreter\n")
    handler.chmod(0o755)

    done = check(str(ambiguous), "preempt", "--", str(handler))

    assert (done.code, done.stderr) == (2, "2 scenarios: 2 not played\n")
    assert "the fleet has no machine web_0; it has " in done.stdout
    assert f"{handler} cannot be run: No such file or directory" in done.stdout


def interrupt(check: int, server: int) -> None:
    """Press Ctrl-C, which signals every process of the terminal."""
    os.killpg(check, signal.SIGINT)


def terminate(check: int, server: int) -> None:
    os.kill(check, signal.SIGTERM)


def kill_the_server(check: int, server: int) -> None:
    os.kill(server, signal.SIGKILL)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_server(pid: int) -> bool:
    return b"\0up\0" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize(
    ("strike", "message"),
    [
        pytest.param(interrupt, "interrupted", id="an interrupt"),
        pytest.param(terminate, "interrupted", id="a SIGTERM"),
        pytest.param(
            kill_the_server,
            "the server ended with exit code -9",
            id="a server that dies",
        ),
    ],
)
def test_an_aborted_check_has_no_verdict_and_leaves_no_process(
    strike: Callable[[int, int], None], message: str, tmp_path: Path
) -> None:
    runs = tmp_path / "runs"
    handler = ("sh", "-c", f"echo $$ > {runs}; exec sleep 600")
    with subprocess.Popen(
        [*FAIRWARNING, "check", "preempt", "--", *handler],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        until(lambda: process.poll() is not None or (runs.exists() and runs.read_text() != ""), "a handler")
        if process.poll() is not None:
            output = process.communicate()[0]
            skip_without_sandbox(output)
            raise AssertionError(f"check ended before its handler began:\n{output}")
        (server,) = filter(is_server, children(process.pid))

        strike(process.pid, server)

        output, _ = process.communicate(timeout=60)
    assert (process.returncode, message in output) == (2, True), output
    assert not any(Path(f"/proc/{pid}").exists() for pid in (server, int(runs.read_text())))


def test_a_file_with_invalid_toml_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("name = \n")

    done = call("check", str(broken), "--", "true")

    assert done.code == 2
    assert f"{broken}: is not valid TOML: Invalid value (at line 1, column 8)" in done.stderr


def test_the_standard_scenarios_are_listed() -> None:
    done = call("check", "--list")

    assert (done.code, [line.split()[0] for line in done.stdout.splitlines()[1:]]) == (0, list(standard()))


def test_the_standard_scenarios_are_listed_as_json() -> None:
    done = call("check", "--list", "--json")

    assert [row["name"] for row in json.loads(done.stdout)] == list(standard())


def test_the_report_is_printed_as_json_and_the_rest_on_stderr() -> None:
    done = check("plain-reboot", "--json", "--", "sh", "-c", "exit 1")

    assert [one["name"] for one in json.loads(done.stdout)["scenarios"]] == ["plain-reboot"]
    assert "plain-reboot  did not start" in done.stderr
    assert done.stderr.endswith("1 scenario: 1 did not start\n")


def test_a_scenario_is_shown_as_it_stands() -> None:
    done = call("check", "--show", "plain-reboot")

    assert (done.code, done.stdout) == (0, text("plain-reboot"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param((), "no handler: write its command line after --", id="no handler"),
        pytest.param(("plain-reboot", "--"), "no handler: ", id="nothing behind the dashes"),
        pytest.param(("--", "no-such-program"), "program not found: no-such-program", id="no program"),
        pytest.param(
            ("rain", "--", "true"), "rain: is neither a standard scenario nor a .toml file", id="no scenario"
        ),
        pytest.param(("plain-rebot", "--", "true"), "(did you mean plain-reboot", id="nearly a scenario"),
        pytest.param(("--show", "plain-rebot"), "(did you mean plain-reboot", id="nearly one to show"),
        pytest.param(("--json", "r.json", "--", "true"), "--json-file r.json", id="a file for --json"),
        pytest.param(
            ("--show", "rain"), "rain: is neither a standard scenario nor a .toml file", id="nothing to show"
        ),
        pytest.param(
            ("--json-file", "nowhere/report", "--", "true"),
            "'--json-file': nowhere/report cannot be written: nowhere is not a directory",
            id="no place for the report",
        ),
        pytest.param(
            ("--junit", "nowhere/report", "--", "true"),
            "'--junit': nowhere/report cannot be written: nowhere is not a directory",
            id="no place for the report of a build",
        ),
        pytest.param(("--jobs", "0", "--", "true"), "Invalid value for '--jobs'", id="no jobs"),
    ],
)
def test_a_usage_error_is_refused(words: tuple[str, ...], message: str) -> None:
    done = call("check", *words)

    assert done.code == 2
    assert message in done.stderr


def test_no_other_scenario_is_suggested_for_a_file_that_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "plain-reboot.toml"
    file.write_text("steps = [")

    done = call("check", file.name, "--", "true")

    assert done.code == 2
    assert done.stderr.startswith("error: plain-reboot.toml: is not valid TOML: ")
    assert "did you mean" not in done.stderr
    assert "hint" not in done.stderr


def test_what_is_behind_the_dashes_is_not_ours_to_read() -> None:
    done = call("check", "--", "no-such-program", "--help", "--", "--list")

    assert "program not found: no-such-program" in done.stderr
