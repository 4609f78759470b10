"""What the Debian packages contain; the settings that they install do no harm."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fairwarning.agent.rules import Consent, choose
from fairwarning.agent.settings import load as load_agent
from fairwarning.config.serve_settings import load as load_server
from fairwarning.core.model import EventType
from tests.agent.events import seen
from tests.release.artefacts import ROOT, build
from tools.release import ReleaseError
from tools.release.assembly import build_alone
from tools.release.debian import debian_version

DEBIAN = ROOT / "packaging" / "debian"
LINTIAN = ["lintian", "--allow-root", "--fail-on=error,warning", "--tag-display-limit=0"]


@pytest.mark.parametrize("kind", [*EventType, "Relocate"])
def test_the_agent_that_is_installed_approves_nothing(kind: str) -> None:
    policy = load_agent(DEBIAN / "agent.toml").policy

    rules = [choose(seen(kind=kind, duration=duration), policy.rules, 9) for duration in (-1, 0, 5, 60)]

    assert {rule.approve for rule in rules} == {Consent.NEVER}


def test_the_server_that_is_installed_listens_on_loopback_for_operators_and_has_no_machines() -> None:
    settings = load_server(DEBIAN / "server.toml", {}).settings

    assert settings.operator == ("127.0.0.1", 8080)
    assert (settings.arm, settings.listen, settings.data) == (None, (), Path("/var/lib/fairwarning"))
    assert settings.serve is not None
    assert settings.serve.inventory == ()


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("1.0.0", "1.0.0", id="a release"),
        pytest.param("1.0.0rc1", "1.0.0~rc1", id="a candidate precedes its release"),
        pytest.param("1.0.0.dev0", "1.0.0~dev0", id="so does the work on it"),
    ],
)
def test_versions_are_ordered_as_debian_orders_them(version: str, expected: str) -> None:
    assert debian_version(version) == expected


def test_the_package_of_the_server_is_not_built_on_another_architecture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    with pytest.raises(ReleaseError, match=r"this machine lacks\n  Python 3\.11 on Debian 12, amd64"):
        build_alone(tmp_path / "dist", ["wheel", "server-deb"])

    assert not (tmp_path / "dist").exists()


@pytest.mark.slow
@pytest.mark.needs("dpkg-deb", "lintian")
def test_the_package_of_the_agent_contains_the_agent_alone_and_pleases_lintian(agent_deb: Path) -> None:

    listing = subprocess.check_output(["dpkg-deb", "--contents", agent_deb], text=True)
    fields = subprocess.check_output(["dpkg-deb", "--field", agent_deb], text=True)
    lintian = subprocess.run([*LINTIAN, agent_deb], stdout=subprocess.PIPE, text=True)

    files = [line.split()[5] for line in listing.splitlines() if not line.startswith("d")]
    assert files == [
        "./etc/fairwarning/agent.toml",
        "./usr/bin/fairwarning-agent",
        "./usr/lib/fairwarning-agent/fairwarning-agent.pyz",
        "./usr/lib/systemd/system/fairwarning-agent.service",
        "./usr/share/doc/fairwarning-agent/changelog.Debian.gz",
        "./usr/share/doc/fairwarning-agent/changelog.gz",
        "./usr/share/doc/fairwarning-agent/copyright",
        "./usr/share/lintian/overrides/fairwarning-agent",
        "./usr/share/man/man8/fairwarning-agent.8.gz",
    ]
    assert "\nDepends: python3 (>= 3.11)\n" in fields
    assert (lintian.returncode, lintian.stdout) == (0, "")


@pytest.mark.full
@pytest.mark.needs("dpkg-deb", "lintian", "strip")
def test_the_package_of_the_server_pleases_lintian_and_is_built_again_with_the_same_bytes(
    dist: Path, server_deb: Path, tmp_path: Path
) -> None:
    for path in dist.glob("fairwarning-0*"):
        shutil.copyfile(path, tmp_path / path.name)

    build(tmp_path, "server-deb")
    lintian = subprocess.run([*LINTIAN, server_deb], stdout=subprocess.PIPE, text=True)

    assert (tmp_path / server_deb.name).read_bytes() == server_deb.read_bytes()
    assert (lintian.returncode, lintian.stdout) == (0, "")
