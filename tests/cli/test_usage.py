"""Help, usage errors, and errors of the environment."""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fairwarning.cli import cli
from fairwarning.cli.client import OperatorClient
from fairwarning.cli.output import UnreachableError
from tests.agent.scripted import Answer, endpoint
from tests.cli.server import call, run


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield every command of a group, by the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


ALL = [pytest.param(path, id=" ".join(path)) for path in commands(cli)]


@pytest.mark.parametrize("path", ALL)
def test_the_help_of_every_command_has_an_example(path: tuple[str, ...]) -> None:
    done = call(*path, "--help")

    assert done.code == 0
    assert f"Example:\n    fairwarning {' '.join(path)}" in done.stdout


def options_with_one_value(path: tuple[str, ...]) -> Iterator[str]:
    """Yield the options of a command that take one value."""
    command: click.Command | None = cli
    for name in path:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option) and not (option.multiple or option.is_flag):
            yield option.opts[-1]


@pytest.mark.parametrize(
    ("path", "option"),
    [
        pytest.param(path, option, id=f"{' '.join(path)} {option}")
        for path in commands(cli)
        for option in options_with_one_value(path)
    ],
)
def test_an_option_with_one_value_is_refused_if_it_is_given_twice(
    path: tuple[str, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where a server that starts nevertheless writes its data

    done = call(*path, option, "1", option, "2")

    assert done.code == 2
    assert f"Error: {option} is given twice, and takes one value\n" in done.stderr


def test_options_of_the_program_that_exec_runs_are_its_own() -> None:
    done = call("exec", "--vm", "web_0", "--", "true", "--vm", "1", "--vm", "2")

    assert done.code == 3, done.stderr


def test_the_help_lists_the_exit_codes() -> None:
    done = call("--help")

    assert "0  success\n    1  refused or failed\n    2  usage error\n" in done.stdout
    assert "3  no server answers" in done.stdout


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        pytest.param(
            ["--help"],
            {"httpx2", "msgspec", "sqlite3", "starlette", "uvicorn"},
            id="help on everything needs no heavy library",
        ),
        pytest.param(
            ["vms", "--help"],
            {"asyncio", "fairwarning.cli.check", "fairwarning.cli.up"},
            id="a command needs nothing that is there for others",
        ),
    ],
)
def test_unneeded_modules_are_not_imported(words: list[str], unneeded: set[str]) -> None:
    code = (
        f"import sys; from fairwarning.cli import cli; cli({words}, standalone_mode=False); "
        f"sys.exit(bool({unneeded} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)

    assert done.returncode == 0


@pytest.mark.parametrize(
    ("url", "reads"),
    [
        pytest.param("https://127.0.0.1:1", True, id="TLS needs them"),
        pytest.param("http://127.0.0.1:1", False, id="they would be read for nothing"),
    ],
)
def test_the_authorities_of_the_machine_are_read_only_for_tls(
    url: str, reads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda self, *paths: read.append(paths))

    with pytest.raises(UnreachableError):
        OperatorClient(url).check_health()

    assert bool(read) is reads


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["up", "--scale-set", "web"], "(expected e.g. web=3)", id="a set without a count"),
        pytest.param(
            ["up", "--scale-set", "web=many"], "(expected e.g. web=3)", id="a count that is no number"
        ),
        pytest.param(
            ["up", "--operator", "here"], "(expected e.g. 127.0.0.1:8080)", id="an address without a port"
        ),
        pytest.param(
            ["up", "--listen", "0.0.0.0:70000"], "(expected e.g. 127.0.0.1:8080)", id="a port that cannot be"
        ),
        pytest.param(
            ["up", "--address", "web_0"], "(expected e.g. web_0=10.0.0.4)", id="an address of nothing"
        ),
        pytest.param(["up", "--zones", "1,,2"], "(expected e.g. 1,2,3)", id="an empty zone"),
        pytest.param(
            ["up", "--terminate-notice", "soon"],
            "invalid duration 'soon' (expected e.g. 30s, 15m, 1h30m)",
            id="a notice that is no duration",
        ),
        pytest.param(
            ["up", "--clock", "manual", "--speed", "9"], "--speed needs the real clock", id="two clocks"
        ),
        *(
            pytest.param(
                [*command, speed], "(expected e.g. 60; 0.01 to 100000)", id=f"{command[0]} at speed {speed}"
            )
            for command in (["up", "--speed"], ["clock", "speed"])
            for speed in ("0", "nan", "inf", "1e-12", "1e6", "fast")
        ),
        pytest.param(
            ["up", "--address", "web_0=here"], "(expected e.g. web_0=10.0.0.4)", id="an address that is none"
        ),
        pytest.param(
            ["up", "--address", "web_0=10.0.0.4"],
            "--address needs a shared listener: add --listen",
            id="an address without a listener",
        ),
        pytest.param(
            ["up", "--listen", "127.0.0.1:0", "--address", "a=10.0.0.4", "--address", "a=10.0.0.5"],
            "--address gives a machine two addresses",
            id="a machine with two addresses",
        ),
        *(
            pytest.param(
                ["up", "--vm", "a", *again],
                "a is the name of two sets or machines; give them different names",
                id=f"a name that {again[0]} gives again",
            )
            for again in (["--vm", "A"], ["--spot-vm", "a"], ["--scale-set", "a=2"])
        ),
        pytest.param(
            ["up", "--first-call-delay", "30s"],
            "--first-call-delay needs --first-call delay",
            id="a delay of no first call",
        ),
        pytest.param(
            ["up", "--first-call", "delay", "--first-call-delay", "121s"],
            "must be at most 120s",
            id="a delay too long",
        ),
        pytest.param(["up", "--profile", "aws"], "'aws'", id="a profile that does not exist"),
        pytest.param(
            ["cause", "freeze", "--host", "a", "--host", "a"], "a host is named twice", id="a host twice"
        ),
        pytest.param(
            ["cause", "restart"], "name a machine, or a host with --host", id="a cause without a machine"
        ),
        pytest.param(["cause", "explode", "web_0"], "'explode'", id="a cause that does not exist"),
        pytest.param(
            ["cause", "freeze", "web_0", "--notice", "1x"],
            "'--notice': invalid duration '1x'",
            id="a notice in no unit",
        ),
        pytest.param(["rollout", "restart", "--scope", "web"], "'restart'", id="a rollout of no maintenance"),
        pytest.param(["clock", "advance", "-5m"], "-5", id="time that goes back"),
        pytest.param(["approve"], "EVENT", id="an approval of nothing"),
        pytest.param(["approve", ""], "e.g. C7061BAC-", id="an approval of an empty word"),
        pytest.param(["cancel", "a/b"], "'a/b'", id="an event that is a path"),
        pytest.param(["history", ".."], "'..'", id="the history of a path"),
    ],
)
def test_a_usage_error_ends_with_2_and_a_reason(words: list[str], complaint: str) -> None:
    done = call(*words)

    assert done.code == 2
    assert complaint in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["vms"], id="vms"),
        pytest.param(["events", "--watch"], id="events --watch"),
        pytest.param(["history", "--json"], id="history --json"),
        pytest.param(["cause", "restart", "web_0"], id="cause"),
        pytest.param(["clock", "show"], id="clock show"),
        pytest.param(["rollout", "--scope", "web"], id="rollout"),
    ],
)
def test_without_a_server_a_command_ends_with_3_and_a_hint(words: list[str]) -> None:
    done = call(*words)

    assert done.code == 3
    assert done.stdout == ""
    assert done.stderr.startswith("error: no server answers at http://127.0.0.1:1: ")
    assert "hint: start one with: fairwarning up\n" in done.stderr


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "127.0.0.1:8080",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://a b",
        "http://a..b:8080",
    ],
)
def test_an_invalid_url_of_the_server_ends_with_2(url: str) -> None:
    done = call("vms", url=url)

    assert done.code == 2
    expected = "(expected e.g. http://127.0.0.1:8080)"
    assert f"FAIRWARNING_URL is not a URL: {url.rstrip('/')!r} {expected}" in done.stderr


