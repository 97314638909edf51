"""Make the screenshots of the report and of the playground in the documentation.

Run ``python docs/make_screenshots.py`` from the root of the repository. It requires the extra
``test`` and an installed Chromium or Chrome. The pictures are written to docs/images, or to the
folder given as argument; ``--narrow`` adds screenshots at the width of a mobile phone.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
from pathlib import Path

import uvicorn
from playwright.sync_api import sync_playwright

from widemargin.cli._demo import breast_cancer
from widemargin.cli._report import run_report
from widemargin.play.scheduler import FitScheduler
from widemargin.play.server import listen, make_app

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDE = {"width": 1200, "height": 940}
NARROW = {"width": 400, "height": 860}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "images")
    parser.add_argument("--narrow", action="store_true", help="narrow pages, too")
    parser.add_argument("--only", choices=["report", "play"], help="one of the two pages")
    asked = parser.parse_args()
    asked.folder.mkdir(exist_ok=True)
    program = next(path for name in BROWSERS if (path := shutil.which(name)))
    looks = [("", "light", WIDE), ("_dark", "dark", WIDE)]
    if asked.narrow:
        looks += [("_narrow", "light", NARROW), ("_narrow_dark", "dark", NARROW)]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        report_page = Path(scratch) / "report.html"
        if asked.only != "play":
            table, target = breast_cancer()
            model = report_page.with_suffix(".skops")
            run_report(table, target, "auto", report_page, model, ard=False, seed=0, as_json=False)
        address = playground()
        for end, scheme, viewport in looks:
            context = browser.new_context(viewport=viewport, color_scheme=scheme)
            page = context.new_page()
            if asked.only != "play":
                shoot_report(page, report_page, asked.folder, end)
            if asked.only != "report":
                shoot_playground(page, address, asked.folder, end)
            context.close()
        browser.close()


def shoot_report(page, path, folder, end):
    page.goto(path.as_uri())
    page.wait_for_selector("#plot-margins .main-svg")
    page.wait_for_timeout(800)
    page.screenshot(path=folder / f"report{end}.png")
    size = page.viewport_size
    page.set_viewport_size({"width": size["width"], "height": size["height"] + 260})
    page.locator("#suspects-title").evaluate("title => title.parentElement.scrollIntoView()")
    page.wait_for_timeout(500)
    page.screenshot(path=folder / f"report_rows{end}.png")
    page.set_viewport_size(size)


def shoot_playground(page, address, folder, end):
    page.goto(address)
    page.wait_for_selector("#canvas[data-pictures]", timeout=120_000)
    before = page.get_attribute("#canvas", "data-pictures")
    page.select_option("#preset", label="overlapping classes")
    while page.get_attribute("#canvas", "data-pictures") == before:
        page.wait_for_timeout(50)
    page.wait_for_timeout(3000)  # leave-one-out is computed after the picture
    page.screenshot(path=folder / f"play{end}.png", full_page="narrow" in end)


def playground():
    """Start the playground in a thread and return its address."""
    listener = listen()
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(make_app(port, FitScheduler()), log_level="warning"))
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    return f"http://127.0.0.1:{port}/"


if __name__ == "__main__":
    main()
