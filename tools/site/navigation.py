"""The navigation of the site, which is written by hand in ``zensical.toml``."""

import tomllib
from collections.abc import Iterator

from tools.site.reference import GENERATED
from tools.site.staging import HERE, place, sources

#: An entry of the navigation: a page, or pages by their titles.
Entry = str | list["Entry"] | dict[str, "Entry"]

#: The decisions have a generated index instead.
INDEXED = "decisions/"


def entries() -> list[str]:
    """Return the places that the navigation leads to, in order."""
    navigation: Entry = tomllib.loads((HERE / "zensical.toml").read_text())["project"]["nav"]
    return list(_places(navigation))


def _places(entry: Entry) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for inner in entry.values() if isinstance(entry, dict) else entry:
            yield from _places(inner)


def unlisted() -> list[str]:
    """Return the pages that have no place in the navigation."""
    pages = [*map(place, sources()), *GENERATED]
    return sorted({page for page in pages if not page.startswith(INDEXED)} - set(entries()))
