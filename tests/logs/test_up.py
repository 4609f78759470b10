"""The log of ``fairwarning up``: where it goes, what it says, and what it never says."""

import json
import os
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from fairwarning.arm.context import SUBSCRIPTION
from tests.cli.server import FAIRWARNING, Server, call, until, up
from tests.console.console_client import csrf_token

MANUAL = ("--clock", "manual", "--start-enabled", "--vm", "db")
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/lab"


def log_lines(server: Server) -> list[Mapping[str, object]]:
    """Return the lines of the log; notes for people are on stderr, too."""
    return [json.loads(line) for line in server.complained().splitlines() if line.startswith("{")]


def test_a_log_that_goes_to_a_file_is_json_with_every_request_and_step(tmp_path: Path) -> None:
    with up(tmp_path, *MANUAL, "--no-arm") as server:
        (event,) = server.cause("restart", "db")
        server.tell("approve", event["id"])
        server.tell("clock", "advance", "10s")
        server.command("cause", "evict", "db")
        server.stop()

    lines = log_lines(server)
    assert [line["event"] for line in lines] == [
        "set_created",
        "event_scheduled",
        "event_approved",
        "event_started",
        "clock_advanced",
        "event_finished",
        "refused",
    ]
    assert {line["event_id"] for line in lines if str(line["event"]).startswith("event_")} == {event["id"]}
    assert not any(line.startswith("{") for line in server.printed().splitlines())


def test_a_log_as_text_has_the_same_lines(tmp_path: Path) -> None:
    with up(tmp_path, *MANUAL, "--no-arm", "--log-format", "text") as server:
        until(lambda: "set_created" in server.complained(), "the set is logged")

    assert " info set_created set=db kind=standalone scope=db machines=1 by=" in server.complained()


def test_variables_replace_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWARNING_LOG_LEVEL", "error")

    with up(tmp_path, *MANUAL, "--no-arm") as silent:
        silent.cause("restart", "db")
        silent.stop()

    assert log_lines(silent) == []


def test_an_option_replaces_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWARNING_LOG_LEVEL", "error")

    with up(tmp_path, *MANUAL, "--no-arm", "--log-level", "info") as server:
        until(lambda: "set_created" in server.complained(), "the set is logged")


@pytest.mark.parametrize(
    ("option", "variable"),
    [("--log-level", "FAIRWARNING_LOG_LEVEL"), ("--log-format", "FAIRWARNING_LOG_FORMAT")],
)
def test_an_unknown_value_is_a_usage_error(
    option: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = call("up", option, "loud")
    monkeypatch.setenv(variable, "loud")
    found = call("up")

    assert (given.code, found.code) == (2, 2)
    assert f"Invalid value for '{option}'" in given.stderr
    assert variable in found.stderr


def test_no_secret_is_ever_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, wrong = "the-token-of-this-server", "a-guess-that-is-wrong"
    password, script = "the-password-of-a-machine", "c2NyaXB0IHdpdGggYSBrZXk="
    (tmp_path / "token").write_text(secret)
    monkeypatch.setenv("FAIRWARNING_TOKEN", secret)
    options = ["--token-file", str(tmp_path / "token"), "--identity", "--log-level", "debug"]

    with up(tmp_path, *MANUAL, *options) as server:
        issued = use_every_secret(server, secret, wrong, password, script)
        server.cause("restart", "db")
        server.tell("clock", "advance", "1h")
        monkeypatch.setenv("FAIRWARNING_TOKEN", wrong)
        assert server.command("vms").code == 1
        server.stop()

    assert {"set_created", "event_scheduled", "event_progressed"} <= {
        line["event"] for line in log_lines(server)
    }
    assert len(issued) == 3
    output = server.complained() + server.printed()
    assert [one for one in (secret, wrong, password, script, *issued) if one in output] == []


def use_every_secret(server: Server, secret: str, wrong: str, password: str, script: str) -> list[str]:
    """Send each secret in each way that the server accepts; return the tokens that the server issued."""
    trust = ssl.create_default_context(cafile=server.ready["ca"])
    login = {"grant_type": "client_credentials", "client_id": "dev", "client_secret": secret}
    with (
        httpx2.Client(base_url=server.ready["arm"], verify=trust, trust_env=False) as arm,
        httpx2.Client(base_url=server.ready["operator"], trust_env=False) as operator,
        httpx2.Client(base_url=server.ready["metadata"]["db"], trust_env=False) as guest,
    ):
        arm.post("/adfs/oauth2/token", data={**login, "client_secret": wrong})
        token = arm.post("/adfs/oauth2/token", data=login).json()["access_token"]
        arm.headers["Authorization"] = f"Bearer {token}"
        arm.put(f"{GROUP}?api-version=2022-12-01", json={"location": "westeurope"})
        profile = {"computerName": "vm", "adminUsername": "ann", "adminPassword": password}
        machine = {
            "location": "westeurope",
            "properties": {"osProfile": {**profile, "customData": script}, "userData": script},
        }
        path = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/vm?api-version=2024-07-01"
        assert arm.put(path, json=machine).status_code < 300
        form = {"csrf": csrf_token(operator.get("/login").text), "token": secret}
        assert operator.post("/login", data={**form, "token": wrong}).status_code == 403
        session = operator.post("/login", data=form).cookies
        operator.get("/fleet/v1/machines", headers={"Authorization": f"Bearer {wrong}"})
        identity = guest.get(
            "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://management.azure.com/",
            headers={"Metadata": "true"},
        )
        return [token, identity.json()["access_token"], *session.values()]


def test_on_a_terminal_the_log_is_quiet_until_something_goes_wrong(tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    controller, terminal = os.openpty()
    words = ["up", *MANUAL, "--no-arm", "--port-base", "0", "--ready-file", str(ready)]
    server = subprocess.Popen([*FAIRWARNING, *words], stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    try:
        until(ready.exists, "the server is ready")
    finally:
        server.terminate()
        server.wait(timeout=20)

    lines = os.read(controller, 100_000).decode().splitlines()
    os.close(controller)
    assert lines[0].startswith("console and operator API: ")
    assert lines[-1] == "stopping"
    assert [line for line in lines if "set_created" in line] == []
