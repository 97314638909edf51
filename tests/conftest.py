"""Fixtures and hooks for all tests: slow tests, hypothesis profiles, fuzz counts, a browser."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

# scikit-learn skips its array API check without this, which SciPy reads when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers import fuzzing_counts  # after the variable above

# Derandomised: a failure seen once is seen by everybody. Deadlines would be timed tests.
settings.register_profile(
    "widemargin",
    derandomize=True,
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
# `pytest -m fuzz --hypothesis-profile=long`: other problems in every run, and many of them.
settings.register_profile(
    "long",
    settings.get_profile("widemargin"),
    derandomize=False,
    max_examples=1000,
    print_blob=True,
)
settings.load_profile("widemargin")


# ---------------------------------------------------------------- two gears

# Folders whose tests are all slow; slow tests elsewhere have the mark themselves.
SLOW_FOLDERS = {"browser", "faults", "fuzz"}


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that the standard suite (``pytest``, without arguments) leaves out."""
    for item in items:
        if item.path.parent.name in SLOW_FOLDERS:
            item.add_marker(pytest.mark.slow)


# ---------------------------------------------------------------- the count of fuzzed problems


def pytest_configure(config: pytest.Config) -> None:
    """Keep the real standard error, for the traceback of a problem that does not end."""
    fuzzing_counts.stderr = os.dup(2)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts of a worker of xdist to the process that prints them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["fuzzing_counts"] = fuzzing_counts.counts()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    """Add the counts of a worker of xdist."""
    fuzzing_counts.add_counts(getattr(node, "workeroutput", {}).get("fuzzing_counts", {}))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what became of the problems."""
    if fuzzing_counts.tally:
        terminalreporter.section("problems drawn (tests/fuzzing.py)")
        for line in fuzzing_counts.summary():
            terminalreporter.write_line(line)


# ---------------------------------------------------------------- a browser

# A real browser for the pages: Chromium as the system has it, driven by Playwright.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless browser; tests are skipped where the system has none."""
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(
            "no browser: none of "
            + ", ".join(BROWSERS)
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
