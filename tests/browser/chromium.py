"""The Chromium of this machine, driven by playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

#: Root has no sandbox, and the browser must not call home.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

#: How many milliseconds a test waits for a page to change.
TIMEOUT = 20_000

#: A pattern that matches nothing.
NEVER = "(?!)"

ABSENT = "there is no Chromium on this machine (Debian: apt-get install chromium)"


class OpenTab(Protocol):
    """Opens a tab in a new session; errors in the browser's console that match ``forgiven`` are ignored."""

    def __call__(
        self, url: str, *, forgiven: str = NEVER, scripts: bool = True, size: tuple[int, int] = (1280, 800)
    ) -> Page:
        """Return the page, loaded."""


def find_browser() -> str | None:
    """Return the path of the browser, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def launched(executable: str) -> Iterator[Browser]:
    """Run a browser; until it is closed, this thread cannot run an event loop of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()
