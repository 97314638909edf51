"""The report in a real browser: it draws, it asks nobody, and names from data stay names."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from widemargin import SVC, report

HOSTILE = "<script>document.title='owned'</script>"
IMAGE = "<img src=x onerror=\"document.title='owned'\">"


def written(tmp_path, data, **options):
    path = tmp_path / "report.html"
    found = report(data, path, **options)
    return found, path.as_uri()


def opened(watched, address, **look):
    seen = watched(address, **look)
    seen.page.wait_for_selector("#plot-margins .main-svg")
    seen.page.wait_for_timeout(300)
    return seen


@pytest.fixture(scope="module")
def frame():
    import pandas as pd

    rng = np.random.default_rng(0)
    X, y = make_moons(80, noise=0.25, random_state=0)
    return pd.DataFrame(
        {
            HOSTILE: X[:, 0],
            "quote \" ' & <b>": X[:, 1],
            "L" * 10_000: rng.normal(size=80),
            "都市": rng.choice(["東京", "Ærø", IMAGE], size=80),
            "label": np.where(y == 1, IMAGE, "</script><b>ok"),
        }
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1200])
def test_hostile_names_stay_text(watched, tmp_path, frame, width, scheme):
    _, address = written(tmp_path, frame, target="label")
    seen = opened(watched, address, width=width, scheme=scheme)
    assert seen.errors == []
    assert seen.foreign == []
    assert seen.page.title() == "label: widemargin report"
    assert seen.page.locator("img").count() == 0
    assert IMAGE in seen.page.inner_text("body")
    assert "東京" in seen.page.inner_text("body") or "都市" in seen.page.inner_text("body")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_all_pictures_are_drawn(watched, tmp_path):
    found, address = written(tmp_path, make_moons(120, noise=0.2, random_state=1))
    seen = opened(watched, address)
    drawn = seen.page.eval_on_selector_all(
        ".plot", "all => all.map((p) => p.querySelectorAll('.main-svg').length > 0)"
    )
    assert len(drawn) >= 5
    assert all(drawn)
    assert seen.errors == []
    assert found["verdict"][0] in seen.page.inner_text("#verdict")


def test_a_fitted_model_has_a_report(watched, tmp_path):
    X, y = make_moons(60, noise=0.2, random_state=2)
    _, address = written(tmp_path, SVC(C=10).fit(X, y))
    seen = opened(watched, address)
    assert seen.errors == []
    assert "The certificate" in seen.page.inner_text("body")


def test_numbers_are_predicted_too(watched, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 3))
    _, address = written(tmp_path, (X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=90)))
    seen = opened(watched, address)
    assert seen.errors == []
    assert "explained" in seen.page.inner_text("#verdict")
