"""The texts that the page about troubleshooting quotes, by section.

A test that provokes a text passes what it saw to ``assert_quoted``, with the name of the section. Another
test compares the sections that tests name with those of the page.
"""

import re

from tests.pages import Page

PAGE = Page("docs/troubleshooting.md")

#: What differs from run to run: ids of events, and ports.
_VARIABLE = re.compile(r"[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}|\b(?:8\d{3}|3128)\b")


def sections() -> dict[str, str]:
    """Return the text that each section quotes."""
    return dict(re.findall(r"^### ([^\n]*)\n\n```text\n(.*?)^```", PAGE.text, re.MULTILINE | re.DOTALL))


def assert_quoted(section: str, output: str) -> None:
    """Assert that every line that a section quotes is in the output."""
    for line in sections()[section].splitlines():
        pattern = "[0-9A-F-]+".join(map(re.escape, _VARIABLE.split(line)))
        assert re.search(pattern, output), f"{line}\nis not in\n{output}"
