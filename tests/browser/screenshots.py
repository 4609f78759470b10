"""Takes the pictures of docs/screenshots anew: ./dev screenshots, or --all FOLDER for every look."""

import asyncio
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser

from tests.browser.chromium import ABSENT, launched, program
from tests.browser.scene import FLEET, SIGHTS, Scene, set_clock, staged
from tests.cli.server import up

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"

WIDE, PHONE = (1280, 690), (390, 844)


class Look(NamedTuple):
    """A size and a theme."""

    size: tuple[int, int]
    theme: Literal["light", "dark"]


LOOKS: Mapping[str, Look] = {
    "": Look(WIDE, "light"),
    "-dark": Look(WIDE, "dark"),
    "-phone": Look(PHONE, "light"),
    "-phone-dark": Look(PHONE, "dark"),
}

#: What the documentation shows: every page, and two of them as they are elsewhere.
SHOWN: Sequence[tuple[str, str]] = (
    *((name, "") for name in SIGHTS),
    ("fleet", "-dark"),
    ("events", "-phone"),
)


def pictures(
    scene: Scene, browser: Browser, wanted: Iterable[tuple[str, str]], folder: Path, *, whole: bool
) -> None:
    """Take pictures of sights, each in one look: the whole page, or what is seen without scrolling."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, suffix in wanted:
        (width, height), theme = LOOKS[suffix]
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-GB",
        )
        page.goto(scene.address(SIGHTS[name]))
        page.screenshot(path=folder / f"{name}{suffix}.png", full_page=whole)
        page.close()


def main(everything: Path | None) -> None:
    """Stage the scene and take the pictures: those of the documentation, or every one into a folder."""
    executable = program()
    if executable is None:
        raise SystemExit(ABSENT)
    whole = everything is not None
    wanted = [(name, suffix) for name in SIGHTS for suffix in LOOKS] if whole else SHOWN
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch, "data")
        asyncio.run(set_clock(data))
        with up(Path(scratch), *FLEET, "--data", str(data)) as server, launched(executable) as browser:
            pictures(staged(server), browser, wanted, everything or FOLDER, whole=whole)


if __name__ == "__main__":
    parser = ArgumentParser(prog="./dev screenshots", description=__doc__)
    parser.add_argument(
        "--all", type=Path, metavar="FOLDER", help="every page, whole, in every size and theme"
    )
    main(parser.parse_args().all)
