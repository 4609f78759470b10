"""The index of the guides lists every guide once."""

import re
from pathlib import Path

GUIDES = Path(__file__).parents[2] / "docs" / "guides"


def test_the_index_lists_every_guide_once() -> None:
    listed = re.findall(r"\| \[.*?\]\(([\w/.-]+)\) \|$", (GUIDES / "README.md").read_text(), re.MULTILINE)
    guides = {str(path.relative_to(GUIDES)) for path in GUIDES.rglob("*.md")} - {"README.md"}

    assert sorted(listed) == sorted(guides)
