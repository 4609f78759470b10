"""The tutorial is true: its commands are typed in order, in a folder of its own, and print what it shows."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.check.sandboxed import skip_without_sandbox
from tests.cli.server import free_port, until
from tests.pages import Command, Page

ROOT = Path(__file__).parents[2]
PAGE = Page("docs/tutorial.md")
INSTALL = 600

#: Commands that run until Ctrl-C.
ENDLESS = ("fairwarning up", "python3 first.py")
UNSAFE = "fairwarning check cut-connections"

#: What differs from run to run: times.
_TIME = re.compile(r"\d+\.\d+ s\b")


def outputs() -> dict[Command, list[str]]:
    """Return the lines that the page shows after each command."""
    texts = re.findall(r"^\$ .*\n((?:(?!\$ ).*\n)*)", "".join(PAGE.code("console")), re.MULTILINE)
    return {command: text.splitlines() for command, text in zip(PAGE.commands(), texts, strict=True)}


def shown(line: str, output: str) -> bool:
    """Whether a line of the page is in an output; three dots stand for anything."""
    words = [".*".join(map(re.escape, word.split("…"))) for word in _TIME.sub("…", line).split()]
    return re.search(r"\s+".join(words), output) is not None


class Reader:
    """Somebody who follows the tutorial in two terminals."""

    def __init__(self, home: Path) -> None:
        base = free_port(444)
        self._ports = {"8101": str(base + 1)}
        self.folder = home
        self._options = f" --port-base {base}"
        ours = ("FAIRWARNING", "PYTEST", "PYTHON", "VIRTUAL_ENV", "COV_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        url = f"http://127.0.0.1:{base}"
        pins = str(ROOT / "constraints.txt")
        self._variables = {**kept, "FAIRWARNING_URL": url, "PIP_CONSTRAINT": pins, "PYTHONUNBUFFERED": "1"}
        self.running: list[tuple[subprocess.Popen[bytes], Path]] = []

    def type(self, text: str) -> str:
        """Type a command; return what it has printed, at the latest when it has printed enough."""
        if text == "cd first-handler":
            self.folder /= "first-handler"
            return ""
        if text == ". .venv/bin/activate":
            programs = self.folder / ".venv" / "bin"
            self._variables["PATH"] = f"{programs}{os.pathsep}{self._variables['PATH']}"
            return ""
        text = text.replace("8101", self._ports["8101"])
        if text.startswith(ENDLESS):
            return self._start(text + self._options if " up " in text else text)
        done = subprocess.run(
            text,
            shell=True,
            cwd=self.folder,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=INSTALL,
        )
        skip_without_sandbox(done.stdout)
        assert done.returncode == (1 if text.startswith(UNSAFE) else 0), f"{text}\n{done.stdout}"
        return done.stdout

    def _start(self, text: str) -> str:
        log = self.folder / f"{len(self.running)}.log"
        with log.open("wb") as lines:
            process = subprocess.Popen(
                text.split(), cwd=self.folder, env=self._variables, stdout=lines, stderr=subprocess.STDOUT
            )
        self.running.append((process, log))
        until(lambda: re.search("Ctrl-C|approved", log.read_text()) is not None, f"{text} is at work")
        return log.read_text()


@contextmanager
def reader(home: Path) -> Iterator[Reader]:
    """Let somebody follow the tutorial; everything that they start ends with the block."""
    person = Reader(home)
    try:
        yield person
    finally:
        for process, _ in person.running:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=20)


@pytest.mark.story
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.needs("curl")
@pytest.mark.runs("docs/tutorial.md")
def test_the_tutorial_is_true_from_its_first_command_to_its_last(tmp_path: Path) -> None:
    (tmp_path / "fairwarning").symlink_to(ROOT)

    with reader(tmp_path) as person:
        for command, lines in outputs().items():
            with command.running() as text:
                output = person.type(text)
            assert [line for line in lines if not shown(line, output)] == [], f"{text}\n{output}"
            if text == "cd first-handler":
                for name, content in PAGE.files().items():
                    (person.folder / name).write_text(content)
            if text == "fairwarning history":
                assert re.search("approved.*web_0", output), output


def test_the_tutorial_has_its_files() -> None:
    assert sorted(PAGE.files()) == ["first.py", "handler.py", "test_first.py", "test_handler.py"]
