"""The Debian packages are installed, run, upgraded and purged in a minimal Debian 12 under a real systemd."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import Command, Page
from tests.real.namespaces import ENDPOINT, Namespace, alone
from tests.real.server import up
from tests.release.artefacts import ROOT
from tests.release.nspawn import Machine, booted
from tools.roots import bare_root, kept_root

GUIDE = Page("docs/guides/debian-packages.md")
SETTINGS = "/etc/fairwarning/server.toml"
DATA = "/var/lib/fairwarning"

pytestmark = [
    pytest.mark.full,
    pytest.mark.needs("root", "ip", "mmdebstrap", "nsenter", "strip", "systemd-nspawn", "unshare"),
]


@pytest.fixture(scope="module")
def debian() -> Iterator[Path]:
    with kept_root("python3", "systemd-sysv") as root:
        yield root


@pytest.fixture
def network() -> Iterator[Namespace]:
    with alone() as namespace:
        yield namespace


@pytest.fixture
def machine(debian: Path, tmp_path: Path, network: Namespace) -> Iterator[Machine]:
    with booted(debian, tmp_path, network) as running:
        yield running


def run(machine: Machine, command: Command) -> str:
    """Type a command of the guide."""
    with command.running() as text:
        return machine.run(text)


def configure_server(machine: Machine) -> None:
    """Let the server know one machine: the one that it runs on."""
    machine.write(SETTINGS, GUIDE.files()["server.toml"].replace("10.0.1.4", ENDPOINT))


def operate(machine: Machine, command: str) -> str:
    """Run a command with the operator's token."""
    return machine.run(f"FAIRWARNING_TOKEN_FILE=/etc/fairwarning/operator.token fairwarning {command}")


def start_server(machine: Machine, package: Path) -> None:
    """Install a server, and follow the guide until it serves a machine."""
    machine.install(package)
    for command in GUIDE.commands("operator.token$"):
        machine.run(command.text)
    configure_server(machine)
    machine.run("systemctl restart fairwarning")


def configure_agent(machine: Machine) -> None:
    """Give the agent hooks that leave a trace."""
    machine.write("/etc/fairwarning/agent.toml", GUIDE.files()["agent.toml"])
    for name in ("drain", "undrain"):
        machine.write(f"/usr/local/bin/{name}", f"#!/bin/sh\nlogger -t hook {name}\n", mode=0o755)


def hooks(machine: Machine) -> list[str]:
    return machine.run("journalctl --no-pager -o cat -t hook").split()


def with_version(package: Path, version: str, folder: Path) -> Path:
    """Return the same package with another version."""
    name, _, architecture = package.name.split("_")
    content, target = folder / "content", folder / f"{name}_{version}_{architecture}"
    subprocess.run(["dpkg-deb", "--raw-extract", package, content], check=True)
    control = content / "DEBIAN" / "control"
    control.write_text(
        re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(), flags=re.MULTILINE)
    )
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", content, target], check=True)
    shutil.rmtree(content)
    return target


