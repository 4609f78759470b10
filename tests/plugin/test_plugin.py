"""The plugin in other projects: registered with pytest, lazy, and safe with several workers."""

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
        pytest.param("scaleset=3", "unexpected keyword argument 'scaleset'", id="a misspelt keyword"),
    ],
)
def test_a_wrong_marker_is_refused(tmp_path: Path, marker: str, message: str) -> None:
    write(tmp_path, {"test_marked.py": MARKED.replace("scale_set=2", marker)})

    done = run(tmp_path)

    assert done.returncode == 1
    assert message in done.stdout


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


def test_the_plugin_can_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"test_plain.py": "def test_asks(fairwarning): ..."})

    done = run(tmp_path, "-p", "no:fairwarning")

    assert "fixture 'fairwarning' not found" in done.stdout
