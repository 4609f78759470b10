"""A browser to look at pages with: the Chromium of this machine, driven by playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

#: Root has no sandbox, and nothing but our pages is to be talked to.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: How many milliseconds a page gets to become what is expected of it.
PATIENCE = 20_000

#: Matches nothing.
NEVER = "(?!)"

ABSENT = "there is no Chromium on this machine (Debian: apt-get install chromium)"


class OpenTab(Protocol):
    """Opens a tab for somebody who has none; ``forgiven`` matches what its console may complain about."""

    def __call__(
        self, url: str, *, forgiven: str = NEVER, scripts: bool = True, size: tuple[int, int] = (1280, 800)
    ) -> Page:
        """Return the page, loaded."""


def program() -> str | None:
    """Return where the browser is, if there is one."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def launched(executable: str) -> Iterator[Browser]:
    """Give a browser; while it is there, this thread cannot run an event loop of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()
