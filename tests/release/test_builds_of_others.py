"""The action for GitHub and the jobs for GitLab run as their runners would run them.

The very shell steps of both files are run by bash, against a real server and with real handlers. What neither
forge has run is the rest of the files: the artefacts, the image and the steps that use other actions.
"""

import json
import os
import re
import signal
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen
from xml.etree import ElementTree

import pytest

from fairwarning.core.document.render import Json
from tests.check.sandboxed import skip_without_sandbox
from tests.pages import Page
from tests.release.yaml_documents import Member, items, member, read_yaml
from tools.release import ROOT

# The first run builds and installs the package.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CI = ROOT / "packaging" / "ci"
GUIDE = Page("docs/guides/continuous-integration.md")
SAFE, UNSAFE = "python3 examples/safe_handler.py", "python3 examples/unsafe_handler.py"
QUICK = "drain-fails"
#: The rule of the scenario that the unsafe handler breaks.
RULE = "approves-only-after-drain (C-06)"

#: The conditions of the action's steps; another condition would be a KeyError.
CONDITIONS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "": lambda inputs: True,
    "${{ inputs.server == 'true' }}": lambda inputs: inputs["server"] == "true",
    "${{ inputs.handler != '' }}": lambda inputs: inputs["handler"] != "",
}


def clean() -> dict[str, str]:
    """Return the environment of a job on a machine without fairwarning."""
    return {name: value for name, value in os.environ.items() if not name.startswith("FAIRWARNING")}


