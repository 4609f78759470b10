"""A newcomer's session is that of the README, in the Debian releases that the command line names."""

import re
import socket

import pytest

from tests.pages import Page
from tools.newcomer import RELEASES, SESSION, listening, main

README = Page("README.md")


def test_a_newcomer_types_what_the_readme_says() -> None:
    (poll,) = set(re.findall(r'curl .*"(http://127.0.0.1:8101/.*)"', README.text))
    up, activate, cause = README.commands(r"^\./dev up", "activate", "^fairwarning cause")

    order = [SESSION.index(text) for text in (up.text, activate.text, cause.text)]
    assert f'"{poll}"' in SESSION
    assert order == sorted(order)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param("buster", f"unknown release buster (known: {', '.join(RELEASES)})", id="a release"),
        pytest.param("bookworm sid buster", "unknown release buster, sid", id="some of the releases"),
        pytest.param("--demo", "unrecognized arguments: --demo", id="an option"),
    ],
)
def test_what_is_unknown_is_refused(words: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        main(words.split())

    assert refusal.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_port_that_another_program_uses_is_noticed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        during = listening([port])

    assert (during, listening([port])) == ([port], [])
