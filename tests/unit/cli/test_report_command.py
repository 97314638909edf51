"""``widemargin report``: a table in, a page and a model out, and the model predicts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import run, write_csv
from widemargin.cli._model_file import load_model
from widemargin.reporting import study
from widemargin.reporting.preparation import prepare
from widemargin.reporting.study import run_study
from widemargin.sources.tables.table import read_table


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")


def mixed(n=60):
    """Numbers with gaps, words, dates, a count and a constant."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=n)
    city = rng.choice(["Oslo", "Rome", "東京"], size=n)
    columns = {
        "id": range(1, n + 1),
        "a": ["" if k % 9 == 0 else f"{a[k]:.4f}" for k in range(n)],
        "city": ["" if k % 11 == 0 else city[k] for k in range(n)],
        "when": [
            "" if k % 13 == 0 else f"2024-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(n)
        ],
        "constant": ["7"] * n,
    }
    columns["kind"] = np.where(a + (city == "Oslo") > 0.2, "yes", "no").tolist()
    columns["size"] = [f"{10 * np.sin(a[k]) + 5 * (city[k] == 'Rome'):.4f}" for k in range(n)]
    return columns


@pytest.mark.parametrize("target", ["kind", "size"])
def test_the_model_predicts_what_the_report_is_about(target):
    columns = mixed()
    del columns["size" if target == "kind" else "kind"]
    write_csv("data.csv", columns)
    out, _ = run("report", "data.csv", "--target", target)
    assert "report data.html model data.skops" in out
    assert "Column &#39;id&#39; was left out" in Path("data.html").read_text("utf-8")
    run("predict", "data.skops", "data.csv", "-o", "predicted.csv")
    with open("predicted.csv", newline="", encoding="utf-8") as handle:
        predicted = [row["prediction"] for row in csv.DictReader(handle)]
    found = run_study(prepare(read_table(Path("data.csv")), target))
    expected = found.pipeline().predict(found.data.X)
    if target == "kind":
        assert predicted == expected.tolist()
        assert np.mean(expected == np.array(columns["kind"])) > 0.8
    else:
        assert np.array(predicted, dtype=float) == pytest.approx(expected)


def test_new_rows_may_have_gaps_everywhere():
    columns = mixed()
    del columns["size"]
    write_csv("data.csv", columns)
    run("report", "data.csv", "-t", "kind", "-o", "a.html", "--model", "b.skops")
    assert sorted(p.name for p in Path().iterdir()) == ["a.html", "b.skops", "data.csv"]
    write_csv("new.csv", {"a": ["", "1.5"], "city": ["", ""], "when": ["", ""]})
    run("predict", "b.skops", "new.csv", "-o", "out.csv")
    assert len(Path("out.csv").read_text().splitlines()) == 3


def test_every_machine_that_may_win_can_be_saved(monkeypatch):
    columns = mixed(40)
    write_csv("data.csv", {"a": columns["a"], "city": columns["city"], "kind": columns["kind"]})
    found = run_study(prepare(read_table(Path("data.csv")), "kind"))
    from widemargin.cli import _report

    for best in found.candidates:
        rest = [c for c in found.candidates if c is not best]
        changed = {**vars(found), "candidates": [best, *rest]}
        _report.saved_model(study.Study(**changed)).save(Path("model.skops"))
        loaded = load_model(Path("model.skops"))
        predicted = loaded.pipeline.predict(loaded.encoding.matrix(read_table(Path("data.csv"))))
        assert np.array_equal(predicted, best.model.predict(found.standardised(found.trained)))


def test_json_is_printed_and_nothing_is_written():
    write_csv("data.csv", {"a": range(20), "b": [k % 7 for k in range(20)], "y": ["u", "v"] * 10})
    out, _ = run("report", "data.csv", "-t", "y", "--json")
    found = json.loads(out)
    assert found["format"] == "widemargin-report-1"
    assert found["data"]["source"] == "data.csv"
    assert [p.name for p in Path().iterdir()] == ["data.csv"]


def test_very_many_rows_are_sampled_with_a_note(monkeypatch):
    monkeypatch.setattr(study, "MOST_ROWS", 40)
    rng = np.random.default_rng(1)
    a = rng.normal(size=300)
    write_csv("data.csv", {"a": a, "y": np.where(a > 0, "u", "v")})
    out, _ = run("report", "data.csv", "-t", "y", "--seed", 3)
    assert "On 260 rows that were not trained on it is wrong on" in out
    page = Path("data.html").read_text("utf-8")
    assert "40 of the 300 rows, drawn at random" in page
    assert "; seed 3." in page


# -- mistakes ------------------------------------------------------------------------------------


def refused(*args, says, code=1):
    before = {p: p.read_bytes() for p in Path().iterdir()}
    _, err = run("report", *args, code=code)
    assert says in err
    assert {p: p.read_bytes() for p in Path().iterdir()} == before


@pytest.fixture
def data():
    write_csv("data.csv", {"a": range(20), "y": ["u", "v"] * 10})
    return "data.csv"


def test_files_that_would_be_lost_are_refused(data):
    refused(data, "-t", "y", "-o", data, says="data.csv is the data: name another file")
    refused(data, "-t", "y", "--model", data, says="data.csv is the data: name another file")
    refused(data, "-t", "y", "-o", "x.skops", says="cannot be the report and the model")
    refused(data, "-t", "y", "-o", "none/x.html", says="does not exist: make it")
    refused(data, "-t", "y", "-o", ".", says="is not a regular file")


def test_mistakes_in_the_command(data):
    refused("-t", "y", says="give a DATA file, or --demo", code=2)
    refused(data, says="name the column to predict with --target", code=2)
    refused("--demo", "-t", "y", says="--demo has its own target", code=2)
    refused("date.csv", "-t", "y", says="There is no file date.csv. Did you mean 'data.csv'?")
    refused(data, "-t", "x", says="no target column 'x'")
    refused(data, "-t", "y", "--task", "regression", says="must be numbers for regression")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"a": [1, 2], "y": ["u", "u"]}, "only one value, 'u': there is nothing to learn"),
        ({"a": [7, 7], "y": ["u", "v"]}, "no column left to learn from. Column 'a' was left out"),
        ({"a": [1, 2], "y": ["", ""]}, "has no value at all"),
    ],
)
def test_data_that_cannot_be_learnt_from(columns, says):
    write_csv("data.csv", columns)
    refused("data.csv", "-t", "y", says=says)
