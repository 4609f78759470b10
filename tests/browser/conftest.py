"""A browser for each module, and tabs that are expected to have nothing to complain about."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.browser.chromium import ABSENT, NEVER, PATIENCE, OpenTab, launched, program
from tests.needs import lack


# A module has it, not the session: while a browser is there, other tests could not run event loops.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = program()
    if executable is None:
        lack(ABSENT)
    with launched(executable) as found:
        yield found


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(
        url: str, *, forgiven: str = NEVER, scripts: bool = True, size: tuple[int, int] = (1280, 800)
    ) -> Page:
        viewport: ViewportSize = {"width": size[0], "height": size[1]}
        context = browser.new_context(java_script_enabled=scripts, viewport=viewport)
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()

        def note(text: str) -> None:
            if not re.search(forgiven, text):
                complaints.append(text)

        page.on("console", lambda said: note(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: note(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
