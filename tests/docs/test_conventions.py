"""The examples of the conventions are the code: each is found, word for word, in the file that it names."""

import re

import pytest

from tests.pages import ROOT, Page

SNIPPETS = Page("docs/conventions.md").code("python")


def is_in(snippet: str, source: str) -> bool:
    """Whether lines of code are in a source; a line ``...`` stands for lines of the same object."""
    parts = re.split(r"^ *\.\.\.\n", snippet, flags=re.MULTILINE)
    lines = r"(?: .*\n|\n)*?".join(map(re.escape, parts))
    return re.search(f"^{lines}", source, re.MULTILINE) is not None


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_an_example_is_in_the_file_that_its_first_line_names(snippet: str) -> None:
    file, _, code = snippet.removeprefix("# ").partition("\n")

    assert is_in(code, (ROOT / file).read_text()), snippet


def test_the_page_has_examples() -> None:
    assert len(SNIPPETS) >= 6


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        pytest.param("class A:\n    x = 1\n", True, id="lines as they are"),
        pytest.param("class A:\n    ...\n    y = 2\n", True, id="lines are left out"),
        pytest.param("class A:\n    y = 2\n", False, id="lines are missing"),
        pytest.param("class A:\n    x = 2\n", False, id="a line differs"),
        pytest.param("class A:\n    ...\n    z = 3\n", False, id="the line is in another object"),
        pytest.param("x = 1\n", False, id="the line is less indented"),
    ],
)
def test_an_example_is_compared_line_by_line(snippet: str, expected: bool) -> None:
    assert is_in(snippet, "class A:\n    x = 1\n\n    y = 2\n\n\nclass B:\n    z = 3\n") is expected
