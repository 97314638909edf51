"""The page of a report as text: one file, everything escaped, everything there."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons

from widemargin import SVC, SVR, OrdinalSVC, report
from widemargin.reporting.figures import figures, landscape_figure
from widemargin.reporting.render import _script_data, plain_text, render

HOSTILE = "</script><script>alert('owned')</script>"


class Page(HTMLParser):
    """The elements of a page, and the text of those that are asked about."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.words, self.stack = [], [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.extend((tag, *pair) for pair in attrs)
        if tag not in ("meta", "link", "br"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if self.stack:
            self.words.setdefault(self.stack[-1], []).append(data)


@pytest.fixture(scope="module")
def found():
    X, y = make_moons(40, noise=0.3, random_state=0)
    frame = pd.DataFrame({HOSTILE: X[:, 0], "b": X[:, 1]})
    model = SVC(C=10).fit(frame, np.where(y == 1, HOSTILE, "plain & <b>bold</b>"))
    return report(model)


@pytest.fixture(scope="module")
def page(found):
    return render(found)


def test_the_page_is_well_formed_and_asks_nobody(page):
    parsed = Page(page)
    assert parsed.stack == []
    assert parsed.tags.count("script") == 3
    assert parsed.tags.count("h1") == 1
    links = [value for _, name, value in parsed.attributes if name in ("src", "href")]
    assert links == ["data:,", "#verdict"]
    own = page.replace(re.search(r"<script>(?!//)(.*?)</script>", page, re.S).group(1), "")
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", own)


def test_what_comes_from_data_is_text(page):
    parsed = Page(page)
    assert HOSTILE not in page
    assert "b" not in parsed.tags
    assert any(HOSTILE in text for text in parsed.words["td"])
    assert any(HOSTILE in text for text in parsed.words["p"])


def test_the_pictures_of_the_page_are_those_of_the_report(page, found):
    text = re.search(r'<script type="application/json" id="pictures">(.*?)</script>', page, re.S)
    drawn = json.loads(text.group(1))
    assert (
        set(drawn) == set(figures(found)) == {"margins", "calibration", "strengths", "projection"}
    )
    for name in drawn:
        assert f'id="plot-{name}"' in page
    names = {trace.get("name") for trace in drawn["projection"]["data"]}
    assert not any(name and "<" in name for name in names)


def test_sections_have_names_and_tables_have_headers(page):
    parsed = Page(page)
    ids = {value for _, name, value in parsed.attributes if name == "id"}
    for tag, name, value in parsed.attributes:
        if name == "aria-labelledby":
            assert value in ids
        if tag == "th" and name == "scope":
            assert value in ("col", "row")
    pictures = [value for tag, name, value in parsed.attributes if name == "aria-label"]
    assert all(pictures)
    assert ("html", "lang", "en") in parsed.attributes


def test_every_kind_of_report_has_a_page():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 1))
    ranks = np.digitize(X[:, 0], [-0.4, 0.4])
    for model in (SVR().fit(X, X[:, 0] ** 2), OrdinalSVC().fit(X, ranks), SVC().fit(X, ranks)):
        assert Page(render(report(model))).stack == []
    kernel = SVC(kernel="precomputed").fit(X @ X.T, ranks > 0)
    text = render(report(kernel))
    assert "plot-projection" not in text


def test_a_report_that_went_through_json_has_the_same_page(found, page):
    assert render(json.loads(json.dumps(found))) == page


def test_what_is_worse_than_a_constant_has_one_colour():
    land = {
        "C": [1.0, 10.0], "gamma": [1.0, 10.0], "error": [[0.1, 1.0], [None, 0.2]], "usual": 0.4,
        "chosen": {"C": 1.0, "gamma": 1.0},
    }  # fmt: skip

    [heat, _] = landscape_figure({"task": "classification", "landscape": land})["data"]
    assert (heat["zmin"], heat["zmax"]) == (0.1, 0.4)
    land["error"][0][1] = 0.3  # all are better: the colours are those of the errors
    [heat, _] = landscape_figure({"task": "classification", "landscape": land})["data"]
    assert "zmax" not in heat


def test_script_data_cannot_end_the_script():
    text = _script_data({"a": "</script>&<!--", "b": "\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script>&<!--", "b": "\u2028"}
    with pytest.raises(ValueError, match="JSON compliant"):
        _script_data([float("nan")])


def test_strings_of_pictures_are_short_and_escaped():
    shown = plain_text({"name": "<b>" + "x" * 100, "hovertemplate": "<br>", "n": [1, None]})
    assert shown["name"].startswith("&lt;b&gt;xxx")
    assert shown["name"].endswith("…")
    assert shown["hovertemplate"] == "<br>"
    assert shown["n"] == [1, None]


def test_a_missing_package_is_named_before_anything_is_done(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    X, y = make_moons(20, random_state=0)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'widemargin\[report\]'"):
        report((X, y), tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused_before_anything_is_done(tmp_path):
    X, y = make_moons(20, random_state=0)
    with pytest.raises(ValueError, match="does not exist: make it"):
        report((X, y), tmp_path / "no folder" / "report.html")
