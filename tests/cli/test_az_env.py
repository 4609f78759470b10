"""``az-env`` and ``az-login``: the private configuration of az, and its login.

The az of these tests only logs its arguments.
"""

import json
import os
import shlex
import ssl
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from tests.cli.server import Server, call, up

FAKE_AZ = """#!/bin/sh
printf '%s\\n' "$AZURE_CONFIG_DIR $*" >>"$AZ_LOG"
for word; do case $word in --password=@*) cat "${word#--password=@}" >"$AZ_LOG.secret" ;; esac; done
case "$*" in "cloud show"*) test -e "$AZ_LOG.registered" ;; "cloud register"*) : >"$AZ_LOG.registered" ;; esac
"""
TENANT = "11111111-1111-4111-8111-111111111111"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the files of the commands out of the home directory."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("AZURE_CONFIG_DIR", raising=False)
    return tmp_path / "state"


@pytest.fixture
def az(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a fake az on the PATH; give the file in which it logs its arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "az").write_text(FAKE_AZ)
    (folder / "az").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("AZ_LOG", str(tmp_path / "az.log"))
    return tmp_path / "az.log"


def variables(server: Server) -> Mapping[str, str]:
    """Return what a shell has after ``eval "$(fairwarning az-env)"``."""
    script = f"{server.tell('az-env')}\nenv -0"
    said = subprocess.run(
        ["sh", "-eu", "-c", script], env={"PATH": os.defpath}, capture_output=True, text=True, check=True
    )
    pairs = (line.partition("=") for line in said.stdout.split("\0"))
    return {name: value for name, _, value in pairs}


def test_each_line_exports_one_variable(bare: Server) -> None:
    lines = [shlex.split(line) for line in bare.tell("az-env").splitlines()]

    assert all(line[0] == "export" and len(line) == 2 for line in lines)
    assert [line[1].partition("=")[0] for line in lines] == [
        "AZURE_CONFIG_DIR",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "AZURE_CORE_COLLECT_TELEMETRY",
        "AZURE_CORE_DISPLAY_REGION_IDENTIFIED",
        "AZURE_CORE_NO_COLOR",
        "FAIRWARNING_ARM_URL",
    ]


