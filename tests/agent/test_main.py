"""The agent's own command line, and the one file it ships as."""

import json
import logging
import os
import runpy
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from fairwarning import __version__
from fairwarning.agent.journal import Journal
from fairwarning.agent.main import main
from fairwarning.agent.plan import EventStep
from tests.agent.events import record, seen
from tests.agent.processes import AGENT
from tests.agent.scripted import Answer, Script, endpoint
from tests.cli.server import call, until

ROOT = Path(__file__).parents[2]

REBOOT = (
    b'{"DocumentIncarnation":1,"Events":[{"EventId":"E1","EventStatus":"Scheduled","EventType":"Reboot",'
    b'"Resources":["web_0"],"NotBefore":"Mon, 16 Nov 2026 12:15:00 GMT"}]}'
)
AT_NOON = {"Date": "Mon, 16 Nov 2026 12:00:00 GMT"}
DRAIN = """
[agent]
machine = "web_0"
[[rule]]
types = ["Reboot"]
prepare = [{ exec = ["true", "drain"] }]
recover = [{ exec = ["true", "undrain"] }]
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "agent.toml"
    path.write_text(DRAIN)
    return str(path)


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist") / "fairwarning-agent.pyz"
    build = runpy.run_path(str(ROOT / "packaging" / "build_agent.py"))["build"]
    made: Path = build(target)
    return made


def test_check_says_what_would_happen_per_type(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", "--config", config])

    output = capsys.readouterr().out
    assert code == 0
    assert "Reboot: rule rule-1, approve after-success\n  prepare: would run true drain\n" in output
    assert "Freeze of 5 s: rule short-freeze, approve immediately\n  nothing to run\n" in output
    assert "Preempt: rule watch, approve never\n" in output


def test_check_names_the_file_that_it_read(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--config", config])

    assert capsys.readouterr().out.startswith(f"settings: {config}\nFreeze of 5 s: ")


def test_check_names_the_usual_file_too(
    config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairwarning.agent.main.DEFAULT_FILE", Path(config))

    main(["check"])

    assert capsys.readouterr().out.startswith(f"settings: {config}\n")


def test_check_without_a_file_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairwarning.agent.main.DEFAULT_FILE", tmp_path / "agent.toml")

    code = main(["check"])

    assert code == 0
    assert capsys.readouterr().out == (
        f"no settings: {tmp_path}/agent.toml does not exist\n"
        "the defaults apply: the agent runs no hooks, approves freezes under 9 s, "
        "and only watches other events\n"
    )


def test_a_reader_that_has_seen_enough_is_no_error(config: str) -> None:
    agent = subprocess.Popen(
        [*AGENT, "check", "--config", config], stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert agent.stdout is not None
    agent.stdout.close()

    _, problems = agent.communicate(timeout=30)

    assert (agent.returncode, problems) == (1, b"")


def test_an_output_that_cannot_be_written_is_one_line(config: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*AGENT, "check", "--config", config], stdout=full, stderr=subprocess.PIPE)

    assert (done.returncode, done.stderr) == (
        1,
        b"fairwarning-agent: the output cannot be written: No space left on device\n",
    )


@pytest.mark.parametrize("command", ["run", "status", "explain"])
def test_a_journal_that_cannot_be_used_has_a_hint(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    state = tmp_path / "file"
    state.touch()

    with endpoint() as script:
        code = main([command, "--config", config, "--state", str(state), "--endpoint", script.url])

    problem, hint = capsys.readouterr().err.splitlines()[-2:]
    assert code == 1
    assert problem.startswith(f"fairwarning-agent: the journal in {state} cannot be used: ")
    assert hint == "hint: --state DIR puts the journal elsewhere"


def test_an_address_in_use_has_no_hint_about_the_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        config = tmp_path / "agent.toml"
        config.write_text(f"[agent]\nlisten = '127.0.0.1:{other.getsockname()[1]}'\n")

        code = main(["run", "--config", str(config), "--state", str(tmp_path)])

    problems = capsys.readouterr().err
    assert code == 1
    assert "Address already in use" in problems
    assert "hint:" not in problems


def test_an_invalid_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "agent.toml").write_text("[agent]\npol = 1")

    code = main(["check", "--config", str(tmp_path / "agent.toml")])

    assert code == 1
    assert "fairwarning-agent: agent.pol: unknown option" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(
            'types = ["Rebot"]',
            "rule-1: unknown event type 'rebot' (did you mean Reboot?)",
            id="an event type with a typo",
        ),
        pytest.param(
            'types = ["Earthquake"]',
            "rule-1: unknown event type 'earthquake' (known are Freeze, Reboot, Redeploy,",
            id="an unknown event type",
        ),
        pytest.param(
            'prepare = [{ exec = ["/nowhere/drain", "now"] }]',
            "rule-1: run /nowhere/drain now: program /nowhere/drain not found",
            id="a path without a program",
        ),
        pytest.param(
            'recover = [{ exec = ["no-such-program"] }]',
            "rule-1: run no-such-program: program no-such-program not found",
            id="a program that is not installed",
        ),
    ],
)
def test_check_refuses_what_would_fail_when_an_event_comes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, problem: str
) -> None:
    (tmp_path / "agent.toml").write_text(f"[[rule]]\n{line}\n")

    code = main(["check", "--config", str(tmp_path / "agent.toml")])

    assert code == 1
    assert f"fairwarning-agent: {problem}" in capsys.readouterr().err


def test_check_refuses_a_health_check_that_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "agent.toml").write_text('[agent]\ncheck = ["/nowhere/healthy"]\n')

    code = main(["check", "--config", str(tmp_path / "agent.toml")])

    assert code == 1
    assert "agent.check: program /nowhere/healthy not found" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("step", "why"),
    [
        pytest.param(None, "prepare: the event is new", id="what it would do"),
        pytest.param(
            EventStep.READY, "approve: rule rule-1 approves after-success", id="what is about to be sent"
        ),
        pytest.param(
            EventStep.FAILED, "wait: preparing failed, so it is not approved", id="why it is not approved"
        ),
    ],
)
def test_explain_says_why(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: EventStep | None, why: str
) -> None:
    if step is not None:
        with Journal(tmp_path) as journal:
            journal.write(record(seen(), step, attempts=1))
    with endpoint(Answer(200, REBOOT, AT_NOON)) as script:
        code = main(["explain", "--config", config, "--endpoint", script.url, "--state", str(tmp_path)])

    assert code == 0
    assert f"E1 Reboot Scheduled: {why}" in capsys.readouterr().out


def test_explain_knows_that_the_agent_is_preparing(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(Answer(200, REBOOT, AT_NOON)) as script, Journal(tmp_path) as journal:
        journal.write(record(seen(), EventStep.PREPARING))
        main(["explain", "--config", config, "--endpoint", script.url, "--state", str(tmp_path)])

    assert "wait: this machine is not ready: preparing" in capsys.readouterr().out


def test_status_lists_the_journal(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(tmp_path) as journal:
        journal.write(record(seen(), EventStep.FAILED, problem="the drain exits 1"))
        main(["status", "--config", config, "--state", str(tmp_path)])

    output = capsys.readouterr().out
    assert output.startswith("an agent is running\nE1 Reboot of web_0: failed (the drain exits 1), since")


def test_control_characters_of_a_document_do_not_reach_the_terminal(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = REBOOT.replace(b'"Reboot"', rb'"\u001b[2J"')
    with Journal(tmp_path) as journal:
        journal.write(record(seen(kind="\x1b[2J"), EventStep.READY))
    with endpoint(Answer(200, body, AT_NOON)) as script:
        main(["explain", "--config", config, "--endpoint", script.url, "--state", str(tmp_path)])
    main(["status", "--config", config, "--state", str(tmp_path)])

    output = capsys.readouterr().out
    assert r"E1 \x1b[2J Scheduled: " in output
    assert r"E1 \x1b[2J of web_0: ready" in output


def test_control_characters_of_an_error_do_not_reach_the_terminal(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with endpoint(Answer(400, b"no\x1b[2J\nhint: run this")) as script:
        code = main(["explain", "--config", config, "--endpoint", script.url])

    assert code == 3
    assert r"the endpoint answers 400: no\x1b[2J\nhint: run this" in capsys.readouterr().err


def test_an_endpoint_that_does_not_answer_has_its_own_exit_code(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["explain", "--config", config, "--endpoint", "http://127.0.0.1:1"])

    output = capsys.readouterr().err
    assert code == 3
    assert output.startswith("fairwarning-agent: asking http://127.0.0.1:1\n")
    assert "hint: --endpoint" in output


def test_a_state_in_use_is_refused(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(tmp_path):
        code = main(["run", "--config", config, "--state", str(tmp_path), "--endpoint", "http://127.0.0.1:1"])

    assert code == 1
    assert "another agent uses" in capsys.readouterr().err


def test_a_run_leaves_the_log_of_its_process_as_it_was(config: str, tmp_path: Path) -> None:
    ours = logging.getLogger("fairwarning")
    before = list(ours.handlers), ours.level, ours.propagate

    with Journal(tmp_path):
        main(["run", "--config", config, "--state", str(tmp_path)])

    assert (ours.handlers, ours.level, ours.propagate) == before


def test_fairwarning_agent_passes_its_arguments_on(config: str) -> None:
    done = call("agent", "check", "--config", config)

    assert done.code == 0
    assert "Reboot: rule rule-1" in done.stdout


def test_one_file_runs_on_a_bare_python(pyz: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-W", "error", str(pyz), "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"]},
    )

    assert (done.returncode, done.stdout) == (0, f"fairwarning-agent {__version__}\n")


def test_the_same_sources_give_the_same_file(pyz: Path, tmp_path: Path) -> None:
    again = runpy.run_path(str(ROOT / "packaging" / "build_agent.py"))["build"](tmp_path / "again.pyz")

    assert again.read_bytes() == pyz.read_bytes()


def test_the_agent_imports_only_the_standard_library_and_what_is_packed_with_it() -> None:
    probe = (
        "import json, sys, fairwarning.agent.main, fairwarning.agent.embed\n"
        "print(json.dumps({name: getattr(module, '__file__', '') for name, module in sys.modules.items()}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], text=True, capture_output=True, check=True)
    modules: dict[str, str | None] = json.loads(done.stdout)

    packages = {name.split(".")[1] for name in modules if name.startswith("fairwarning.")}
    foreign = {name for name, file in modules.items() if "site-packages" in (file or "")}
    assert packages == {"agent", "core", "formats", "service_manager"}
    assert {name for name in foreign if not name.startswith(("_", "fairwarning"))} <= {"distutils-precedence"}


@pytest.mark.slow
def test_at_rest_the_agent_is_small_and_quiet(pyz: Path, tmp_path: Path) -> None:
    with endpoint(Answer(200, b'{"DocumentIncarnation":1,"Events":[]}', {"ETag": '"1"'})) as script:
        words = ["run", "--endpoint", script.url, "--state", str(tmp_path)]
        agent = subprocess.Popen([sys.executable, "-I", str(pyz), *words], stderr=subprocess.DEVNULL)
        try:
            until(lambda: len(script.asked) >= 5, "the agent polls")
            begun = ticks(agent.pid)
            for polls in (15, 25, 35):
                until(partial(polled, script, polls), f"{polls} polls")
            spent = (ticks(agent.pid) - begun) / os.sysconf("SC_CLK_TCK")
            status = Path(f"/proc/{agent.pid}/status").read_text()
        finally:
            agent.terminate()
            agent.wait(20)

    (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert resident < 30_000
    assert spent / 30 < 0.02  # the bench says how much; this only notices an agent that spins


def polled(script: Script, times: int) -> bool:
    return len(script.asked) >= times


def ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.parametrize("option", ["--config", "--state"])
def test_an_option_with_one_value_is_refused_if_it_is_given_twice(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", option, "a", option, "b"])

    assert f"error: {option} is given twice, and takes one value\n" in capsys.readouterr().err