@pytest.mark.parametrize("token", ["schlüssel", "two\nlines"])
def test_a_token_that_cannot_be_sent_ends_with_2(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWARNING_TOKEN", token)

    done = call("vms")

    assert done.code == 2
    assert "FAIRWARNING_TOKEN is not a token: it must be printable ASCII characters" in done.stderr
    assert token not in done.stderr


@pytest.mark.parametrize("content", [b"", b"schl\xc3\xbcssel", b"\xff\xfe", b"two\nlines"])
def test_a_file_without_a_token_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)

    done = call("up", "--token-file", str(tmp_path / "token"))

    assert done.code == 2
    assert "Error: Invalid value for '--token-file': " in done.stderr
    assert "does not contain a token: it must be one line of printable ASCII characters\n" in done.stderr


def test_a_short_token_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fifteen letters\n")

    done = call("up", "--token-file", str(tmp_path / "token"))

    assert done.code == 2
    assert "Error: Invalid value for '--token-file': the token in " in done.stderr
    assert "has 15 characters; it needs at least 16\n" in done.stderr
    # The named file may be the wrong one: no command to paste overwrites it.
    assert "hint: create one with: openssl rand -hex 16 > token\n" in done.stderr
    assert f"> {tmp_path}" not in done.stderr
    assert "fifteen letters" not in done.stderr


def test_the_length_of_a_token_is_counted_in_the_singular_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("1")

    done = call("up", "--token-file", str(tmp_path / "token"))

    assert "has 1 character; it needs at least 16\n" in done.stderr