def test_the_server_can_be_trusted_by_what_is_exported(bare: Server) -> None:
    exported = variables(bare)

    files = {exported[name] for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS")}
    context = ssl.create_default_context(cafile=files.pop())
    with httpx2.Client(verify=context, trust_env=False) as client:
        found = client.get(f"{exported['FAIRWARNING_ARM_URL']}/metadata/endpoints")

    assert files == set()
    assert exported["FAIRWARNING_ARM_URL"] == bare.ready["arm"]
    assert found.json()["name"] == "fairwarning"


def test_the_configuration_is_private_and_stays_the_same_for_a_server(bare: Server, state: Path) -> None:
    exported = variables(bare)

    folder = Path(exported["AZURE_CONFIG_DIR"])
    assert folder.is_relative_to(state)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert variables(bare) == exported


def test_a_path_with_special_characters_is_quoted_for_the_shell(
    bare: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / 'it\'s a $HOME; of "mine"'
    monkeypatch.setenv("XDG_STATE_HOME", str(odd))

    assert Path(variables(bare)["AZURE_CONFIG_DIR"]).is_relative_to(odd)


def test_tokens_of_an_earlier_server_are_deleted(bare: Server) -> None:
    folder = Path(variables(bare)["AZURE_CONFIG_DIR"])
    tokens = folder / "msal_token_cache.json"
    tokens.write_text("{}")
    variables(bare)
    kept = tokens.exists()
    (folder / "ca.pem").write_text("the certificate of another server at the same address")

    variables(bare)

    assert (kept, tokens.exists()) == (True, False)


def test_the_operator_api_has_the_address_of_the_management_api(bare: Server) -> None:
    with httpx2.Client(trust_env=False) as client:
        said = client.get(f"{bare.ready['operator']}/fleet/v1/arm").json()

    assert said["arm"] == bare.ready["arm"]
    assert said["ca"] == bare.ready["ca"]
    assert said["certificate"] == Path(bare.ready["ca"]).read_text()
    assert (said["tenant"], said["subscription"]) == (TENANT, "00000000-0000-0000-0000-000000000001")


def test_az_login_registers_the_cloud_and_logs_in(bare: Server, az: Path) -> None:
    done = bare.command("az-login")

    url = bare.ready["arm"]
    folder = variables(bare)["AZURE_CONFIG_DIR"]
    calls = az.read_text().splitlines()
    assert done.code == 0, done.stderr
    assert f"az is logged in to {url}\n" in done.stderr
    assert calls[1:3] == [
        f"{folder} cloud register --name fairwarning --endpoint-resource-manager {url} "
        f"--endpoint-vm-image-alias-doc {url}/aliases.json",
        f"{folder} cloud set --name fairwarning",
    ]
    assert calls[3].startswith(f"{folder} login --service-principal --username dev --tenant {TENANT} ")


def test_az_login_can_be_repeated(bare: Server, az: Path) -> None:
    bare.tell("az-login")
    az.unlink()

    bare.tell("az-login")

    assert [" ".join(line.split()[1:3]) for line in az.read_text().splitlines()] == [
        "cloud show",
        "cloud update",
        "cloud set",
        "login --service-principal",
    ]


def test_the_secret_is_the_server_s_token_and_never_on_a_command_line(
    tmp_path: Path, az: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("open-sesame-open\n")
    monkeypatch.setenv("FAIRWARNING_TOKEN", "open-sesame-open")
    words = ["--vm", "db", "--token-file", str(tmp_path / "token"), "--arm", "0.0.0.0:0"]
    with up(tmp_path, *words) as server:
        server.tell("az-login")

    url = server.ready["arm"].replace("0.0.0.0", "127.0.0.1")
    assert f"--endpoint-resource-manager {url} " in az.read_text()
    assert "open-sesame-open" not in az.read_text()
    assert az.with_name("az.log.secret").read_text() == "open-sesame-open"


def test_errors_of_az_are_passed_on(bare: Server, az: Path) -> None:
    fake = az.with_name("bin") / "az"
    fake.write_text('#!/bin/sh\ncase "$*" in *set*) echo "ERROR: no such cloud" >&2; exit 1 ;; esac\n')

    done = bare.command("az-login")

    assert done.code == 1
    assert done.stderr == "error: az cloud set failed: ERROR: no such cloud\n"


def test_without_az_the_command_says_what_is_missing(bare: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    done = bare.command("az-login")

    assert done.code == 1
    assert done.stderr.startswith("error: az is not on the PATH\nhint: ")


def test_a_server_without_the_management_api_says_so(tmp_path: Path) -> None:
    with up(tmp_path, "--vm", "db", "--no-arm") as server, httpx2.Client(trust_env=False) as client:
        url = f"{server.ready['metadata']['db']}/metadata/attested/document?api-version=2021-02-01"
        attested = client.get(url, headers={"Metadata": "true"})
        done = server.command("az-env")

    assert (done.code, done.stdout) == (1, "")
    assert "this server has no management API" in done.stderr
    assert "hint: start the server without --no-arm\n" in done.stderr
    assert server.ready["arm"] is None
    # I-16: there is no authority that could sign.
    assert attested.status_code == 404


def test_the_same_data_means_the_same_certificate_and_the_same_tokens(tmp_path: Path) -> None:
    words = ["--vm", "db", "--data", str(tmp_path / "data")]

    def visit(server: Server, token: str | None) -> tuple[str, str, int]:
        with httpx2.Client(
            base_url=server.ready["arm"],
            trust_env=False,
            verify=ssl.create_default_context(cafile=server.ready["ca"]),
        ) as client:
            form = {"grant_type": "client_credentials", "client_secret": "dev"}
            shown = token or client.post("/adfs/oauth2/token", data=form).json()["access_token"]
            headers = {"Authorization": f"Bearer {shown}"}
            answer = client.get("/subscriptions?api-version=2022-12-01", headers=headers)
        return Path(server.ready["ca"]).read_text(), shown, answer.status_code

    with up(tmp_path, *words) as first:
        before = visit(first, None)
    with up(tmp_path, *words) as second:
        after = visit(second, before[1])

    assert before[2] == 200
    assert after == before


def test_off_loopback_the_management_api_needs_a_token() -> None:
    done = call("up", "--port-base", "0", "--arm", "0.0.0.0:0")

    assert done.code == 2
    assert "a token is required to serve the management API on 0.0.0.0" in done.stderr


def test_the_sdk_s_own_credentials_are_given_tokens(bare: Server) -> None:
    # Loaded here: it takes longer than any other test of this file.
    from azure.identity import ClientSecretCredential

    credential = ClientSecretCredential(
        "adfs", "dev", "dev", authority=bare.ready["arm"], connection_verify=bare.ready["ca"]
    )
    with credential:
        token = credential.get_token(f"{bare.ready['arm']}/.default").token

    with httpx2.Client(verify=ssl.create_default_context(cafile=bare.ready["ca"]), trust_env=False) as client:
        url = f"{bare.ready['arm']}/subscriptions?api-version=2022-12-01"
        assert client.get(url, headers={"Authorization": f"Bearer {token}"}).status_code == 200


@pytest.mark.slow
def test_the_asynchronous_sdk_trusts_the_server_by_what_is_exported(bare: Server) -> None:
    program = """
import asyncio, os
from azure.identity.aio import ClientSecretCredential
from azure.mgmt.compute.aio import ComputeManagementClient
url = os.environ["FAIRWARNING_ARM_URL"]
async def main():
    credential = ClientSecretCredential("adfs", "dev", "any-secret", authority=url)
    where = dict(base_url=url, credential_scopes=[f"{url}/.default"])
    subscription = "00000000-0000-0000-0000-000000000001"
    async with credential, ComputeManagementClient(credential, subscription, **where) as client:
        print(*[one.name async for one in client.virtual_machine_scale_sets.list_all()])
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables(bare), capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "web\n", done.stderr


@pytest.mark.parametrize("option", ["--identity", "--arm-names"])
def test_contradicting_options_are_a_usage_error(option: str) -> None:
    assert call("up", "--no-arm", option).code == 2


def test_exec_azure_needs_a_certificate_for_the_names_of_azure(bare: Server) -> None:
    done = bare.command("exec", "--azure", "--", "true")

    assert done.code == 1
    assert done.stderr == (
        "error: the certificate of the management API is not valid for management.azure.com\n"
        "hint: start the server with --arm-names\n"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        pytest.param([], "name a machine with --vm, or use --azure", id="neither machine nor names"),
        pytest.param(["--azure", "--isolate"], "--isolate needs --vm", id="names in another network"),
    ],
)
def test_exec_is_told_what_to_give_a_program(words: list[str], problem: str) -> None:
    done = call("exec", *words, "--", "true")

    assert done.code == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("words", "status"),
    [
        pytest.param(["--identity"], 200, id="where machines have identities"),
        pytest.param([], 400, id="where they have none"),
    ],
)
def test_a_machine_is_given_a_token_of_its_identity(tmp_path: Path, words: list[str], status: int) -> None:
    with up(tmp_path, "--vm", "db", *words) as server, httpx2.Client(trust_env=False) as client:
        url = f"{server.ready['metadata']['db']}/metadata/identity/oauth2/token"
        query = {"api-version": "2018-02-01", "resource": server.ready["arm"]}
        reply = client.get(url, params=query, headers={"Metadata": "true"})
        nothing = client.get(url, params={"api-version": "2018-02-01"}, headers={"Metadata": "true"})
        early = client.get(url, params={**query, "api-version": "2017-03-01"}, headers={"Metadata": "true"})

    assert reply.status_code == status
    assert (nothing.status_code, early.status_code) == (400, 400)
    assert (json.loads(reply.content).get("token_type") == "Bearer") == (status == 200)
