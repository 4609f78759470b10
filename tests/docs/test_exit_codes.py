"""The page of exit codes says what the code, the help and the commands themselves say."""

import errno
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from fairwarning.agent import main as agent
from fairwarning.cli import MODULES, check, cli
from fairwarning.sandbox.errors import NotStartedError
from tests.cli.server import NOWHERE
from tests.pages import ROOT, Page

PAGE = Page("docs/reference/exit-codes.md")

#: The modules that end a process with a code of their own. Who adds one must look at the page.
ENDING = {
    "__main__.py",
    "agent/main.py",
    "check/hook.py",
    "check/sandbox_child.py",
    "cli/check.py",
    "cli/exec.py",
    "sandbox/supervise.py",
    "supervisor/assignment.py",
}


def tables() -> dict[str, dict[int, str]]:
    """Return the codes and their meanings by section."""
    _, *parts = re.split(r"^## (.+)\n", PAGE.text, flags=re.MULTILINE)
    return {
        heading: {
            int(code): text for code, text in re.findall(r"^\| (\d+) \| (.*) \|$", section, re.MULTILINE)
        }
        for heading, section in zip(parts[::2], parts[1::2], strict=True)
    }


def helped(command: click.Command) -> dict[int, str]:
    """Return the codes in the help of a command."""
    text = (command.help or "").partition("Exit codes")[2]
    return {int(code): meaning for code, meaning in re.findall(r"^ +(\d+)  (.*)$", text, re.MULTILINE)}


def errors() -> Iterator[type[click.ClickException]]:
    """Yield the errors that end commands."""
    for module in sorted(set(MODULES.values()) | {"output", "options", "client", "lookup"}):
        for value in vars(import_module(f"fairwarning.cli.{module}")).values():
            if isinstance(value, type) and issubclass(value, click.ClickException):
                yield value


@pytest.mark.parametrize("name", ["check", "exec"])
def test_the_page_repeats_the_help_of_a_command(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)

    assert command is not None
    assert tables()[name] == helped(command)


def test_only_commands_with_a_section_have_codes_of_their_own() -> None:
    commands = {name: cli.get_command(click.Context(cli), name) for name in MODULES}

    assert {name for name, command in commands.items() if command and helped(command)} <= set(tables())


def test_the_codes_of_all_commands_are_those_of_the_help() -> None:
    page = tables()["All commands"]

    assert list(page) == list(helped(cli))
    assert [page[code].startswith(meaning) for code, meaning in helped(cli).items()] == [True] * len(page)


def test_the_codes_of_the_agent_are_those_of_its_module() -> None:
    text = (agent.__doc__ or "").partition("Exit codes: ")[2].strip().rstrip(".")

    assert ", ".join(f"{code} {meaning}" for code, meaning in tables()["agent"].items()) == text


def test_the_verdicts_of_check_have_the_codes_of_the_page() -> None:
    codes = (check.SAFE, check.UNSAFE, check.CannotCheckError.exit_code, check.SLOW, check.NOT_STARTED)

    assert tuple(tables()["check"]) == codes


def test_every_error_of_a_command_has_a_code_of_the_page() -> None:
    assert {error.exit_code for error in errors()} == {1, 2, 3}
    assert {1, 2, 3} <= set(tables()["All commands"])


def test_a_program_that_does_not_start_has_the_codes_of_a_shell() -> None:
    codes = {NotStartedError("x", number).exit_code for number in (errno.ENOENT, errno.EACCES)}

    assert codes == set(tables()["exec"])


def test_no_other_module_ends_the_process() -> None:
    source = ROOT / "src" / "fairwarning"
    ends = re.compile(r"\b(?:sys\.exit|os\._exit|ctx\.exit|SystemExit)\(")
    ending = {str(path.relative_to(source)) for path in source.rglob("*.py") if ends.search(path.read_text())}

    assert ending == ENDING


@pytest.mark.parametrize(
    ("words", "code"),
    [
        pytest.param(["--version"], 0, id="the version"),
        pytest.param(["no-such-command"], 2, id="an unknown command"),
        pytest.param(["vms", "--no-such-option"], 2, id="an unknown option"),
        pytest.param(["vms"], 3, id="no server"),
        pytest.param(["exec", "--vm", "web_0", "--", "true"], 3, id="exec without a server"),
        pytest.param(["db", "check", "--data", "/no/such/directory"], 1, id="db check without a database"),
        pytest.param(["record", "--endpoint", NOWHERE, "-o", "{folder}/r.jsonl"], 1, id="record of nothing"),
        pytest.param(["serve", "--check", "{folder}/invalid.toml"], 2, id="serve with an invalid file"),
        pytest.param(["check", "--", "/no/such/program"], 2, id="check without a handler"),
        pytest.param(["agent", "explain", "--endpoint", NOWHERE, "--state", "{folder}"], 3, id="no endpoint"),
        pytest.param(["agent", "check", "--config", "{folder}/invalid.toml"], 1, id="invalid settings"),
        pytest.param(["agent", "no-such-command"], 2, id="an unknown command of the agent"),
    ],
)
def test_commands_end_with_the_codes_of_the_page(words: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "invalid.toml").write_text("unknown = 1\n")
    arguments = [word.format(folder=tmp_path) for word in words]

    done = CliRunner(env={"FAIRWARNING_URL": NOWHERE}).invoke(cli, arguments)

    assert done.exit_code == code, done.output
    assert code in tables()["All commands"]
