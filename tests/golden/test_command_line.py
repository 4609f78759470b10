"""Golden files of the command line: commands and options, output, exit codes."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fairwarning.cli import cli
from fairwarning.cli.up import ready_document
from tests.cli.server import NOWHERE, Done, call, until, up
from tests.fixtures.release import FIRST
from tests.golden.comparison import Golden, pretty
from tests.running import Running

HELD, HOLDING = FIRST.contents.held, FIRST.contents.holding

RESTART = "8A08A939-56B1-F297-F2E8-1FF50EF5E4F2"

#: Commands that read, run with and without --json.
LOOKING = ("vms", "events", "history", f"history {HELD}", "clock show", "doctor")

#: Commands that change something, in this order, and invalid ones.
ACTING = (
    "cause restart web/web_0",
    "cause freeze --host host-app-2-0 --notice 30s --json",
    "cause hardware-failure db --kind Reboot",
    "cause restart spot",
    "cause delete solo --force --json",
    "cause restart nobody",
    "cause restart web_0",
    "cause evict db",
    "cause restart",
    "cause sneeze db",
    f"approve {HOLDING.lower()}",
    f"approve {HELD} --json",
    "approve C7061BAC",
    f"cancel {RESTART} --json",
    f"cancel {HOLDING}",
    "cancel",
    "rollout host-update --scope web --notice 1m",
    "rollout host-update --scope web",
    "rollout --scope web --stop",
    "rollout host-reboot --scope lab/web --json",
    "rollout --scope nowhere",
    "fault db 429 --for 30s",
    "fault db slow --delay 3s --json",
    "fault db none",
    "fault db sneeze",
    "fault nobody 429",
    "history C7061BAC",
    "clock advance 10s",
    "clock next --json",
    "clock speed 60",
    "clock advance soon",
    "events",
    "history",
)


def test_every_command_and_every_option(golden: Golden) -> None:
    golden("cli/commands", {"commands": "\n".join(described(cli, "fairwarning"))})


def described(command: click.Command, name: str) -> Iterator[str]:
    """Yield a line per command and parameter, without help texts, whose wording may change."""
    yield name
    with click.Context(command, info_name=name) as context:
        for parameter in command.params:
            spelled = ", ".join((*parameter.opts, *parameter.secondary_opts))
            facts = [parameter.type.name, *sorted(traits(parameter))]
            yield f"  {parameter.param_type_name} {spelled}: {', '.join(facts)}"
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield from described(found, f"{name} {inner}")


def traits(parameter: click.Parameter) -> Iterator[str]:
    if parameter.required:
        yield "required"
    if parameter.multiple or parameter.nargs == -1:
        yield "repeated"
    if isinstance(parameter, click.Option) and parameter.is_flag:
        yield "flag"
    if isinstance(parameter.type, click.Choice):
        yield f"one of {' '.join(map(str, parameter.type.choices))}"
    if parameter.default and isinstance(parameter.default, str | int | float):
        yield f"default {parameter.default}"


def test_what_commands_that_read_print(server: Running, golden: Golden) -> None:
    texts = {line: output(line, server.command(*line.split())) for line in LOOKING}
    texts |= {
        f"{line} --json": output(f"{line} --json", server.command(*line.split(), "--json"))
        for line in LOOKING
    }
    texts["ready file"] = pretty(ready_document(server.service))

    golden("cli/looking", {name.replace(HELD, "EVENT"): text for name, text in texts.items()})


def test_what_commands_that_change_something_print(server: Running, golden: Golden) -> None:
    texts = [output(line, server.command(*line.split())) for line in ACTING]

    golden(
        "cli/acting",
        {
            f"{number:02} {line.split()[0]}": text
            for number, (line, text) in enumerate(zip(ACTING, texts, strict=True), 1)
        },
    )


def test_what_serve_says_about_a_file(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    monkeypatch.setenv("FAIRWARNING_NODE__NAME", "node-a")
    lines = ("serve --check examples/fleet.toml", "serve --check examples/fleet.toml --json", "serve --help")

    golden("cli/serve", {line.replace("/", " "): output(line, call(*line.split())) for line in lines})


@pytest.mark.parametrize("line", ["vms", "doctor --json"])
def test_what_commands_print_without_a_server(line: str, golden: Golden) -> None:
    texts = output(line, call(*line.split(), url=NOWHERE))

    golden(f"cli/{line.partition(' ')[0]} without a server", {"said": texts})


def test_what_up_prints_as_it_goes_on(data: Path, tmp_path: Path, golden: Golden) -> None:
    with up(
        tmp_path, "--data", str(data), "--clock", "manual", "--vm", "db", "--log-level", "warning"
    ) as server:
        until(lambda: server.printed().count(" is still pending (") == 15, "all pending events are printed")
        server.tell("clock", "advance", "10s")
        until(lambda: "app-1 has started" in server.printed(), "the change is printed")
        assert server.stop() == 0

    golden("cli/up", {"stdout": server.printed(), "stderr": server.complained()})


def test_the_list_of_scenarios(golden: Golden) -> None:
    golden("cli/check", {"list": output("check --list", call("check", "--list"))})


def output(line: str, done: Done) -> str:
    """Return a command as text: the command line, the exit code, both outputs."""
    parts = [f"$ fairwarning {line}", f"exit code {done.code}"]
    parts += [
        f"--- {name}\n{text.rstrip()}"
        for name, text in (("stdout", done.stdout), ("stderr", done.stderr))
        if text
    ]
    return "\n".join(parts)
