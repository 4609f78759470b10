"""The real az logs in, stays logged in, and does not touch the user's configuration."""

import re
from pathlib import Path

import pytest

from tests.arm.live import live
from tests.az.tool import Trap, login, reader
from tests.cli.server import free_port
from tests.docs.troubleshooting import assert_quoted

pytestmark = [pytest.mark.az, pytest.mark.timeout(600)]


def test_a_token_that_is_no_longer_good_is_exchanged_silently(
    tmp_path: Path, programs: Path, proxy: Trap
) -> None:
    with live(tmp_path, "--vm", "db") as cloud:
        az = login(cloud, tmp_path, programs, proxy)
        az.run("az group list")
        kept = Path(az.variables["AZURE_CONFIG_DIR"]) / "msal_token_cache.json"
        spoilt = re.sub(r'("secret": "[^"]*)......"', r'\1spoilt"', kept.read_text())
        kept.write_text(spoilt)

        az.run("az group list")

    assert kept.read_text() != spoilt
    assert not (tmp_path / ".azure").exists()


def test_another_server_at_the_same_address_needs_no_new_login(
    tmp_path: Path, programs: Path, proxy: Trap
) -> None:
    words = ("--vm", "db", "--arm", f"127.0.0.1:{free_port()}")
    with live(tmp_path, *words) as cloud:
        login(cloud, tmp_path, programs, proxy).run("az vm list")

    with live(tmp_path, *words) as other:
        az = reader(other, tmp_path, programs, proxy)
        listed = az.run("az vm list --query '[].name' --output tsv")

    assert listed == "db\n"


def test_a_machine_logs_in_with_its_own_identity(tmp_path: Path, programs: Path, proxy: Trap) -> None:
    with live(tmp_path, "--vm", "db", "--identity") as cloud:
        az = login(cloud, tmp_path, programs, proxy)
        az.run("az account clear")

        az.run(f"AZURE_POD_IDENTITY_AUTHORITY_HOST={cloud.guest('db').url} az login --identity")
        user = az.run("az account show --query user.type --output tsv")

    assert user == "servicePrincipal\n"


def test_az_without_the_certificate_of_the_server_says_so(
    tmp_path: Path, programs: Path, proxy: Trap
) -> None:
    with live(tmp_path, "--vm", "db") as cloud:
        az = login(cloud, tmp_path, programs, proxy)
        refused = az.attempt("env -u REQUESTS_CA_BUNDLE -u SSL_CERT_FILE az group list")

    assert refused.returncode != 0
    assert_quoted("az does not trust the server", refused.stderr)