@pytest.mark.runs("docs/guides/debian-packages.md", "fairwarning-agent")
def test_a_newcomer_has_an_agent_that_drains_and_approves(
    machine: Machine, network: Namespace, agent_deb: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install, *start = GUIDE.commands("fairwarning-agent")
    with up(network, tmp_path, ("--vm", "web_0"), {"web_0": ENDPOINT}) as simulation:
        began = time.monotonic()
        machine.download(agent_deb)
        run(machine, install)
        assert machine.property("fairwarning-agent", "ActiveState") == "inactive", "the owner starts it"
        configure_agent(machine)
        for command in start:
            run(machine, command)
        machine.wait(
            lambda: "web_0 is at work" in machine.property("fairwarning-agent", "StatusText"), "named"
        )
        simulation.tell("cause", "restart", "web_0")
        machine.wait(lambda: "approved" in simulation.kinds("web_0"), "the agent approves")
        seconds = time.monotonic() - began
        assert hooks(machine) == ["drain"]
        simulation.tell("clock", "advance", "1m")
        machine.wait(lambda: hooks(machine) == ["drain", "undrain"], "the machine is back at work")

    with capsys.disabled():
        sys.stdout.write(f"\nfrom the package of the agent to its first approval: {seconds:.1f} s\n")


@pytest.mark.runs(
    "docs/guides/debian-packages.md",
    "apt-get install ./fairwarning_",
    "fairwarning nodes",
    "operator.token",
    "--check",
    "restart fairwarning$",
)
def test_the_server_serves_a_machine_of_its_own(machine: Machine, server_deb: Path, agent_deb: Path) -> None:
    install, nodes, *token, check, restart, vms, upgrade = GUIDE.commands(
        "apt-get install ./fairwarning_",
        "fairwarning nodes",
        "operator.token",
        "--check",
        "restart fairwarning$",
    )
    machine.download(server_deb)
    run(machine, install)
    assert "http://127.0.0.1:8080" in run(machine, nodes)
    for command in token:
        run(machine, command)
    configure_server(machine)
    assert "1 machine" in run(machine, check)
    run(machine, restart)
    assert "web-a" in run(machine, vms)

    machine.install(agent_deb)
    configure_agent(machine)
    machine.run("systemctl enable --now fairwarning-agent")
    machine.wait(lambda: "web-a is at work" in machine.property("fairwarning-agent", "StatusText"), "named")
    operate(machine, "cause restart web-a")
    machine.wait(lambda: "Started" in operate(machine, "events"), "the agent approves, the event starts")
    (event,) = json.loads(operate(machine, "events --json"))
    operate(machine, f"complete {event['id']}")
    machine.wait(lambda: hooks(machine) == ["drain", "undrain"], "the machine is back at work")

    run(machine, upgrade)
    machine.run("systemctl reload fairwarning fairwarning-agent")
    history = json.loads(operate(machine, "history --json"))
    kinds = [entry["kind"] for entry in history]
    assert kinds == ["scheduled", "approved", "started", "progressed", "finished"]


def test_an_installed_server_does_nothing_yet(machine: Machine, server_deb: Path) -> None:
    machine.install(server_deb)

    sockets = (machine.root / "proc/1/net/tcp").read_text().splitlines()[1:]
    assert machine.property("fairwarning", "ActiveState") == "active"
    assert [line.split()[1] for line in sockets if line.split()[3] == "0A"] == ["0100007F:1F90"]
    assert len(machine.run("fairwarning vms").splitlines()) == 1, "the heading of an empty table"
    assert machine.run(f"stat -c '%U %a' {DATA}") == "fairwarning 700\n"


def test_the_services_have_few_privileges(machine: Machine, server_deb: Path, agent_deb: Path) -> None:
    machine.install(server_deb)
    machine.install(agent_deb)
    machine.run("systemctl start fairwarning-agent")

    units = "fairwarning.service fairwarning-agent.service"
    assert machine.run(f"systemd-analyze verify --man=no {units}") == ""
    machine.run("systemd-analyze security --threshold=14 fairwarning.service")
    machine.run("systemd-analyze security --threshold=25 fairwarning-agent.service")
    for unit, capabilities in (("fairwarning", 1 << 10), ("fairwarning-agent", 0x2424)):
        status = machine.status(unit)
        assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), unit
        assert int(status["CapBnd"], 16) == capabilities, unit
    user = machine.run("id -u fairwarning").strip()
    assert machine.status("fairwarning")["Uid"].split() == [user] * 4


@pytest.mark.parametrize("unit", ["fairwarning", "fairwarning-agent"])
def test_a_service_that_hangs_is_restarted(
    machine: Machine, server_deb: Path, agent_deb: Path, unit: str
) -> None:
    machine.install(server_deb if unit == "fairwarning" else agent_deb)
    machine.run(f"mkdir -p /etc/systemd/system/{unit}.service.d")
    machine.write(f"/etc/systemd/system/{unit}.service.d/test.conf", "[Service]\nWatchdogSec=3\n")
    machine.run(f"systemctl daemon-reload && systemctl restart {unit}")
    hanging = machine.property(unit, "MainPID")

    machine.run(f"kill -STOP {hanging}")

    machine.wait(lambda: machine.property(unit, "NRestarts") == "1", "systemd restarts the service")
    machine.wait(lambda: machine.property(unit, "ActiveState") == "active", "the service is back")
    assert "Watchdog timeout" in machine.journal(unit)
    assert machine.property(unit, "MainPID") != hanging


def test_a_killed_server_comes_back_with_its_history(machine: Machine, server_deb: Path) -> None:
    start_server(machine, server_deb)
    operate(machine, "cause restart web-a")
    history = operate(machine, "history")

    machine.run("systemctl kill --signal=KILL --kill-who=main fairwarning")

    machine.wait(lambda: machine.property("fairwarning", "NRestarts") == "1", "systemd restarts the server")
    machine.wait(lambda: machine.property("fairwarning", "ActiveState") == "active", "the server is back")
    assert operate(machine, "history") == history
    assert "web-a" in history