def test_the_package_can_be_run_as_a_module() -> None:
    done = run("--version")

    assert done.code == 0
    assert done.stdout.startswith("fairwarning ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["cuase"], "no such command 'cuase' (did you mean cause", id="a typing error"),
        pytest.param(
            ["cause", "reboot", "web_0"],
            "'reboot' is not a cause (did you mean restart?)",
            id="the word of the event for its cause",
        ),
        pytest.param(
            ["cause", "restrat", "web_0"],
            "'restrat' is not a cause (did you mean restart?)",
            id="a typing error in a cause",
        ),
        pytest.param(
            ["rollout", "reboot", "--scope", "web"],
            "'reboot' is not a cause (did you mean host-reboot?)",
            id="the word of the event for the cause of a rollout",
        ),
        pytest.param(
            ["cause", "earthquake", "web_0"], "'earthquake' is not one of restart, redeploy, ", id="no cause"
        ),
        pytest.param(["clock", "advnace"], "advance", id="a typing error in a group"),
        pytest.param(["frobnicate"], "no such command 'frobnicate'\n", id="nothing is close"),
    ],
)
def test_close_names_are_suggested_for_an_unknown_command(words: list[str], message: str) -> None:
    done = call(*words)

    assert done.code == 2
    assert message in done.stderr


@pytest.mark.parametrize("path", ALL)
def test_the_summary_of_a_command_is_not_cut(path: tuple[str, ...]) -> None:
    command: click.Command = cli
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found

    # 80 columns, less the names of the commands.
    assert not command.get_short_help_str(60).endswith("...")


#: Commands whose output is neither a table nor a report.
WITHOUT_JSON = {
    *("agent", "az-env", "az-login", "clock", "completion", "db", "demo", "exec", "host", "record"),
}


@pytest.mark.parametrize("path", ALL)
def test_every_command_that_prints_a_table_or_a_report_has_a_json_flag(path: tuple[str, ...]) -> None:
    done = call(*path, "--help")

    assert ("--json " in done.stdout) == (" ".join(path) not in WITHOUT_JSON)


def test_the_commands_are_printed_as_the_user_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWARNING_PROGRAM", "./dev")

    assert "hint: start one with: ./dev up\n" in run("vms").stderr


def test_usage_lines_can_be_pasted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRWARNING_PROGRAM", "./dev")

    error, usage = run("clock", "advance").stderr, run("vms", "--help").stdout

    assert error.startswith("Usage: ./dev clock advance [OPTIONS] BY\nTry './dev clock advance --help'")
    assert usage.startswith("Usage: ./dev vms [OPTIONS]\n")


@pytest.mark.parametrize(
    ("folder", "program"),
    [
        pytest.param(".", "./dev", id="in the checkout"),
        pytest.param("plain-1.0", "plain-1.0/dev", id="in another folder"),
        pytest.param("my work", "'my work/dev'", id="a path with a space"),
        pytest.param("it's", r"'it'\''s/dev'", id="a path with a quote"),
    ],
)
def test_the_script_of_the_checkout_says_how_it_was_called(tmp_path: Path, folder: str, program: str) -> None:
    root = Path(__file__).parents[2]
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FAIRWARNING_URL": "http://127.0.0.1:1"}
    copy = tmp_path / folder
    copy.mkdir(exist_ok=True)
    for name in ("dev", "pyproject.toml", "constraints.txt"):
        (copy / name).write_bytes((root / name).read_bytes())
    (copy / "dev").chmod(0o755)
    (copy / ".venv" / "bin").mkdir(parents=True)
    for name, script in (("python", "exit 0"), ("fairwarning", 'echo "$FAIRWARNING_PROGRAM $*"')):
        (copy / ".venv" / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (copy / ".venv" / "bin" / name).chmod(0o755)

    done = subprocess.run(
        [f"{folder}/dev", "cause", "restart"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout == f"{program} cause restart\n"


def test_a_password_in_the_url_is_refused_and_not_printed() -> None:
    done = call("vms", url="http://anna:sesame@127.0.0.1:1")

    assert done.code == 2
    assert "FAIRWARNING_URL must have no user name" in done.stderr
    assert "sesame" not in done.stderr


@pytest.mark.parametrize("token", ["sesame-0123456789 ", "\tsesame-0123456789"])
def test_blanks_around_the_token_are_ignored_and_it_is_never_printed(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRWARNING_TOKEN", token)

    done = call("vms")

    assert done.code == 3
    assert "no server answers" in done.stderr
    assert "sesame" not in done.stderr


@pytest.mark.parametrize("words", [("vms",), ("events",)])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(
            Answer(body=b"<html>", headers={"Content-Type": "text/html"}),
            "not an answer of fairwarning",
            id="HTML",
        ),
        pytest.param(
            Answer(body=b"[]", headers={"Content-Type": "application/json"}), "unexpected answer", id="a list"
        ),
    ],
)
def test_another_server_is_told_apart_with_and_without_json(
    words: tuple[str, ...], answer: Answer, message: str
) -> None:
    with endpoint(answer) as script:
        done = [call(*words, *json, url=script.url) for json in ((), ("--json",))]

    assert [one.code for one in done] == [1, 1]
    assert all(message in one.stderr for one in done)
