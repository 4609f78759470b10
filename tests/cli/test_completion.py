"""``completion``: the scripts, and what they offer."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from fairwarning.cli import cli
from tests.cli.server import FAIRWARNING, NOWHERE, Server, call

SHELLS = ("bash", "zsh", "fish")


def question(*words: str, url: str = NOWHERE) -> dict[str, str]:
    """Return the variables with which bash asks what to offer for the last word of a command line."""
    return {
        "_FAIRWARNING_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("fairwarning", *words)),
        "COMP_CWORD": str(len(words)),
        "FAIRWARNING_URL": url,
    }


def offered(*words: str, url: str = NOWHERE) -> list[str]:
    """Return what is offered, by a command in this process: quicker, and with the same outcome."""
    done = CliRunner().invoke(cli, env=question(*words, url=url), prog_name="fairwarning")
    assert (done.exit_code, done.stderr) == (0, "")
    return [line.partition(",")[2] for line in done.stdout.split()]


@pytest.fixture
def url(bare: Server) -> str:
    return bare.ready["operator"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_completes_fairwarning(shell: str) -> None:
    done = call("completion", shell)

    assert done.code == 0
    assert "_FAIRWARNING_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout


def test_bash_accepts_its_script() -> None:
    script = call("completion", "bash").stdout

    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, timeout=30)

    assert (done.returncode, done.stderr) == (0, "")


def test_an_unknown_shell_is_a_usage_error() -> None:
    assert call("completion", "tcsh").code == 2


def test_a_new_process_offers_commands() -> None:
    environment = os.environ | question("ro")

    done = subprocess.run(FAIRWARNING, env=environment, capture_output=True, text=True, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,rollout\n", "")


def test_commands_and_options_are_offered() -> None:
    assert offered("ro") == ["rollout"]
    assert offered("wal") == []
    assert "--notice" in offered("cause", "--n")


def test_scenarios_are_offered_for_a_check() -> None:
    assert "plain-reboot" in offered("check", "pl")
    assert "plain-reboot" in offered("check", "--show", "pl")


def test_machines_hosts_and_scopes_are_offered(bare: Server, url: str) -> None:
    assert offered("cause", "restart", "web_", url=url) == ["web_0", "web_1", "web_2"]
    assert offered("exec", "--vm", "d", url=url) == ["db"]
    assert offered("fault", "ba", url=url) == ["batch"]
    assert offered("rollout", "--scope", "we", url=url) == ["web"]
    assert "host-db-0-0" in offered("cause", "freeze", "--host", "host-d", url=url)


def test_pending_events_are_offered(bare: Server, url: str) -> None:
    (event,) = bare.cause("freeze", "db", "--notice", "1h")
    try:
        for command in ("approve", "cancel", "events", "history"):
            assert offered(command, event["id"][:9].lower(), url=url) == [event["id"]]
    finally:
        bare.tell("cancel", event["id"])


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def test_without_an_answer_nothing_is_offered_and_soon(silent: str) -> None:
    def took(url: str) -> float:
        loop = asyncio.new_event_loop()
        began = loop.time()
        assert offered("cause", "restart", "w", url=url) == []
        loop.close()
        return loop.time() - began

    assert offered("cause", "restart", "w", url="nonsense") == []
    assert took(silent) - took("http://127.0.0.1:1") < 30
