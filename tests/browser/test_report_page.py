"""The report in a real browser: it draws, it asks nobody, and names from data stay names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons

from widemargin import SVC, SVR, report

HOSTILE = "<script>document.title='owned'</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"


def opened(watched, address, **look):
    seen = watched(address, **look)
    seen.page.wait_for_selector("#plot-margins .main-svg")
    seen.page.wait_for_timeout(300)
    return seen


def drawn(page):
    """Which pictures the browser has drawn, by section."""
    return page.eval_on_selector_all(
        ".plot",
        "all => Object.fromEntries("
        "all.map((p) => [p.id, p.querySelectorAll('.main-svg').length > 0]))",
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A report on data that attack it, and its address."""
    rng = np.random.default_rng(0)
    X, y = make_moons(60, noise=0.25, random_state=0)
    frame = pd.DataFrame(
        {
            HOSTILE: X[:, 0],
            "quote \" ' & <b>": X[:, 1],
            "L" * 10_000: rng.normal(size=60),
            "都市": rng.choice(["東京", "Ærø", IMAGE], size=60),
            "label": np.where(y == 1, IMAGE, "</script><b>" + "W" * 10_000),
        }
    )
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    return report(frame, path, target="label", ard=True), path.as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_hostile_names_stay_text(watched, hostile, width, scheme):
    _, address = hostile
    seen = opened(watched, address, width=width, scheme=scheme)
    assert seen.errors == []
    assert seen.foreign == []
    assert seen.page.title() == "label: widemargin report"
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("b").count() == 0
    text = seen.page.inner_text("body")
    assert IMAGE in text
    assert "都市" in text
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_pictures_are_drawn(watched, hostile):
    found, address = hostile
    seen = opened(watched, address)
    pictures = drawn(seen.page)
    assert set(pictures) == {f"plot-{name}" for name in ("margins", "strengths", "projection",
                                                        "calibration", "relevance")}  # fmt: skip
    assert all(pictures.values())
    assert found["verdict"][0] in seen.page.inner_text("#verdict")


def test_the_page_prints(watched, hostile):
    _, address = hostile
    seen = opened(watched, address, scheme="dark")
    printed = seen.page.pdf(format="A4")
    assert printed.startswith(b"%PDF")
    seen.page.emulate_media(media="print")
    assert seen.page.locator("#copy").is_hidden()
    assert seen.errors == []
    assert seen.foreign == []


def test_the_page_is_read_by_keyboard_and_by_screen_readers(watched, hostile):
    _, address = hostile
    seen = opened(watched, address)
    seen.page.keyboard.press("Tab")
    assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the verdict"
    unnamed = seen.page.eval_on_selector_all(
        "section, [role=img], [role=region]",
        "all => all.filter((e) => !e.getAttribute('aria-label')"
        " && !document.getElementById(e.getAttribute('aria-labelledby'))).length",
    )
    assert unnamed == 0
    levels = seen.page.eval_on_selector_all("h1, h2, h3", "all => all.map((h) => h.tagName)")
    assert levels[0] == "H1"
    assert set(levels[1:]) == {"H2"}


def test_the_code_can_be_copied(watched, hostile):
    _, address = hostile
    seen = opened(watched, address)
    seen.page.click("#copy")
    seen.page.wait_for_selector("#copy:not(:text-is('Copy'))")
    assert seen.page.inner_text("#copy") in ("Copied", "Selected")
    assert seen.errors == []


@pytest.mark.parametrize("task", ["two classes", "numbers"])
def test_a_fitted_model_has_a_page(watched, tmp_path, task):
    X, y = make_moons(60, noise=0.2, random_state=2)
    model = SVC(C=10).fit(X, y) if task == "two classes" else SVR().fit(X[:, :1], X[:, 1])
    report(model, tmp_path / "report.html")
    seen = opened(watched, (tmp_path / "report.html").as_uri())
    assert seen.errors == []
    assert seen.foreign == []
    assert all(drawn(seen.page).values())
    assert "The certificate" in seen.page.inner_text("body")


def test_numbers_are_studied_too(watched, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    path = tmp_path / "report.html"
    report((X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=60)), path)
    seen = opened(watched, path.as_uri())
    assert seen.errors == []
    assert drawn(seen.page)["plot-landscape"]
    assert "explained" in seen.page.inner_text("#verdict")
