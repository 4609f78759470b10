"""The workflows of the forge run the commands of developers.

``check.yml`` runs ``./dev check`` and ``./dev test`` for every change. ``release.yml`` runs
``./dev release``, and publishes what it built only for a tag.
"""

import re

import pytest

from fairwarning.core.document.render import Json
from tests.release.yaml_documents import Member, items, member, read_yaml
from tools.release import ROOT
from tools.release.installations import OLDEST
from tools.release.programs import PACKAGES

WORKFLOWS = ROOT / ".github" / "workflows"
FILE = WORKFLOWS / "release.yml"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workflow() -> Member:
    (document,) = read_yaml(FILE.read_text())
    return document


@pytest.fixture(scope="module")
def check() -> Member:
    (document,) = read_yaml((WORKFLOWS / "check.yml").read_text())
    return document


def jobs(workflow: Member) -> dict[str, Json]:
    found = member(workflow, "jobs")
    assert isinstance(found, dict)
    return found


def commands(job: Json) -> list[str]:
    return [str(step["run"]) for step in items(job, "steps") if "run" in step]


def test_one_command_builds_and_publishing_jobs_build_nothing(workflow: Member) -> None:
    *before, release = commands(jobs(workflow)["build"])
    publish = {name: commands(job) for name, job in jobs(workflow).items() if name != "build"}

    assert release == "./dev release"
    assert [command.split()[0] for command in before] == ["apt-get", "git"]
    words = {line.split()[0] for job in publish.values() for text in job for line in text.splitlines()}
    assert words == {"(cd", "gh", "mkdir", "mv"}
    assert "actions/checkout" not in str(publish)


def test_only_the_tag_of_a_release_publishes(workflow: Member) -> None:
    publish = [job for name, job in jobs(workflow).items() if name != "build"]

    pushed = {"tags": ["v[0-9]+.[0-9]+.[0-9]+"]}
    assert member(workflow, "on") == {"push": pushed, "workflow_dispatch": None}
    assert {member(job, "if") for job in publish} == {"github.event_name == 'push'"}


def test_each_job_has_the_least_permissions_and_no_secret(workflow: Member) -> None:
    permissions = {name: member(job, "permissions") for name, job in jobs(workflow).items()}

    assert member(workflow, "permissions") == {}
    assert permissions == {
        "build": {"contents": "read"},
        "publish-distributions": {"id-token": "write"},
        "publish-files": {"contents": "write"},
    }
    assert "secrets." not in FILE.read_text()
    assert member(items(jobs(workflow)["build"], "steps")[0], "with") == {"persist-credentials": False}


def test_every_change_is_checked_and_tested_with_the_commands_of_developers(check: Member) -> None:
    (job,) = jobs(check).values()

    assert commands(job) == ["./dev check", "./dev test"]
    assert member(check, "on") == {"push": {"branches": ["**"]}, "pull_request": None}


def test_changes_are_tested_on_the_oldest_python_and_on_the_newest_that_releases_are_tried_on(
    check: Member, workflow: Member
) -> None:
    (job,) = jobs(check).values()
    image = str(member(jobs(workflow)["build"], "container", "image"))
    newest = image.partition("python:")[2].partition("-")[0]

    assert member(job, "strategy", "matrix") == {"python": [f"3.{OLDEST}", newest]}
    assert member(items(job, "steps")[1], "with") == {"python-version": "${{ matrix.python }}"}


def test_a_change_can_read_the_repository_and_nothing_else(check: Member) -> None:
    (job,) = jobs(check).values()

    assert member(check, "permissions") == {}
    assert member(job, "permissions") == {"contents": "read"}
    assert member(items(job, "steps")[0], "with") == {"persist-credentials": False}
    assert "secrets." not in (WORKFLOWS / "check.yml").read_text()


@pytest.mark.parametrize(("file", "least"), [("check.yml", 2), ("release.yml", 5)])
def test_actions_are_pinned_by_their_full_version(file: str, least: int) -> None:
    actions = re.findall(r"uses: (.*)", (WORKFLOWS / file).read_text())

    assert len(actions) >= least
    assert [action for action in actions if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", action)] == []


def test_the_job_installs_every_debian_package_that_a_builder_asks_for(workflow: Member) -> None:
    # Every Debian has util-linux, and podman depends on conmon and crun.
    implied = {"util-linux", "conmon", "crun"}

    installed = commands(jobs(workflow)["build"])[0].split()

    assert sorted(set(PACKAGES.values()) - implied - set(installed)) == []
