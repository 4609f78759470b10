"""The commands of the long-poll guide do what the guide says."""

import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.server import up
from tests.pages import Page

PAGE = Page("docs/guides/long-poll.md")
PRINTED = "http://127.0.0.1:8101"


def curl(command: str) -> str:
    words = ["curl", "--noproxy", "*", *shlex.split(command)[1:]]
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=True).stdout


@pytest.mark.needs("curl")
@pytest.mark.runs("docs/guides/long-poll.md")
def test_the_commands_of_the_page_wait_for_a_change(tmp_path: Path) -> None:
    first, second = PAGE.commands()
    with (
        up(tmp_path, "--scale-set", "web=1", "--no-arm") as server,
        ThreadPoolExecutor() as threads,
        first.running() as poll,
        second.running() as waiting,
    ):
        base = server.ready["metadata"]["web_0"]
        document = curl(poll.replace(PRINTED, base))
        unchanged = curl(waiting.replace(PRINTED, base).replace("wait=2", "wait=0.1"))
        held = threads.submit(curl, waiting.replace(PRINTED, base).replace("wait=2", "wait=20"))
        server.cause("freeze", "web_0")
        changed = held.result(timeout=20)

    assert document.startswith("HTTP/1.1 200 ")
    assert 'ETag: "1"' in document
    assert unchanged.startswith("HTTP/1.1 304 ")
    assert changed.startswith("HTTP/1.1 200 ")
    assert '"Freeze"' in changed
