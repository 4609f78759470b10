"""Takes the screenshots in docs/screenshots: ./dev screenshots, or --all FOLDER for all sizes and themes."""

import asyncio
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser

from tests.browser.chromium import ABSENT, find_browser, launched
from tests.browser.scene import FLEET, PAGE_PATHS, Scene, prepare_scene, set_clock
from tests.cli.server import up

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"

WIDE, PHONE = (1280, 690), (390, 844)


class Appearance(NamedTuple):
    """A size and a theme."""

    size: tuple[int, int]
    theme: Literal["light", "dark"]


APPEARANCES: Mapping[str, Appearance] = {
    "": Appearance(WIDE, "light"),
    "-dark": Appearance(WIDE, "dark"),
    "-phone": Appearance(PHONE, "light"),
    "-phone-dark": Appearance(PHONE, "dark"),
}

#: The screenshots of the documentation: every page, and two of them in another size or theme.
SHOWN: Sequence[tuple[str, str]] = (
    *((name, "") for name in PAGE_PATHS),
    ("fleet", "-dark"),
    ("events", "-phone"),
)


def take_screenshots(
    scene: Scene, browser: Browser, wanted: Iterable[tuple[str, str]], folder: Path, *, whole: bool
) -> None:
    """Take screenshots: of the whole page, or of the part that is visible without scrolling."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, suffix in wanted:
        (width, height), theme = APPEARANCES[suffix]
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            timezone_id="UTC",
            locale="en-GB",
        )
        page.goto(scene.address(PAGE_PATHS[name]))
        page.screenshot(path=folder / f"{name}{suffix}.png", full_page=whole)
        page.close()


def main(everything: Path | None) -> None:
    """Take the screenshots of the documentation, or of every page in all sizes and themes into a folder."""
    executable = find_browser()
    if executable is None:
        raise SystemExit(ABSENT)
    whole = everything is not None
    wanted = [(name, suffix) for name in PAGE_PATHS for suffix in APPEARANCES] if whole else SHOWN
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch, "data")
        asyncio.run(set_clock(data))
        with up(Path(scratch), *FLEET, "--data", str(data)) as server, launched(executable) as browser:
            take_screenshots(prepare_scene(server), browser, wanted, everything or FOLDER, whole=whole)


if __name__ == "__main__":
    parser = ArgumentParser(prog="./dev screenshots", description=__doc__)
    parser.add_argument(
        "--all", type=Path, metavar="FOLDER", help="every page, whole, in every size and theme"
    )
    main(parser.parse_args().all)
