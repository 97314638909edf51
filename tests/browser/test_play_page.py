"""The playground in a real browser: what a person does, and what must then be seen."""

from __future__ import annotations

import base64
import json
import threading
import time

import pytest
import uvicorn

from widemargin.play.catalogue import MACHINES
from widemargin.play.scheduler import FitScheduler
from widemargin.play.server import listen, make_app


@pytest.fixture(scope="module")
def address():
    """A running playground."""
    listener = listen()
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(make_app(port, FitScheduler()), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(10)


def pictures(page) -> int:
    return int(page.get_attribute("#canvas", "data-pictures") or 0)


def after(page, act) -> None:
    """Act, and wait for the picture that follows."""
    before = pictures(page)
    act()
    deadline = time.monotonic() + 120  # the first fit of a machine may compile
    while pictures(page) == before:
        assert time.monotonic() < deadline, "no new picture"
        page.wait_for_timeout(20)
    page.wait_for_timeout(100)


@pytest.fixture
def opened(watched, address):
    seen = watched(address)
    seen.page.wait_for_selector("#canvas[data-pictures]", timeout=120_000)
    return seen


def pixels(page) -> str:
    return page.evaluate("document.getElementById('canvas').toDataURL()")


def click(page, u: float, v: float, **options) -> None:
    """Click at a place of the canvas, both coordinates from 0 to 1."""
    box = page.locator("#canvas").bounding_box()
    page.mouse.click(box["x"] + u * box["width"], box["y"] + v * box["height"], **options)


def count(page) -> int:
    """Return how many points the page says there are."""
    return int(page.inner_text("#support").split(" of ")[1].split()[0])


def test_it_starts_without_errors_and_asks_nobody_else(opened):
    assert opened.errors == []
    assert opened.foreign == []
    assert "wrong" in opened.page.inner_text("#loo")
    assert "gap" in opened.page.inner_text("#certificate")


def test_points_are_added_by_clicking_moved_and_removed(opened):
    page = opened.page
    before, seen = count(page), pixels(page)
    after(page, lambda: click(page, 0.1, 0.1))
    assert count(page) == before + 1
    assert pixels(page) != seen
    box = page.locator("#canvas").bounding_box()
    x, y, size = box["x"], box["y"], box["width"]

    def drag() -> None:
        page.mouse.move(x + 0.1 * size, y + 0.1 * size)
        page.mouse.down()
        page.mouse.move(x + 0.9 * size, y + 0.9 * size, steps=4)
        page.mouse.up()

    seen = pixels(page)
    after(page, drag)
    assert count(page) == before + 1
    assert pixels(page) != seen
    after(page, lambda: click(page, 0.9, 0.9, button="right"))
    assert count(page) == before
    assert opened.errors == []


def test_a_slider_changes_the_picture_and_the_certificate(opened):
    page = opened.page
    seen, proof = pixels(page), page.inner_text("#certificate")
    page.locator("#control-C").focus()
    after(page, lambda: page.keyboard.press("Home"))  # the least cost
    assert pixels(page) != seen
    assert page.inner_text("#certificate") != proof


@pytest.mark.parametrize("preset", range(6))
def test_every_example_is_drawn(opened, preset):
    page = opened.page
    if preset:
        after(page, lambda: page.select_option("#preset", str(preset)))
    assert page.inner_text("#status") == ""
    assert opened.errors == []


def test_every_machine_draws_two_classes(opened):
    page = opened.page
    after(page, lambda: page.select_option("#preset", "1"))
    names = page.eval_on_selector_all("#machine option", "options => options.map((o) => o.value)")
    assert names == list(MACHINES)
    for name in names:
        if page.input_value("#machine") != name:
            after(page, lambda name=name: page.select_option("#machine", name))
        assert page.inner_text("#status") == "", name
        counted = "no coefficients" if name == "AdaBoostClassifier" else "of 48 points"
        assert counted in page.inner_text("#support"), name
        proof = MACHINES[name].uncertified or "gap"
        assert proof in page.inner_text("#certificate"), name
        assert page.is_visible("#legend-margin") == bool(MACHINES[name].dashes), name
    assert opened.errors == []


def test_leave_one_out_that_takes_long_comes_when_the_hand_rests(opened):
    page = opened.page
    after(page, lambda: page.select_option("#preset", label="overlapping classes"))
    page.locator("#loo", has_text="of 48 wrong").wait_for(timeout=60_000)
    assert "exact" in page.inner_text("#loo")
    after(page, lambda: page.select_option("#machine", "PerceptronClassifier"))
    assert "not known" in page.inner_text("#loo")


def test_a_norm_and_a_number_of_rounds_are_set(opened):
    page = opened.page
    after(page, lambda: page.select_option("#machine", "MaxMarginClassifier"))
    seen = pixels(page)
    after(page, lambda: page.select_option("#control-norm", "inf"))
    assert pixels(page) != seen
    after(page, lambda: page.select_option("#machine", "AdaBoostClassifier"))
    page.locator("#control-n_rounds").focus()
    after(page, lambda: page.keyboard.press("Home"))
    assert page.inner_text(".control output") == "1"
    after(page, lambda: page.keyboard.press("ArrowRight"))
    assert page.inner_text("#status") == ""
    assert opened.errors == []


def test_a_link_shows_the_same_picture(opened, watched, address):
    page = opened.page
    after(page, lambda: click(page, 0.2, 0.8))
    page.wait_for_timeout(200)
    after(page, lambda: page.select_option("#machine", "NuSVC"))
    link, points = page.url, count(page)
    assert "#" in link
    again = watched(link)
    again.page.wait_for_selector("#canvas[data-pictures]", timeout=60_000)
    assert count(again.page) == points
    assert again.page.input_value("#machine") == "NuSVC"
    assert again.page.input_value("#preset") == ""


def shared(**kept) -> str:
    return base64.urlsafe_b64encode(json.dumps(kept).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        shared(p=[[0, 0, 0]], m="<img src=x>", s={}),
        shared(p=[["0", 0, 99]], m="SVC", s={}),
        shared(p=7, m="SVC"),
    ],
)
def test_a_link_that_cannot_be_read_is_told(watched, address, text):
    seen = watched(f"{address}#{text}")
    seen.page.wait_for_selector("#canvas[data-pictures]", timeout=60_000)
    assert "could not be read" in seen.page.inner_text("#status")
    assert seen.errors == []


