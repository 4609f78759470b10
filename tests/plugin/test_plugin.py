"""The plugin in other projects: registered with pytest, lazy, and safe with several workers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.projects import run, write

MARKED = """
import pytest

pytestmark = pytest.mark.fairwarning(scale_set=1, vm="db")

@pytest.mark.fairwarning(scale_set=2)
def test_the_closest_marker_wins(fairwarning):
    assert fairwarning.endpoint("web_1")
    assert fairwarning.endpoint("db")
"""

MANY = """
import pytest

@pytest.mark.parametrize("number", range(20))
@pytest.mark.fairwarning(scale_set=3)
def test_each_has_its_own(fairwarning, number):
    assert fairwarning.events() == ()
    event = fairwarning.restart("web_0")
    assert event.id in str(fairwarning.document("web_0"))
"""

FAILING = """
import pytest

@pytest.mark.fairwarning(scale_set=1)
def test_fails(fairwarning):
    fairwarning.assert_approved(fairwarning.restart("web_0"), by="web_0", within="0s")
"""


def after(statements: str) -> set[str]:
    """Return the modules that are loaded after these statements, in a new interpreter."""
    script = f"{statements}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True, check=True)
    return set(done.stdout.split())


def test_the_plugin_imports_nothing_until_a_test_uses_it() -> None:
    imported = after("import pytest, fairwarning_pytest") - after("import pytest")

    assert imported == {"fairwarning_pytest"}


def test_a_fleet_needs_no_library_but_the_standard_one() -> None:
    libraries = {"click", "cryptography", "httpx2", "jwt", "msgspec", "starlette", "uvicorn"}

    assert after("import fairwarning.testing").isdisjoint(libraries)


def test_a_fleet_needs_no_module_that_windows_lacks() -> None:
    lacking = dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios"))
    # asyncio is imported first: on Windows it does not need these modules.
    blocked = f"import asyncio, sys\nsys.modules.update({lacking})"

    assert "fairwarning.testing.fleets" in after(f"{blocked}\nimport fairwarning.testing")


def test_the_marker_is_registered_and_the_closest_one_wins(tmp_path: Path) -> None:
    write(tmp_path, {"test_marked.py": MARKED})

    done = run(tmp_path, "--strict-markers", "-p", "no:cacheprovider")

    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        pytest.param("3", "the fairwarning marker takes keywords", id="a positional argument"),
        pytest.param(
            "scaleset=3",
            "the fairwarning marker has no keyword scaleset (did you mean scale_set?); "
            "its keywords are scale_set, availability_set, vm, spot_vm, polled, throttled",
            id="a misspelt keyword",
        ),
        pytest.param("scale_set=-1", "the fairwarning marker: count: a set has between", id="a wrong value"),
    ],
)
def test_a_wrong_marker_is_refused(tmp_path: Path, marker: str, message: str) -> None:
    write(tmp_path, {"test_marked.py": MARKED.replace("scale_set=2", marker)})

    done = run(tmp_path)

    assert done.returncode == 1
    assert message in done.stdout
    assert "fairwarning_pytest.py" not in done.stdout


@pytest.mark.slow
def test_workers_do_not_disturb_each_other(tmp_path: Path) -> None:
    write(tmp_path, {"test_many.py": MANY})

    done = run(tmp_path, "-n", "2")

    assert "20 passed" in done.stdout, done.stdout


def test_a_failure_points_at_the_test(tmp_path: Path) -> None:
    write(tmp_path, {"test_failing.py": FAILING})

    done = run(tmp_path)

    assert done.returncode == 1
    assert "was not approved by web_0 within 0s; what happened:" in done.stdout
    assert "fleets.py" not in done.stdout


MISTAKES = """
import pytest

pytestmark = pytest.mark.fairwarning(scale_set=2)

def test_machine(fairwarning):
    fairwarning.restart("web_9")

def test_document(fairwarning):
    fairwarning.document("WEB_0")

def test_cause(fairwarning):
    fairwarning.cause("rebot", "web_0")

def test_time(fairwarning):
    fairwarning.advance("15 minutes")

def test_event(fairwarning):
    fairwarning.assert_not_approved("no event")

def test_new_set(fairwarning):
    fairwarning.scale_set("web", 2)
"""


def test_a_mistake_points_at_the_line_of_the_test(tmp_path: Path) -> None:
    write(tmp_path, {"test_mistakes.py": MISTAKES})

    done = run(tmp_path, "-p", "no:cacheprovider")

    assert "6 failed" in done.stdout
    assert "no machine named web_9 (did you mean web_0, web_1?)" in done.stdout
    assert "no machine named WEB_0 (did you mean web_0?)" in done.stdout
    assert "'rebot' is not a cause (did you mean host-reboot, restart?)" in done.stdout
    assert "by: invalid duration '15 minutes'" in done.stdout
    # The only frames are those of the tests.
    frames = {line.partition(":")[0] for line in done.stdout.splitlines() if re.search(r"\.py:\d+: ", line)}
    assert frames == {"test_mistakes.py"}, done.stdout


def test_a_mistake_points_at_the_line_of_the_test_without_pytest(tmp_path: Path) -> None:
    script = "from fairwarning.testing import fleet\nwith fleet(vm='db') as f:\n    f.restart('web_9')\n"

    done = subprocess.run([sys.executable, "-c", script], text=True, capture_output=True)

    assert "no machine named web_9" in done.stderr.splitlines()[-1]
    assert "control.py" not in done.stderr
    assert "engine" not in done.stderr


def test_the_plugin_can_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"test_plain.py": "def test_asks(fairwarning): ..."})

    done = run(tmp_path, "-p", "no:fairwarning")

    assert "fixture 'fairwarning' not found" in done.stdout
