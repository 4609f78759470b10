"""Wheel and sdist install and work for an ordinary user of a Debian 12 with python3 and venv alone."""

import json
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fairwarning
from tests.cli.server import free_port, until
from tests.plugin.projects import guide_files
from tests.release.newcomer import Newcomer
from tools.roots import bare_root

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("root", "mmdebstrap", "unshare"),
    pytest.mark.timeout(600),  # a busy machine may take minutes to make a root
]

#: Looks in two minutes; a busy machine takes longer than an idle one.
PATIENCE = 2400

#: Tests of other files build more archives into the same folder.
SDIST = f"fairwarning-{fairwarning.__version__}.tar.gz"

INSTALL = "python3 -m venv venv && venv/bin/pip install --quiet ./fairwarning-*.whl"

POLL = """\
import json, sys, urllib.request
url = sys.argv[1] + "/metadata/scheduledevents?api-version=2020-07-01"
body = json.dumps({"StartRequests": [{"EventId": sys.argv[2]}]}).encode() if sys.argv[2:] else None
print(urllib.request.urlopen(urllib.request.Request(url, body, {"Metadata": "true"})).read().decode())
"""


@contextmanager
def arrival(dist: Path) -> Iterator[Newcomer]:
    """Give a newcomer a machine, the files to install, and a program that polls."""
    with bare_root("python3", "python3-venv") as root:
        person = Newcomer(root)
        person.receive(*dist.glob("*.whl"), dist / SDIST)
        (root.home / "poll.py").write_text(POLL)
        yield person


@pytest.fixture
def newcomer(dist: Path) -> Iterator[Newcomer]:
    with arrival(dist) as person:
        yield person


@pytest.mark.story
def test_from_the_wheel_to_the_first_warning_and_its_approval(
    newcomer: Newcomer, capsys: pytest.CaptureFixture[str]
) -> None:
    base = free_port(500)
    url = f"FAIRWARNING_URL=http://127.0.0.1:{base}"
    began = time.monotonic()

    newcomer.types(INSTALL)
    installed = time.monotonic()
    with newcomer.leaves_running(f"venv/bin/fairwarning up --port-base {base}", "up.log") as screen:
        poll = f"python3 poll.py http://127.0.0.1:{base + 1}"
        until(lambda: "Ctrl-C" in screen.read_text(), "the server is ready", PATIENCE)
        before = json.loads(newcomer.types(poll))
        newcomer.types(f"{url} venv/bin/fairwarning cause restart web_0")
        (event,) = json.loads(newcomer.types(poll))["Events"]
        warned = time.monotonic()
        newcomer.types(f"{poll} {event['EventId']}")
        until(lambda: "approved" in screen.read_text(), "the approval is on the screen", PATIENCE)
        history = newcomer.types(f"{url} venv/bin/fairwarning history --json")

    assert before == {"DocumentIncarnation": 1, "Events": []}
    assert (event["EventType"], event["Resources"]) == ("Reboot", ["web_0"])
    assert '"approved"' in history
    with capsys.disabled():
        seconds = f"{warned - began:.1f} s, of which {installed - began:.1f} s to install"
        sys.stdout.write(f"\nfrom the wheel to the first warning: {seconds}\n")


@pytest.fixture(scope="module")
def installed(dist: Path) -> Iterator[Newcomer]:
    """A newcomer with the wheel installed and the sources of the sdist beside it."""
    with arrival(dist) as person:
        person.types(INSTALL)
        person.types(f"mkdir source && tar -xzf {SDIST} -C source --strip 1")
        yield person


def test_the_installed_program_and_pip_name_the_version_of_the_package(installed: Newcomer) -> None:
    said = installed.types("venv/bin/fairwarning --version; venv/bin/pip show fairwarning | grep ^Version")

    assert said == f"fairwarning {fairwarning.__version__}\nVersion: {fairwarning.__version__}\n"


def test_check_judges_the_example_handler(installed: Newcomer) -> None:
    said = installed.types(
        "venv/bin/fairwarning check drain-fails -- python3 source/examples/safe_handler.py"
    )

    assert "safe" in said


def test_the_demo_runs_to_its_end(installed: Newcomer) -> None:
    assert "approved" in installed.types("venv/bin/fairwarning demo")


def test_the_pytest_plugin_works_in_a_project_of_its_own(installed: Newcomer) -> None:
    project = installed.root.home / "project"
    project.mkdir()
    for name, text in guide_files().items():
        (project / name).write_text(text)
    installed.own()

    installed.types("venv/bin/pip install --quiet pytest")
    said = installed.types("cd project && ../venv/bin/python -m pytest -q test_drainer.py")

    assert "5 passed" in said


def test_the_sdist_installs_the_same_package(installed: Newcomer, dist: Path) -> None:
    with tarfile.open(dist / SDIST) as archive:
        names = {name.partition("/src/")[2] for name in archive.getnames() if "/src/fairwarning/" in name}

    installed.types("python3 -m venv other && other/bin/pip install --quiet ./fairwarning-*.tar.gz")
    same = "diff -rq -x __pycache__ venv/lib/python3.11/site-packages/fairwarning"
    installed.types(f"{same} other/lib/python3.11/site-packages/fairwarning")

    assert "fairwarning/__init__.py" in names
    assert fairwarning.__version__ in installed.types("other/bin/fairwarning --version")
