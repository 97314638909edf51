"""A real browser for the pages: Chromium as the system has it, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless browser; tests are skipped where the system has none."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(
            "no browser: none of "
            + ", ".join(NAMES)
            + " is installed (on Debian: apt install chromium)"
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # The sandbox needs rights that a container does not have; only our own pages are opened.
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A page, and what went wrong on it: errors and requests beyond its own address."""

    def __init__(self, page: Any, own: str) -> None:
        self.page = page
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith((own, "data:")) else self.foreign.append(r.url),
        )


@pytest.fixture
def watched(browser: Any) -> Iterator[Any]:
    """Return a function that opens an address in a fresh page of a given look."""
    contexts = []

    def open_page(
        address: str, *, width: int = 1200, height: int = 900, scheme: str = "light"
    ) -> Watched:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme
        )
        contexts.append(context)
        own = address if address.startswith("file:") else address.split("#")[0]
        seen = Watched(context.new_page(), own)
        seen.page.goto(address)
        return seen

    yield open_page
    for context in contexts:
        context.close()