def test_an_upgrade_keeps_settings_and_history(machine: Machine, server_deb: Path, tmp_path: Path) -> None:
    start_server(machine, with_version(server_deb, "0.0.1", tmp_path))
    operate(machine, "cause restart web-a")
    history, process = operate(machine, "history"), machine.property("fairwarning", "MainPID")
    settings = machine.run(f"cat {SETTINGS}")

    machine.install(server_deb)

    assert machine.run("dpkg-query -W -f '${Version}' fairwarning") in server_deb.name
    assert machine.run(f"cat {SETTINGS}") == settings
    assert machine.property("fairwarning", "ActiveState") == "active"
    assert machine.property("fairwarning", "MainPID") != process
    assert operate(machine, "history") == history


def test_an_upgrade_restarts_an_agent_that_runs_and_keeps_its_settings(
    machine: Machine, agent_deb: Path, tmp_path: Path
) -> None:
    machine.install(with_version(agent_deb, "0.0.1", tmp_path))
    configure_agent(machine)
    machine.run("systemctl enable --now fairwarning-agent")
    process = machine.property("fairwarning-agent", "MainPID")

    machine.install(agent_deb)

    assert machine.run("dpkg-query -W -f '${Version}' fairwarning-agent") in agent_deb.name
    assert machine.run("cat /etc/fairwarning/agent.toml") == GUIDE.files()["agent.toml"]
    assert machine.property("fairwarning-agent", "ActiveState") == "active"
    assert machine.property("fairwarning-agent", "MainPID") != process


@pytest.mark.runs("docs/guides/debian-packages.md", "apt-get (remove|purge)")
def test_purge_leaves_the_data_and_says_so(machine: Machine, server_deb: Path, agent_deb: Path) -> None:
    remove, purge = GUIDE.commands("apt-get (remove|purge)")
    start_server(machine, server_deb)
    operate(machine, "demo")
    machine.install(agent_deb)

    run(machine, remove)
    assert machine.property("fairwarning", "ActiveState") == "inactive"
    assert (machine.root / SETTINGS.lstrip("/")).exists()
    said = run(machine, purge)
    machine.run("apt-get purge --yes fairwarning-agent; rm /root/*.deb")

    assert f"the data in {DATA} and the user fairwarning are kept" in said
    left = machine.run("find / -xdev -name '*fairwarning*' -not -path '/proc/*' -not -path '/sys/*'").split()
    assert [path for path in left if not path.startswith(DATA)] == ["/etc/fairwarning"]
    assert machine.run("ls /etc/fairwarning") == "operator.token\n"
    assert f"{DATA}/fairwarning.db" in left


@pytest.mark.runs(
    "docs/guides/debian-packages.md", "postgres", "create(user|db)", "migrate", r"restart \S+\.service"
)
def test_the_server_runs_on_postgresql_also_with_workers(
    tmp_path: Path, network: Namespace, server_deb: Path
) -> None:
    *database, migrate, restart = GUIDE.commands(
        "postgres", "create(user|db)", "migrate", r"restart \S+\.service"
    )
    with (
        kept_root("postgresql", "python3", "systemd-sysv") as debian,
        booted(debian, tmp_path, network) as machine,
    ):
        machine.install(server_deb)
        for command in database:
            run(machine, command)
        (store,) = [text for text in GUIDE.code("toml") if "dsn" in text]
        settings = machine.run(f"cat {SETTINGS}")
        machine.write(SETTINGS, re.sub(r"\[store\]\n(.+\n)+", store, settings))
        run(machine, migrate)
        run(machine, restart)
        assert len(machine.run("fairwarning nodes").splitlines()) == 2, "the heading and one node"

        machine.run("mkdir /etc/systemd/system/fairwarning.service.d")
        serve = f"/usr/bin/fairwarning serve --config {SETTINGS} --workers 2"
        override = f"[Service]\nExecStart=\nExecStart={serve}\n"
        machine.write("/etc/systemd/system/fairwarning.service.d/workers.conf", override)
        machine.run("systemctl daemon-reload && systemctl restart fairwarning")
        machine.wait(lambda: len(machine.run("fairwarning nodes").splitlines()) == 3, "two workers")


def test_the_command_of_the_package_checks_a_handler_where_no_systemd_runs(server_deb: Path) -> None:
    with bare_root("python3", "systemd-standalone-sysusers") as root:
        shutil.copyfile(server_deb, root.path / "root" / server_deb.name)
        shutil.copyfile(ROOT / "examples" / "safe_handler.py", root.home / "safe_handler.py")
        install = root.command("apt-get", "install", f"/root/{server_deb.name}", user=0)
        subprocess.run(install, check=True, stdin=subprocess.DEVNULL)

        check = root.command("fairwarning", "check", "drain-fails", "--", "python3", "safe_handler.py")
        done = subprocess.run(check, stdin=subprocess.DEVNULL, capture_output=True, text=True)

        assert done.returncode == 0, done.stderr
        assert done.stderr.endswith("1 scenario: 1 safe\n")