def test_a_server_that_is_gone_is_told(opened):
    page = opened.page
    page.route("**/api/picture", lambda route: route.abort())
    after(page, lambda: click(page, 0.5, 0.9))
    assert "does not answer" in page.inner_text("#status")
    page.unroute("**/api/picture")
    after(page, lambda: click(page, 0.45, 0.85))
    assert page.inner_text("#status") == ""


def test_the_code_runs(opened):
    page = opened.page
    page.click("#export")
    page.wait_for_selector("#code-dialog[open]")
    code = page.inner_text("#code")
    printed: list[str] = []
    exec(compile(code, "page", "exec"), {"print": lambda *a: printed.append(str(a[0]))})
    assert "leave-one-out error" in printed[-1]


def test_the_keyboard_is_enough(opened):
    page = opened.page
    before = count(page)
    page.locator("#canvas").focus()
    after(page, lambda: page.keyboard.press("n"))
    assert count(page) == before + 1
    seen = pixels(page)
    after(page, lambda: page.keyboard.press("ArrowLeft"))
    assert pixels(page) != seen
    after(page, lambda: page.keyboard.press("Delete"))
    assert count(page) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_nothing_is_wider_than_the_window(watched, address, width, scheme):
    page = watched(address, width=width, scheme=scheme).page
    page.wait_for_selector("#canvas[data-pictures]", timeout=60_000)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
