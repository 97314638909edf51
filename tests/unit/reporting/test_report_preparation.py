"""From any table to numbers: what is used, what is left out, and what is said about it."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from widemargin._base.messages import UserError
from widemargin.reporting import preparation
from widemargin.reporting.preparation import prepare
from widemargin.sources.tables import table as tables
from widemargin.sources.tables.encoding import Encoding, days
from widemargin.sources.tables.table import Table, table_of

LABELS = ["u", "v"] * 6
NUMBERS = np.array([0.5, 1.0, 2.5, 0.0, 3.0, 7.0, 5.0, 4.0, 9.0, 6.0, 8.0, 2.0])


def table(**columns):
    return Table("somewhere", columns, len(next(iter(columns.values()))))


def notes(**columns):
    return prepare(table(a=NUMBERS, **columns, y=LABELS), "y").notes


# -- columns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (np.full(12, 7.0), "it has only one value"),
        (["same"] * 12, "it has only one value"),
        (np.array([7.0, np.nan] * 6), "it has only one value"),
        (np.full(12, np.nan), "it has no value at all"),
        ([""] * 12, "it has no value at all"),
        (np.array([np.inf, *NUMBERS[1:]]), "it has infinite values"),
        (np.arange(12.0) + 5, "it counts the rows"),
        (["2024-05-31"] * 12, "it has only one value"),
    ],
)
def test_columns_that_cannot_be_used_are_left_out_with_a_reason(column, reason):
    assert notes(b=column) == [f"Column 'b' was left out: {reason}."]


def test_text_of_too_many_values_is_left_out(monkeypatch):
    monkeypatch.setattr(preparation, "MOST_LEVELS", 3)
    [note] = notes(b=["k", "l", "m", "n"] * 3)
    assert note == "Column 'b' was left out: it is text with 4 different values."


def test_a_count_is_used_where_it_is_all_there_is():
    assert prepare(table(time=np.arange(12.0), y=LABELS), "y").X[:, 0].tolist() == list(range(12))


def test_without_a_usable_column_every_reason_is_told():
    with pytest.raises(UserError, match=r"no column left.*'a'.*only one value.*'b'.*no value"):
        prepare(table(a=np.ones(12), b=np.full(12, np.nan), y=LABELS), "y")


def test_gaps_are_filled_and_counted():
    numbers = NUMBERS.copy()
    numbers[3] = np.nan
    data = prepare(table(a=numbers, b=["k", "l", ""] * 4, y=LABELS), "y")
    assert data.encoding.input_names == ["a", "b = k", "b = l"]
    assert data.X[3, 0] == np.nanmedian(numbers)
    assert data.X[2, 1:].tolist() == [0.0, 0.0]
    assert np.isfinite(data.X).all()
    assert "5 missing values were filled (in 'a', 'b')" in data.notes[0]
    assert data.notes[1] == "Text became 0/1 columns, one for each value: 'b'."


def test_dates_become_days():
    when = [f"2024-01-{k + 1:02d}" for k in range(0, 24, 2)]
    when[4] = ""
    data = prepare(table(when=when, y=LABELS), "y")
    assert np.diff(data.X[:4, 0]).tolist() == [2.0, 2.0, 2.0]
    assert data.encoding.dates == ["when"]
    assert data.notes[-1] == "Dates became days: 'when'."


def test_days_are_counted_from_1970_in_utc():
    found = days(["1970-01-02", "1970-01-01T12:00:00", "1970-01-01T01:00:00+01:00", ""])
    assert found[:3].tolist() == [1.0, 0.5, 0.0]
    assert np.isnan(found[3])
    assert days(["2024-05-31", "yesterday"]) is None


def test_dates_are_asked_for_again_when_predicting():
    encoding = Encoding(["when"], {}, {"when": 3.0}, ["when"])
    assert encoding.matrix(table(when=["1970-01-02", ""])).ravel().tolist() == [1.0, 3.0]
    # A column without any value is read as numbers.
    assert encoding.matrix(table(when=np.full(2, np.nan))).ravel().tolist() == [3.0, 3.0]
    for wrong in (np.array([1.0, 2.0]), ["soon", "late"]):
        with pytest.raises(UserError, match="'when' of somewhere must be dates such as 2024-05-31"):
            encoding.matrix(table(when=wrong))


# -- targets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "asked", "task"),
    [
        (LABELS, "auto", "classification"),
        (np.array([0.0, 1.0] * 6), "auto", "classification"),
        (np.array([1.0, 2.0, 3.0] * 4), "auto", "ordered"),
        (np.array([1.0, 2.0, 3.0] * 4), "classification", "classification"),
        (np.array([1.0, 2.0, 3.0] * 4), "regression", "regression"),
        (np.array([0.0, 1.0] * 6), "ordered", "ordered"),
        (NUMBERS, "auto", "regression"),
        (["k", "l", "m"] * 4, "auto", "classification"),
    ],
)
def test_the_target_tells_the_task(y, asked, task):
    assert prepare(table(a=NUMBERS, y=y), "y", asked).task == task


def test_rows_without_a_target_are_left_out():
    y = np.array([0.0, 1.0] * 6)
    y[[2, 5]] = np.nan, np.inf
    data = prepare(table(a=NUMBERS, b=["k", "l", "m"] * 4, y=y), "y")
    assert data.rows.tolist() == [0, 1, 3, 4, 6, 7, 8, 9, 10, 11]
    assert data.X[:, 0].tolist() == NUMBERS[data.rows].tolist()
    assert data.notes[0] == "2 rows were left out, without a finite value of 'y'."


@pytest.mark.parametrize(
    ("y", "asked", "message"),
    [
        (["same"] * 12, "auto", "only one value, 'same': there is nothing to learn"),
        (np.full(12, 2.5), "regression", r"only one value, '2.5': there is nothing to learn"),
        ([""] * 12, "auto", "no value at all"),
        (["low", "mid", "high"] * 4, "ordered", "must be whole numbers, which 'high'"),
        (NUMBERS, "ordered", "must be whole numbers"),
        (LABELS, "regression", "must be numbers for regression; 'u' is not"),
    ],
)
def test_targets_that_cannot_be_learnt(y, asked, message):
    with pytest.raises(UserError, match=message):
        prepare(table(a=NUMBERS, y=y), "y", asked)


def test_a_target_of_too_many_classes(monkeypatch):
    monkeypatch.setattr(preparation, "MOST_CLASSES", 5)
    names = [f"person {k}" for k in range(12)]
    with pytest.raises(UserError, match="has 12 different values, too many for classes"):
        prepare(table(a=NUMBERS, y=names), "y")
    with pytest.raises(UserError, match="can be predicted with task regression"):
        prepare(table(a=NUMBERS, y=np.arange(12.0)), "y", "classification")


def test_an_unknown_target_names_those_that_are_near():
    with pytest.raises(UserError, match=r"has no target column 'labell'\. Did you mean 'label'"):
        prepare(table(a=NUMBERS, label=LABELS), "labell")


# -- data in memory ------------------------------------------------------------------------------


def frame():
    return {
        "number": [1.5, None, 2.0],
        "whole": [1, 2, 3],
        "flag": [True, False, None],
        "word": ["a", None, " b "],
        "when": [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 3)],
        "y": ["u", "v", "u"],
    }


def read(data):
    found, target = table_of(data, target="y")
    assert target == "y"
    return found.columns


def test_polars_frames_are_read():
    found = read(pl.DataFrame(frame()))
    assert found["number"] == pytest.approx([1.5, np.nan, 2.0], nan_ok=True)
    assert found["whole"].tolist() == [1.0, 2.0, 3.0]
    assert found["word"] == ["a", "", "b"]
    assert found["when"] == ["2024-01-01T00:00:00", "", "2024-01-03T00:00:00"]
    assert found["flag"] == ["True", "False", ""]


@pytest.mark.parametrize("extension", [False, True], ids=["numpy", "extension"])
def test_pandas_frames_are_read(extension):
    given = pd.DataFrame(frame())
    given["when"] = pd.to_datetime(given["when"])
    given["kind"] = pd.Categorical(["k", None, "l"])
    given["span"] = pd.to_timedelta([1, 2, 3], unit="D")
    found = read(given.convert_dtypes() if extension else given)
    assert found["number"] == pytest.approx([1.5, np.nan, 2.0], nan_ok=True)
    assert found["whole"].tolist() == [1.0, 2.0, 3.0]
    assert found["word"] == ["a", "", "b"]
    assert found["kind"] == ["k", "", "l"]
    assert found["span"].tolist() == [1.0, 2.0, 3.0]
    assert found["when"] == ["2024-01-01T00:00:00", "", "2024-01-03T00:00:00"]
    assert found["flag"] == ["True", "False", ""]


def test_matrices_are_read():
    X = np.array([[1.0, 0.0], [0.0, 2.0]])
    for given in (X, X.tolist(), sp.csr_array(X)):
        found, target = table_of(given, pd.Series(["u", "v"], name="kind"))
        assert target == "kind"
        assert found.columns["input 2"].tolist() == [0.0, 2.0]
        assert found.columns["kind"] == ["u", "v"]
    found, target = table_of(np.array([[1, "a"], [2, "b"]], dtype=object), [0, 1], target="t")
    assert target == "t"
    assert found.columns["input 1"].tolist() == [1.0, 2.0]
    assert found.columns["input 2"] == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "y", "target", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), None, "a", "more than one column 'a'"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), None, "1", "more than one column '1'"),
        (pd.DataFrame({"a": [1]}), None, None, "Name the column to predict"),
        (pd.DataFrame({"a": [1]}), [1], "a", "a column 'a' already"),
        (pd.DataFrame({"a": [1]}), None, "b", "no target column 'b'"),
        (np.ones((2, 2)), [1, 2, 3], None, r"as many rows; got columns of \[2, 3\]"),
        (np.ones((2, 2)), np.ones((2, 2)), None, "'target' must have one value a row"),
        (np.ones(3), [1, 2, 3], None, r"its shape is \(3,\)"),
        (np.ones((0, 2)), [], None, "have no rows"),
    ],
)
def test_data_that_are_no_table(data, y, target, message):
    with pytest.raises(UserError, match=message):
        table_of(data, y, target=target)


def test_sparse_data_too_large_for_a_table(monkeypatch):
    monkeypatch.setattr(tables, "MOST_DENSE", 10)
    with pytest.raises(UserError, match="fit a machine on it, and report on that"):
        table_of(sp.csr_array((4, 3)), [0, 1, 0, 1])
