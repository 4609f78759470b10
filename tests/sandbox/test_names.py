"""``exec --azure``: a program finds the management API under Azure's names, and nothing else."""

from pathlib import Path

import pytest

from tests.cli.server import Done, run
from tests.sandbox.programs import Exec

pytestmark = pytest.mark.slow

ENDPOINTS = "https://management.azure.com/metadata/endpoints?api-version=2022-09-01"
TOKENS = '''curl -sS -d grant_type=client_credentials -d "client_id=$AZURE_CLIENT_ID" \\
    -d "client_secret=$AZURE_CLIENT_SECRET" "https://login.microsoftonline.com/$AZURE_TENANT_ID/oauth2/token"'''
EVENTS = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

PYTHON = f"""
import json, os, urllib.request
opened = urllib.request.urlopen({ENDPOINTS!r}, timeout=20)
print(json.load(opened)["name"], os.environ["AZURE_SUBSCRIPTION_ID"])
"""

NODE = f"""
const https = require("node:https");
const proxy = new URL(process.env.HTTPS_PROXY);
const asked = require("node:http").request({{
    host: proxy.hostname, port: proxy.port, agent: false,
    method: "CONNECT", path: "management.azure.com:443"}});
asked.on("connect", (_, socket) => https.get({ENDPOINTS!r}, {{socket, agent: false}}, answer => {{
    let text = "";
    answer.on("data", data => text += data);
    answer.on("end", () => console.log(JSON.parse(text).name, process.env.AZURE_SUBSCRIPTION_ID));
}}));
asked.end();
"""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the files of the command out of the home directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    # The proxies of this machine are not those of the program.
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "management.azure.com")


def exec_azure(exec_: Exec, *words: str) -> Done:
    """Run a program as this user, who has the folder of the certificate."""
    return run("exec", "--azure", *words, url=exec_.operator)


@pytest.mark.needs("curl")
def test_a_program_reaches_the_names_of_azure_and_no_other(unchecked_exec: Exec) -> None:
    script = f'curl -sS "{ENDPOINTS}"; {TOKENS}; curl -sS https://example.com/ 2>&1; test $? = 56 && exit 7'

    done = exec_azure(unchecked_exec, "--", "sh", "-c", script)

    assert '"resourceManager":"https://management.azure.com/"' in done.stdout
    assert '"access_token":' in done.stdout
    assert done.stdout.endswith("response 403\n")
    assert (done.code, done.stderr) == (7, "")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(("python3", "-c", PYTHON), id="Python's own HTTPS"),
        pytest.param(("node", "-e", NODE), id="Node", marks=pytest.mark.needs("node")),
    ],
)
def test_a_program_trusts_the_server_under_the_names_of_azure(
    unchecked_exec: Exec, program: tuple[str, ...]
) -> None:
    done = exec_azure(unchecked_exec, "--", *program)

    assert done.stdout == "fairwarning 00000000-0000-0000-0000-000000000001\n", done.stderr


@pytest.mark.story
@pytest.mark.needs("curl")
def test_a_program_on_a_machine_has_the_endpoint_and_the_names(redirecting: Exec) -> None:
    script = f'curl -sS -H Metadata:true "{EVENTS}"; curl -sS "{ENDPOINTS}"'

    done = exec_azure(redirecting, "--vm", "web_0", "--", "sh", "-c", script)

    assert '"DocumentIncarnation":1' in done.stdout
    assert '"name":"fairwarning"' in done.stdout


def test_the_exit_code_says_that_a_program_is_missing(unchecked_exec: Exec) -> None:
    done = exec_azure(unchecked_exec, "--", "no-such-program")

    assert done.code == 127
    assert "no-such-program cannot be run" in done.stderr
