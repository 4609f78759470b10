"""Reads a finished site: every link leads somewhere, and no page loads anything from another host."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Elements that load what they name, with the attribute that names it.
LOADING = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src"}
#: Links of the theme between its own parts, which scripts handle.
SCRIPTED = {"__comments", "__search", "__drawer", "__consent"}


@dataclass
class Document:
    """A page: the anchors that it has, where its links lead, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.document = Document()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value for name, value in attrs if value is not None}
        if identity := attributes.get("id"):
            self.document.anchors.add(identity)
        if tag == "a" and "href" in attributes:
            self.document.links.append(attributes["href"])
        elif (name := LOADING.get(tag)) and name in attributes and attributes.get("rel") != "canonical":
            self.document.resources.append(attributes[name])


@cache
def read(page: Path) -> Document:
    """Return what a page has."""
    reader = _Reader()
    reader.feed(page.read_text())
    return reader.document


def problems(site: Path) -> Iterator[str]:
    """Yield what is wrong with the pages of a site."""
    for page in sorted(site.rglob("*.html")):
        document, name = read(page), page.relative_to(site)
        for resource in document.resources:
            if urlsplit(resource).netloc:
                yield f"{name} loads {resource} from another host"
            elif not resource.startswith("data:") and _target(site, page, resource) is None:
                yield f"{name} loads {resource}, which does not exist"
        for link in document.links:
            if not urlsplit(link).scheme and not _leads_somewhere(site, page, link):
                yield f"{name} links to {link}, which does not exist"


def _leads_somewhere(site: Path, page: Path, link: str) -> bool:
    anchor = unquote(urlsplit(link).fragment)
    target = _target(site, page, link)
    if target is None or not anchor or anchor in SCRIPTED:
        return target is not None
    return target.suffix == ".html" and anchor in read(target).anchors


def _target(site: Path, page: Path, link: str) -> Path | None:
    """Return the file that a link leads to."""
    path = unquote(urlsplit(link).path)
    if page.name == "404.html" or path.startswith("/"):
        target = site / path.lstrip("/")
    else:
        target = page.parent / path if path else page
    target = target / "index.html" if target.is_dir() else target
    return target if target.is_file() else None
