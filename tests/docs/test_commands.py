"""Every command of every page is run by a test, or its block says why it is not run."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.pages import ROOT, SCRIPTS, Page, pages

#: Languages of blocks in which somebody types commands, and other names for them.
SHELLS = {"console", *SCRIPTS}
LOOKALIKES = {"", "shell-session", "sh-session", "terminal", "bat", "cmd", "ps1", "pwsh"}


def marks(test: ast.FunctionDef) -> Iterator[ast.Call]:
    """Yield the ``runs`` marks of a test that is expected to pass."""
    calls = [node for one in test.decorator_list for node in ast.walk(one) if isinstance(node, ast.Call)]
    names = {ast.unparse(call.func) for call in calls}
    if not names & {"pytest.mark.xfail", "pytest.mark.skip", "pytest.mark.skipif"}:
        yield from (call for call in calls if ast.unparse(call.func) == "pytest.mark.runs")


@cache
def claims() -> frozenset[tuple[str, ...]]:
    """Return the arguments of the ``runs`` marks of all tests: a page, and patterns of its commands."""
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    sources = (ast.parse(text) for text in texts if "pytest.mark.runs(" in text)
    return frozenset(
        tuple(str(ast.literal_eval(argument)) for argument in mark.args)
        for source in sources
        for test in ast.walk(source)
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        for mark in marks(test)
    )


def test_every_command_is_run_by_a_test_or_says_why_not() -> None:
    # A test that claims a command fails unless it runs the command.
    claimed = {command for page, *patterns in claims() for command in Page(page).commands(*patterns)}
    commands = [command for page in pages() for command in page.commands()]

    assert len(commands) > 100
    assert [f"{one.page}:{one.line}: {one.text}" for one in commands if one not in claimed] == []


def test_every_block_has_a_language_that_says_whether_it_is_typed() -> None:
    blocks = [block for page in pages() for block in page.blocks]
    fences = [fence for page in pages() for fence in re.findall(r"^ *(`{3,})", page.text, re.MULTILINE)]

    assert len(fences) == 2 * len(blocks)
    assert [
        f"{block.page}:{block.line}"
        for block in blocks
        if block.language in LOOKALIKES or (block.language == "console" and not any(block.commands()))
    ] == []


def test_every_reason_not_to_run_belongs_to_a_block_of_commands() -> None:
    marks = [mark for page in pages() for mark in re.findall(r"^ *<!--\s*not run", page.text, re.M)]
    marked = [block for page in pages() for block in page.blocks if block.not_run is not None]

    assert len(marks) == len(marked)
    assert [
        f"{block.page}:{block.line}"
        for block in marked
        if block.language not in SHELLS or len(block.not_run or "") < len("no test")
    ] == []


def test_every_claim_names_commands_that_exist() -> None:
    assert [claim for claim in sorted(claims()) if not Page(claim[0]).commands(*claim[1:])] == []
    assert [
        (page, pattern)
        for page, *patterns in sorted(claims())
        for pattern in patterns
        if not Page(page).commands(pattern)
    ] == []
