"""The scripts of ``.ci``: what is retried, what is named flaky, and that every test has a part."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

#: Plays ``./dev test``: fails as often as the file "failures" says, and remembers what failed as pytest does.
DEV = """#!/bin/sh
echo "$*" >>calls
left=$(cat failures)
[ "$left" -gt 0 ] || exit 0
echo $((left - 1)) >failures
mkdir -p .cache/stories/v/cache
echo '{"tests/a/test_b.py::test_c[d e]": true}' >.cache/stories/v/cache/lastfailed
exit "$(cat code)"
"""

GATE = """
set -Eeuo pipefail
. .ci/lib
stories 1m -m story
echo everything holds
tell_flaky
"""


def gate(folder: Path, failures: int, code: int = 1) -> subprocess.CompletedProcess[str]:
    """Run a gate whose stories fail some times, with this exit code."""
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "lib", folder / ".ci")
    (folder / "dev").write_text(DEV)
    (folder / "dev").chmod(0o755)
    (folder / "failures").write_text(str(failures))
    (folder / "code").write_text(str(code))
    return subprocess.run(
        ["bash", "-c", GATE], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


def test_stories_that_pass_are_run_once(tmp_path: Path) -> None:
    done = gate(tmp_path, 0)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("everything holds\n")
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_a_story_that_passes_when_it_is_tried_again_alone_is_named_flaky(tmp_path: Path) -> None:
    done = gate(tmp_path, 1)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("everything holds\nflaky: tests/a/test_b.py::test_c[d e]\n")
    assert (tmp_path / "calls").read_text().splitlines()[1].endswith(" tests/a/test_b.py::test_c[d e]")


def test_a_story_that_fails_twice_stops_the_gate(tmp_path: Path) -> None:
    done = gate(tmp_path, 2)

    assert done.returncode != 0
    assert "everything holds" not in done.stdout
    assert len((tmp_path / "calls").read_text().splitlines()) == 2


def test_a_run_with_another_defect_than_failed_stories_is_not_tried_again(tmp_path: Path) -> None:
    done = gate(tmp_path, 1, code=pytest.ExitCode.INTERNAL_ERROR)

    assert done.returncode == pytest.ExitCode.INTERNAL_ERROR
    assert "everything holds" not in done.stdout
    assert len((tmp_path / "calls").read_text().splitlines()) == 1


def test_an_unknown_part_is_refused_with_the_list_of_parts() -> None:
    done = subprocess.run(
        ["bash", ".ci/full", "cluster", "moon"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert "  packages  " in done.stderr


@pytest.mark.parametrize("script", ["run", "full", "bare"])
def test_a_script_can_be_read_by_its_shell(script: str) -> None:
    subprocess.run(["bash", "-n", ROOT / ".ci" / script], check=True)


def test_every_folder_of_a_part_exists() -> None:
    named = {
        word.strip("()")
        for line in (ROOT / ".ci" / "full").read_text().splitlines()
        if "=(tests/" in line
        for word in line.partition("=")[2].split()
    }

    assert named
    assert [folder for folder in named if not (ROOT / folder).is_dir()] == []