def bash(
    script: str, variables: Mapping[str, str], *options: str, folder: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a script; its background processes do not keep the output open."""
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            ["bash", *options, "-c", script],
            cwd=folder,
            env=variables,
            stdout=output,
            stderr=output,
            timeout=300,
        )
        output.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, output.read(), "")


def end(environment: Mapping[str, str]) -> None:
    """End the server that a job has started, as a runner does at the end of the job."""
    if number := environment.get("FAIRWARNING_PID"):
        os.kill(int(number), signal.SIGTERM)


def verdicts(file: Path) -> dict[str, bool]:
    """Return for each rule in a JUnit file whether the handler kept it."""
    cases = ElementTree.parse(file).iter("testcase")
    return {str(case.get("name")): case.find("failure") is None for case in cases}


def machines(url: str) -> set[str]:
    with urlopen(f"{url}/fleet/v1/machines", timeout=20) as answer:
        return {str(machine["name"]) for machine in json.load(answer)["machines"]}


@dataclass
class Runner:
    """Runs the steps of the action as GitHub does: a bash each, and files that carry over to the next."""

    temp: Path
    variables: dict[str, str] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    outputs: dict[str, str] = field(default_factory=dict)
    log: str = ""

    def run(self, step: Member, inputs: Mapping[str, str]) -> int:
        """Run a step and return its exit code."""
        if not CONDITIONS[str(step.get("if", ""))](inputs):
            return 0
        assert step["shell"] == "bash"
        files = {name: self.temp / name for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_PATH")}
        for file in files.values():
            file.write_text("")
        base = clean()
        environment = {
            **base,
            **self.variables,
            **{name: str(file) for name, file in files.items()},
            "PATH": os.pathsep.join((*self.path, base["PATH"])),
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTION_PATH": str(ROOT),
            **{name: self.value(str(value), inputs) for name, value in _object(step.get("env", {})).items()},
        }
        done = bash(str(step["run"]), environment, "--noprofile", "--norc", "-eo", "pipefail")
        self.log += done.stdout
        self.variables |= assignments(files["GITHUB_ENV"])
        self.outputs |= {
            f"{step.get('id')}.{name}": text for name, text in assignments(files["GITHUB_OUTPUT"]).items()
        }
        self.path += files["GITHUB_PATH"].read_text().split()
        return done.returncode

    def value(self, text: str, inputs: Mapping[str, str]) -> str:
        """Return a text of the action with its expressions replaced."""
        known = {f"inputs.{name}": value for name, value in inputs.items()}
        known |= {"runner.temp": str(self.temp)}
        known |= {f"steps.{step}.outputs.{name}": value for (step, name), value in self._outputs().items()}
        return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda expression: known.get(expression[1], ""), text)

    def _outputs(self) -> dict[tuple[str, str], str]:
        return {
            (step, name): text for key, text in self.outputs.items() for step, _, name in [key.partition(".")]
        }


def assignments(file: Path) -> dict[str, str]:
    """Return the lines NAME=VALUE of a file of GitHub's."""
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def _object(value: Json) -> Member:
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def action() -> Member:
    (document,) = read_yaml((ROOT / "action.yml").read_text())
    return document


@pytest.fixture(scope="module")
def installed(action: Member, tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner whose first step, the installation, is done."""
    runner = Runner(tmp_path_factory.mktemp("runner"))
    install, *_ = items(action, "runs", "steps")
    assert runner.run(install, {}) == 0, runner.log
    return runner


@dataclass
class Job:
    """A use of the action: its inputs, the codes of its steps, and what later steps see."""

    action: Member
    runner: Runner
    codes: list[int] = field(default_factory=list)

    def use(self, **given: str) -> None:
        """Run the steps after the installation, up to the first that fails."""
        inputs = {
            name: str(member(value, "default")) for name, value in _object(self.action["inputs"]).items()
        }
        assert set(given) <= set(inputs)
        _, *steps = items(self.action, "runs", "steps")
        for step in steps:
            if "run" in step and not any(self.codes):
                self.codes.append(self.runner.run(step, {**inputs, **given}))

    def output(self, name: str) -> str:
        """Return an output of the action."""
        return self.runner.value(str(member(self.action, "outputs", name, "value")), {})


@pytest.fixture
def job(action: Member, installed: Runner, tmp_path: Path) -> Iterator[Job]:
    (tmp_path / "fairwarning").symlink_to(installed.temp / "fairwarning")
    runner = Runner(tmp_path, path=list(installed.path))
    yield Job(action, runner)
    end(runner.variables)


def test_the_action_starts_a_server_and_says_where(job: Job) -> None:
    job.use(up="--port-base 0 --no-arm --scale-set 'web=2' --vm db")

    assert job.codes == [0, 0], job.runner.log
    assert machines(job.output("url")) == {"web_0", "web_1", "db"}
    endpoints: dict[str, str] = json.loads(job.output("endpoints"))
    assert set(endpoints) == {"web_0", "web_1", "db"}
    assert job.output("endpoint") == endpoints["web_0"]
    assert job.runner.variables["FAIRWARNING_URL"] == job.output("url")


def test_later_steps_cause_events_and_poll(job: Job) -> None:
    job.use(up="--port-base 0 --no-arm --start-enabled")
    step: Member = {"shell": "bash", "run": 'fairwarning cause restart web_0 && python3 -c "$POLL"'}
    poll = (
        "import os, urllib.request as u; r = u.Request(os.environ['FAIRWARNING_ENDPOINT'] + PATH, headers=H)"
    )
    path = '"/metadata/scheduledevents?api-version=2020-07-01"'
    code = f"PATH, H = {path}, {{'Metadata': 'true'}}; {poll}; print(u.urlopen(r).read().decode())"

    assert job.runner.run({**step, "env": {"POLL": code}}, {}) == 0, job.runner.log

    assert '"EventType":"Reboot"' in job.runner.log


def test_a_server_that_cannot_start_fails_the_step_and_shows_why(job: Job) -> None:
    job.use(up="--no-such-option")

    assert job.codes == [1]
    assert "no such option" in job.runner.log.lower()


def test_a_safe_handler_passes_and_its_verdicts_are_kept(job: Job, tmp_path: Path) -> None:
    job.use(server="false", handler=SAFE, check=QUICK, junit=str(tmp_path / "verdicts.xml"))
    skip_without_sandbox(job.runner.log)

    assert job.codes == [0, 0], job.runner.log
    assert verdicts(Path(job.output("junit")))[RULE]
    assert job.output("url") == ""


def test_an_unsafe_handler_fails_the_step_beside_a_server_and_its_verdicts_are_kept(
    job: Job, tmp_path: Path
) -> None:
    job.use(up="--port-base 0 --no-arm", handler=UNSAFE, check=QUICK, junit=str(tmp_path / "verdicts.xml"))
    skip_without_sandbox(job.runner.log)

    assert job.codes == [0, 1]
    assert "although the drain of web_0 failed" in job.runner.log
    assert not verdicts(Path(job.output("junit")))[RULE]


def test_the_verdicts_are_kept_whatever_they_are(action: Member) -> None:
    *_, keep = items(action, "runs", "steps")

    assert keep["if"] == "${{ always() && inputs.handler != '' }}"
    assert str(keep["uses"]).startswith("actions/upload-artifact@")
    assert member(keep, "with", "path") == "${{ inputs.junit }}"


def test_no_input_is_part_of_a_script(action: Member) -> None:
    # A value that is pasted into a script could run commands of its own.
    assert [step["name"] for step in items(action, "runs", "steps") if "${{" in str(step.get("run"))] == []


@pytest.fixture(scope="module")
def gitlab() -> Member:
    (document,) = read_yaml((CI / "gitlab.yml").read_text())
    return document


def lines(value: Json) -> list[str]:
    """Return the commands of a script, whose lists may be nested."""
    if isinstance(value, list):
        return [line for each in value for line in lines(each)]
    return [str(value)]


def gitlab_job(gitlab: Member, name: str, folder: Path, **given: str) -> tuple[str, dict[str, str]]:
    """Return the script and the environment of a job that extends another; the runner joins both scripts."""
    parent, child = _object(gitlab[".fairwarning"]), _object(gitlab[name])
    assert child["extends"] == ".fairwarning"
    variables = {**_object(parent["variables"]), **_object(child["variables"]), **given}
    script = "\n".join((*lines(child["before_script"]), *lines(child.get("script", []))))
    environment = {**clean(), **{name: str(value) for name, value in variables.items()}}
    return script.replace("/tmp/fairwarning", str(folder / "home")), environment


def test_a_job_of_gitlab_gets_a_server(gitlab: Member, tmp_path: Path) -> None:
    up = "--port-base 0 --no-arm --vm db"
    script, variables = gitlab_job(
        gitlab,
        ".fairwarning-server",
        tmp_path,
        FAIRWARNING_PACKAGE=str(ROOT),
        FAIRWARNING_FILES=str(tmp_path),
        FAIRWARNING_UP=up,
    )
    own = 'fairwarning vms; echo "endpoint $FAIRWARNING_ENDPOINT"'

    done = bash(f"trap 'kill $FAIRWARNING_PID' EXIT\n{script}\n{own}", variables, "-eo", "pipefail")

    assert done.returncode == 0, done.stdout
    assert re.search(r"^db ", done.stdout, re.MULTILINE)
    assert re.search(r"^endpoint http://127\.0\.0\.1:\d+$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("handler", "code"), [pytest.param(SAFE, 0, id="a safe one"), pytest.param(UNSAFE, 1, id="an unsafe one")]
)
def test_a_job_of_gitlab_checks_a_handler(
    handler: str, code: int, gitlab: Member, installed: Runner, tmp_path: Path
) -> None:
    script, variables = gitlab_job(
        gitlab,
        ".fairwarning-check",
        tmp_path,
        FAIRWARNING_HANDLER=handler,
        FAIRWARNING_CHECK=QUICK,
        FAIRWARNING_JUNIT=str(tmp_path / "verdicts.xml"),
    )
    # The installation is that of the action.
    script = script.partition("# Checks the handler")[2].partition("\n")[2]
    path = os.pathsep.join((*installed.path, variables["PATH"]))

    done = bash(script, {**variables, "PATH": path}, "-eo", "pipefail")
    skip_without_sandbox(done.stdout)

    assert done.returncode == code, done.stdout
    assert verdicts(tmp_path / "verdicts.xml")[RULE] is (code == 0)


def test_both_forges_run_the_same_scripts(action: Member, gitlab: Member) -> None:
    server, check = gitlab[".fairwarning-server"], gitlab[".fairwarning-check"]
    steps = [str(step.get("run")) for step in items(action, "runs", "steps")]

    assert lines(member(server, "before_script"))[-1] == (CI / "start.sh").read_text()
    assert lines(member(check, "script")) == [(CI / "check.sh").read_text()]
    assert [
        name for name in ("start.sh", "check.sh") if not any(f"packaging/ci/{name}" in step for step in steps)
    ] == []


def test_gitlab_keeps_the_verdicts_whatever_they_are(gitlab: Member) -> None:
    check = gitlab[".fairwarning-check"]

    assert member(check, "artifacts", "when") == "always"
    assert member(check, "artifacts", "paths") == ["$FAIRWARNING_JUNIT"]
    assert member(check, "artifacts", "reports", "junit") == "$FAIRWARNING_JUNIT"


def test_the_workflow_of_the_guide_has_inputs_of_the_action(action: Member) -> None:
    (workflow,) = read_yaml(GUIDE.files()["handler.yml"])

    steps = [step for name in _object(workflow["jobs"]) for step in items(workflow, "jobs", name, "steps")]
    uses = [step for step in steps if str(step.get("uses")).startswith("OWNER/fairwarning@")]
    assert len(uses) == 2
    assert {name for step in uses for name in _object(step["with"])} <= set(_object(action["inputs"]))


def test_the_tables_of_the_guide_are_those_of_the_action(action: Member) -> None:
    inputs, outputs = (
        re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) for table in GUIDE.text.split("| output |")[:2]
    )

    assert inputs == list(_object(action["inputs"]))
    assert outputs == list(_object(action["outputs"]))


def test_the_jobs_of_the_guide_extend_those_of_the_file(gitlab: Member) -> None:
    (jobs,) = read_yaml(GUIDE.files()[".gitlab-ci.yml"])

    for name in ("handler", "integration"):
        parent = _object(gitlab[str(member(jobs, name, "extends"))])
        assert set(_object(member(jobs, name, "variables"))) <= set(_object(parent["variables"]))
    assert set(_object(jobs["variables"])) <= set(_object(member(gitlab, ".fairwarning", "variables")))


@pytest.mark.needs("curl")
@pytest.mark.runs("docs/guides/continuous-integration.md")
def test_the_commands_of_the_guide_run(tmp_path: Path) -> None:
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    (tmp_path / "packaging").symlink_to(ROOT / "packaging")
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    with ExitStack() as stack:
        commands = [stack.enter_context(command.running()) for command in GUIDE.commands()]
        script = "\n".join(["set -x", "trap 'kill $FAIRWARNING_PID 2>/dev/null || true' EXIT", *commands])
        done = bash(script, {**clean(), "PATH": path}, "-e", folder=tmp_path)
        skip_without_sandbox(done.stdout)
        assert done.returncode == 0, done.stdout

    assert '"EventType":"Reboot"' in done.stdout
    assert verdicts(tmp_path / "handler.xml")[RULE]
