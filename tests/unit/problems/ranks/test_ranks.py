"""The order of the labels of an ordinal problem."""

from __future__ import annotations

import linecache
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from widemargin import OrdinalSVC
from widemargin.problems.ranks import ordered_classes, used_ranks

SIZES = ["small", "medium", "large"]
WORDS = ["large", "small", "medium", "small"]


def _ordered(y, classes=None):
    labels, codes = ordered_classes(y, classes)
    return labels.tolist(), codes.tolist()


@pytest.mark.parametrize(
    "y",
    [
        pd.Categorical(WORDS, SIZES, ordered=True),
        pd.Series(pd.Categorical(WORDS, SIZES, ordered=True), index=[7, 3, 5, 1]),
        pl.Series(WORDS, dtype=pl.Enum(SIZES)),
    ],
    ids=["Categorical", "Series", "Enum"],
)
def test_ordered_categoricals_bring_their_order(y) -> None:
    assert _ordered(y) == (SIZES, [2, 0, 1, 0])
    # What the user says goes before what the column says.
    assert _ordered(y, SIZES[::-1]) == (SIZES[::-1], [0, 2, 1, 2])


@pytest.mark.parametrize(
    "y",
    [
        WORDS,
        np.array(WORDS, dtype=object),
        pd.Series(WORDS),
        pd.Categorical(WORDS, SIZES),
        pl.Series(WORDS),
        pl.Series(WORDS, dtype=pl.Categorical),
    ],
    ids=["list", "object", "Series", "unordered", "polars", "polars unordered"],
)
def test_plain_strings_are_alphabetical_and_say_so(y) -> None:
    with pytest.warns(UserWarning, match="'large' < 'medium' < 'small'.*classes="):
        assert _ordered(y) == (["large", "medium", "small"], [0, 2, 1, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _ordered(y, SIZES) == (SIZES, [2, 0, 1, 0])


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.uint8, object])
def test_numbers_have_the_order_of_numbers(kind) -> None:
    y = np.array([7, 1, 3, 10], dtype=kind)
    assert _ordered(y) == ([1, 3, 7, 10], [2, 0, 1, 3])
    assert ordered_classes(y)[0].dtype == y.dtype
    assert _ordered(y, [10, 7, 3, 1]) == ([10, 7, 3, 1], [1, 3, 2, 0])


def test_truth_values_and_columns() -> None:
    assert _ordered([True, False]) == ([False, True], [1, 0])
    assert _ordered(np.array([[3], [1], [2]])) == ([1, 2, 3], [2, 0, 1])


def test_labels_that_do_not_occur_are_no_ranks() -> None:
    assert _ordered(["c", "a"], ["c", "b", "a"]) == (["c", "a"], [0, 1])
    categorical = pd.Categorical(["large", "small"], SIZES, ordered=True)
    assert _ordered(categorical) == (["small", "large"], [1, 0])


def test_many_strings_are_shown_in_part() -> None:
    with pytest.warns(UserWarning, match=r"'a' < .* < 'g' < \.\.\. < 'z'\."):
        ordered_classes(list("abcdefghijklmnopqrstuvwxyz"))


def test_the_warning_points_at_the_caller_of_fit() -> None:
    with pytest.warns(UserWarning, match="alphabetical") as caught:
        OrdinalSVC().fit([[0.0], [1.0]], ["b", "a"])
    assert "OrdinalSVC().fit" in linecache.getline(caught[0].filename, caught[0].lineno)


def test_dropped_rows_take_their_rank_along() -> None:
    labels, codes = used_ranks(np.array(["a", "b", "c"]), np.array([2, 0, 2]))
    assert labels.tolist() == ["a", "c"]
    assert codes.tolist() == [1, 0, 1]


@pytest.mark.parametrize("y", [[3, 3, 3], np.array(["a"]), pd.Categorical(["b"], ["a", "b"])])
def test_one_rank_is_refused(y) -> None:
    with pytest.raises(ValueError, match="at least two ranks; got one class"):
        ordered_classes(y, ["a", "b", 3])


def test_a_label_outside_the_classes_is_named() -> None:
    with pytest.raises(ValueError, match=r"y holds 'huge', not among classes: 'small', 'large'"):
        ordered_classes(["small", "huge", "large"], ["small", "large"])


@pytest.mark.parametrize("classes", ["abc", 3, ["a"], ["a", "a"], [["a"], ["b"]], {"a", "b"}])
def test_classes_must_be_a_sequence_of_labels(classes) -> None:
    with pytest.raises(ValueError, match="classes must be a sequence of two or more"):
        ordered_classes(["a", "b"], classes)


@pytest.mark.parametrize(
    "y", [["a", None, "b"], pl.Series(["a", None, "b"]), np.array([1, "a"], dtype=object)]
)
def test_missing_and_mixed_labels_are_refused(y) -> None:
    with pytest.raises(ValueError, match="labels of one kind, none missing"):
        ordered_classes(y)


@pytest.mark.parametrize("y", [[1.0, np.nan, 2.0], pd.Categorical(["a", None, "b"], ordered=True)])
def test_nan_is_no_rank(y) -> None:
    with pytest.raises(ValueError, match="none missing"):
        ordered_classes(y)
