"""The guide and the examples are correct."""

import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairwarning.agent.settings import parse_settings
from tests.agent.processes import guest
from tests.agent.scripted import Answer, endpoint
from tests.cli.server import free_port, until, up
from tests.pages import ROOT, Page

PAGE = Page("docs/guides/agent.md")
GUIDE = PAGE.text
FILES = PAGE.code("toml")

SHOWN = (
    b'{"DocumentIncarnation":1,"Events":[{"EventId":"A","EventStatus":"Scheduled","EventType":"Reboot",'
    b'"Resources":["web_0"],"NotBefore":""}]}'
)
OVER = b'{"DocumentIncarnation":2,"Events":[]}'


@pytest.mark.parametrize("text", FILES)
def test_every_file_of_the_guide_is_understood(text: str) -> None:
    parse_settings(tomllib.loads(text))


def test_the_guide_names_every_setting() -> None:
    source = (ROOT / "src" / "fairwarning" / "agent" / "settings.py").read_text()
    lists = re.findall(r"^_(?:AGENT|RULE)_KEYS = \((.*?)^\)", source, re.MULTILINE | re.DOTALL)
    names = {name for words in lists for name in re.findall(r'"(\w+)"', words)}

    assert len(names) > 15
    assert {name for name in names if f"`{name}`" not in GUIDE} == set()


@pytest.mark.slow
@pytest.mark.needs("curl")
@pytest.mark.runs("docs/guides/agent.md")
def test_the_commands_of_the_guide_say_why_nothing_is_approved(tmp_path: Path, stack: ExitStack) -> None:
    port = str(free_port())
    server = stack.enter_context(up(tmp_path, "--vm", "db", "--start-enabled", "--no-arm"))
    settings = f'listen = "127.0.0.1:{port}"\ncheck = ["false"]'
    db = guest(server, tmp_path, "db", stack, extra=settings)
    db.run()
    server.cause("restart", "db")
    until(lambda: "approval_held" in db.log_text(), "the approval is held")
    outputs = []

    for command in PAGE.commands():
        with command.running() as text:
            here = re.sub(r"^fairwarning-agent (\w+)", lambda words: shlex.join(db.words(words[1])), text)
            here = here.replace("9169", port).replace("curl", "curl --silent --noproxy '*'")
            done = subprocess.run(here, shell=True, capture_output=True, text=True, check=True, timeout=30)
            outputs.append(done.stdout)

    status, explanation, ready, metrics = outputs
    assert "Reboot" in status
    assert "the check says hold" in explanation
    assert ready == "drained\n"
    assert 'fairwarning_agent_prepares_total{result="' in metrics


def test_the_unit_names_what_the_guide_installs() -> None:
    unit = (ROOT / "packaging" / "fairwarning-agent.service").read_text()

    assert "ExecStart=/usr/local/bin/fairwarning-agent run\n" in unit
    assert "install -m 755 dist/fairwarning-agent.pyz /usr/local/bin/fairwarning-agent\n" in GUIDE
    assert {"Type=notify", "WatchdogSec=60", "StateDirectory=fairwarning-agent"} <= set(unit.splitlines())


def test_the_example_of_an_embedded_client_runs() -> None:
    name = Answer(200, b"web_0")
    with endpoint(
        Answer(200, SHOWN), name, Answer(200, b""), Answer(200, SHOWN), Answer(200, OVER)
    ) as script:
        words = [sys.executable, "-W", "error", str(ROOT / "examples" / "embed.py"), script.url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            lines = [program.stdout.readline() for _ in range(2)]
            program.kill()

    assert lines == ["Reboot: draining, None left\n", "Reboot: over, back to work\n"]
    assert [request.method for request in script.asked][:3] == ["GET", "GET", "POST"]
