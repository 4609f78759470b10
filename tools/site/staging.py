"""Copies the pages into one tree, in which every link leads to a page or file of the site.

The site has no repository beside it, so a link to a file outside ``docs/`` leads to a page that shows the
file, and a link to a folder leads to a list of its files.
"""

import os
import re
import shutil
from pathlib import Path, PurePosixPath

from tools.site.reference import GENERATED

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent

#: Pages outside ``docs/``, and their places in the site.
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples/index.md",
}
#: Files of ``docs/`` that are copied as they are.
COPIED = {".json", ".png", ".svg"}
#: Languages of files that are shown, by their suffix; any other file is plain text.
LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".sh": "sh", ".mjs": "js", ".yaml": "yaml"}

_FENCE = re.compile(r"^ *(`{3,}).*?^ *\1 *$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]+`")
_PICTURE = re.compile(r"^!\[([^\]]*)\]\(([^)#\s]+)\.png\)$", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)(#[^)\s]*)?(?=\))")


class SiteError(Exception):
    """The site cannot be built; the message says why."""


class Staging:
    """A tree of pages under construction."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._shown: set[str] = set()

    def stage(self) -> None:
        """Write all pages."""
        for source in sources():
            self._write(place(source), self.rewrite(_in_both_themes(source), source))
        for file in ROOT.glob("docs/**/*"):
            if file.suffix in COPIED:
                self._copy(file, place(_path(file)))
        for name, generate in GENERATED.items():
            self._write(name, generate())
        self._write("decisions/index.md", self._list_decisions())
        shutil.copytree(HERE / "assets", self._target / "assets")

    def rewrite(self, text: str, source: str) -> str:
        """Return a page whose links lead to places of the site; blocks of code stay as they are."""
        parts, end = [], 0
        for fence in _FENCE.finditer(text):
            parts += [self._rewrite_links(text[end : fence.start()], source), fence[0]]
            end = fence.end()
        return "".join([*parts, self._rewrite_links(text[end:], source)])

    def _rewrite_links(self, text: str, source: str) -> str:
        def lead(link: re.Match[str]) -> str:
            wanted = os.path.normpath(PurePosixPath(source).parent / link[1])
            if not (ROOT / wanted).exists():
                raise SiteError(f"{source} links to {link[1]}, which does not exist")
            self._show(wanted)
            here = PurePosixPath(place(source)).parent
            return os.path.relpath(place(wanted), here) + (link[2] or "")

        return _LINK.sub(lead, text)

    def _show(self, source: str) -> None:
        """Write a page that shows a file or lists a folder, unless the site has it anyway."""
        path = ROOT / source
        if source in self._shown or source in OUTSIDE or source.startswith("docs/"):
            return
        self._shown.add(source)
        if path.is_dir():
            files = sorted(file for file in path.rglob("[!._]*") if file.is_file() and "__" not in str(file))
            names = "".join(f"- `{file.relative_to(path).as_posix()}`\n" for file in files)
            text = f"# `{source}`\n\nThis folder of the repository has these files:\n\n{names}"
        else:
            language = LANGUAGES.get(path.suffix, "text")
            text = f"# `{source}`\n\n````{language}\n{path.read_text()}````\n"
        self._write(place(source), text)

    def _list_decisions(self) -> str:
        files = sorted((ROOT / "docs/decisions").glob("*.md"))
        titles = [(file.name, file.read_text().partition("\n")[0].removeprefix("# ")) for file in files]
        lines = [f"- [{title}]({name})\n" for name, title in titles]
        head = "A choice that was hard to make has half a page: context, choice, what we gave up."
        return f"# Decisions\n\n{head}\n\n{''.join(lines)}"

    def _write(self, name: str, text: str) -> None:
        path = self._target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_ROW.sub(lambda row: _CODE.sub(_plain_bars, row[0]), text))

    def _copy(self, source: Path, name: str) -> None:
        path = self._target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)


def sources() -> list[str]:
    """Return the pages of the repository that are pages of the site."""
    outside = [name for name in OUTSIDE if (ROOT / name).exists() and name != "README.md"]
    return [*map(_path, sorted(ROOT.glob("docs/**/*.md"))), *outside]


def place(source: str) -> str:
    """Return where a file or folder of the repository is in the site."""
    if source in OUTSIDE:
        return OUTSIDE[source]
    path = ROOT / source
    inside = source.removeprefix("docs/")
    if inside != source:
        if path.name == "README.md":
            return str(PurePosixPath(inside).with_name("index.md"))
        return f"{inside}/index.md" if path.is_dir() else inside
    return f"files/{source}/index.md" if path.is_dir() else f"files/{source}.md"


def _in_both_themes(source: str) -> str:
    """Return a page; pictures with a dark twin that the page does not show have it in the dark theme."""
    text = (ROOT / source).read_text()

    def both(picture: re.Match[str]) -> str:
        caption, path = picture.groups()
        dark = f"{path}-dark.png"
        if dark in text or not ((ROOT / source).parent / dark).exists():
            return picture[0]
        return f"![{caption}]({path}.png#only-light)\n![{caption}]({dark}#only-dark)"

    return _PICTURE.sub(both, text)


def _plain_bars(code: re.Match[str]) -> str:
    """Return code in a table as zensical reads it, which shows the backslash of an escaped bar."""
    return code[0].replace(r"\|", "|")


def _path(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
