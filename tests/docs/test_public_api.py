"""The page about the public API lists exactly the names that the public modules export."""

import re
from pathlib import Path
from types import ModuleType

import pytest

import fairwarning
import fairwarning.testing

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "public-api.md"
PUBLIC = [pytest.param(module, id=module.__name__) for module in (fairwarning, fairwarning.testing)]


def listed(module: ModuleType) -> list[str]:
    """Return the names in the table under a module's heading."""
    _, _, section = PAGE.read_text().partition(f"\n## `{module.__name__}`\n")
    return re.findall(r"^\| `(\w+)` \|", section.partition("\n## ")[0], re.MULTILINE)


def test_the_page_has_a_section_for_each_public_module_and_no_other() -> None:
    headings = re.findall(r"^## `(.*)`$", PAGE.read_text(), re.MULTILINE)

    assert headings == ["fairwarning", "fairwarning.testing"]


@pytest.mark.parametrize("module", PUBLIC)
def test_the_page_lists_exactly_the_public_names(module: ModuleType) -> None:
    names = listed(module)

    assert sorted(names) == sorted(module.__all__)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_can_be_loaded(module: ModuleType) -> None:
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_a_name_that_is_not_public_cannot_be_loaded() -> None:
    assert not hasattr(fairwarning, "Engine")
