"""A browser for each module, and tabs whose browser console must stay free of errors."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize

from tests.browser.chromium import ABSENT, NEVER, TIMEOUT, OpenTab, find_browser, launched
from tests.needs import lack


# Per module, not per session: while the browser runs, other tests could not run event loops.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_browser()
    if executable is None:
        lack(ABSENT)
    with launched(executable) as browser:
        yield browser


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def open_page(
        url: str, *, forgiven: str = NEVER, scripts: bool = True, size: tuple[int, int] = (1280, 800)
    ) -> Page:
        viewport: ViewportSize = {"width": size[0], "height": size[1]}
        context = browser.new_context(java_script_enabled=scripts, viewport=viewport)
        contexts.append(context)
        context.set_default_timeout(TIMEOUT)
        page = context.new_page()

        def note(text: str) -> None:
            if not re.search(forgiven, text):
                errors.append(text)

        page.on(
            "console", lambda message: note(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: note(str(error)))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
