"""Unmodified tools do what their pages say, from the first command to the last."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.pages import Page
from tests.tools.session import HERE, follow, programs
from tools.environments import CACHE, environment

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# The first run on a machine installs the tools.
pytestmark = [pytest.mark.az, pytest.mark.timeout(600), pytest.mark.needs("curl")]


def modules() -> Path:
    """Return the folder with the packages from npm, which are installed once per set of versions."""
    wanted = HERE / "package.json"
    home = CACHE / f"node-{hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]}"
    if not (home / "complete").exists():
        home.mkdir(parents=True, exist_ok=True)
        shutil.copy(wanted, home)
        words = ["npm", "install", "--silent", "--no-package-lock", "--ignore-scripts"]
        path = os.pathsep.join((str(programs("node")), os.environ["PATH"]))
        # Unlike pip, npm does not trust the certificates of this machine by itself.
        trust = {"NODE_EXTRA_CA_CERTS": CERTIFICATES} | os.environ
        subprocess.run(words, cwd=home, env={**trust, "PATH": path}, check=True)
        (home / "complete").touch()
    return home / "node_modules"


@pytest.mark.runs("docs/guides/tools/README.md")
def test_curl(tmp_path: Path) -> None:
    session = follow(Page("docs/guides/tools/README.md"), tmp_path, tmp_path)

    assert session.output("curl").startswith('{"name":"fairwarning"')


@pytest.mark.runs("docs/guides/tools/libcloud.md")
def test_libcloud(tmp_path: Path) -> None:
    session = follow(Page("docs/guides/tools/libcloud.md"), tmp_path, programs("libcloud"))

    lists = [text.splitlines() for command, text in session.printed if command.endswith("list")]
    assert set(lists[0]) == {f"{name} running" for name in ("app-0", "app-1", "app-2", "batch", "db")}
    assert {line.split()[0] for line in lists[1]} == {"app-0", "app-1", "app-2", "db"}
    assert session.steps("scheduled") == [("Reboot", "management:dev", ["db"])]
    assert "batch" not in session.machines


@pytest.mark.runs("docs/guides/tools/javascript.md")
def test_the_sdk_for_javascript(tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(modules())

    session = follow(Page("docs/guides/tools/javascript.md"), tmp_path, programs("node"))

    assert "db westeurope" in session.output("mjs list")
    assert session.steps("scheduled") == [("Terminate", "management:dev", ["web_0"])]
    assert "web_0" not in session.machines
    assert session.output("node sets.mjs") == "web"


@pytest.mark.runs("docs/guides/tools/ansible.md")
def test_ansible(tmp_path: Path) -> None:
    session = follow(Page("docs/guides/tools/ansible.md"), tmp_path, programs("ansible"))

    first, second = (text for command, text in session.printed if command.endswith("fleet.yml"))
    assert "ok=4    changed=4 " in first
    assert "ok=4    changed=0 " in second
    assert "failed=1" not in "".join(text for _, text in session.printed)
    assert session.steps("scheduled") == [
        ("Terminate", "management:dev", ["cart_0"]),
        ("Reboot", "management:dev", ["till"]),
        ("Terminate", "management:dev", ["cart_1"]),
    ]
    assert not {"cart_0", "cart_1", "till"} & set(session.machines)


@pytest.mark.runs("docs/guides/tools/az.md")
def test_a_script_that_logs_az_in(tmp_path: Path) -> None:
    programs = environment(HERE.parent / "az" / "clients.txt")

    session = follow(Page("docs/guides/tools/az.md"), tmp_path, programs)

    assert session.steps("scheduled") == [("Reboot", "management:dev", ["db"])]
    assert session.steps("finished") == [("Reboot", "platform", ["db"])]
    assert not (tmp_path / ".azure").exists()
