"""The search for stumps: order, bins, and the least weighted error."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from widemargin.solvers.boosting import bins as _stump_bins
from widemargin.solvers.boosting.bins import EDGES, BinnedColumns, middle
from widemargin.solvers.boosting.loops import sort_column
from widemargin.solvers.boosting.stumps import TIE, Stump, StumpLearner

numbers = st.floats(allow_nan=False, allow_infinity=False, width=64)
singles = st.floats(allow_nan=False, allow_infinity=False, width=32)


def _order(column) -> np.ndarray:
    order = np.empty(len(column), dtype=np.uint32)
    sort_column(column, order)
    return order


# ------------------------------------------------------------------------------- order


@given(column=arrays(np.float64, st.integers(1, 60), elements=numbers))
def test_order_of_any_numbers(column) -> None:
    order = _order(column)
    assert sorted(order.tolist()) == list(range(len(column)))
    assert (np.diff(column[order]) >= 0).all()


@given(column=arrays(np.float32, st.integers(1, 60), elements=singles))
def test_order_of_any_singles(column) -> None:
    assert (np.diff(column[_order(column)]) >= 0).all()


@pytest.mark.parametrize("spread", [1e-300, 1e-12, 1.0, 1e300])
def test_order_of_numbers_that_agree_in_single_precision(spread: float) -> None:
    """Long runs of equal keys: 1 + tiny, and values beyond the range of float32."""
    column = np.random.default_rng(0).normal(size=3000) * spread + (spread < 1e-3)
    np.testing.assert_array_equal(column[_order(column)], np.sort(column))


# -------------------------------------------------------------------------------- bins


def test_codes_count_the_edges_below() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=5000), rng.integers(0, 9, 5000), np.ones(5000)])
    columns = BinnedColumns(X, 0, 1)
    for f in range(3):
        edges = columns.edges[f][np.isfinite(columns.edges[f])]
        assert (np.diff(edges) > 0).all()
        np.testing.assert_array_equal(columns.codes[f], np.searchsorted(edges, X[:, f]))
    assert columns.single.tolist() == [False, True, True]
    counts = np.bincount(columns.codes[0])
    assert len(counts) == EDGES
    assert counts.max() <= 2 * 5000 / EDGES
    assert np.isinf(columns.edges[2]).all()


def test_a_sample_that_misses_values_is_not_believed() -> None:
    """Rare values, and columns that are constant but for a few of many different values."""
    rng = np.random.default_rng(0)
    n = _stump_bins.SAMPLE * 3
    X = np.zeros((n, 2))
    X[rng.choice(n, 20, replace=False), 0] = rng.integers(1, 200, 20)
    X[rng.choice(n, 600, replace=False), 1] = rng.normal(size=600)
    columns = BinnedColumns(X, 0, 1)
    assert columns.single.tolist() == [True, False]
    assert len(np.unique(columns.codes[0])) == len(np.unique(X[:, 0]))
    np.testing.assert_array_equal(columns.codes[1], np.searchsorted(columns.edges[1][:-1], X[:, 1]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_columns_have_the_bins_of_dense_ones(dtype) -> None:
    X = sp.random_array((900, 20), density=0.4, random_state=np.random.default_rng(0), dtype=dtype)
    sparse, dense = BinnedColumns(X.tocsr(), 0, 2), BinnedColumns(X.toarray(), 0, 1)
    np.testing.assert_array_equal(sparse.codes, dense.codes)
    np.testing.assert_array_equal(sparse.edges, dense.edges)
    np.testing.assert_array_equal(sparse.column(3), dense.column(3))
    assert sparse.column(3).dtype == dtype


@given(low=numbers, high=numbers)
def test_the_middle_separates(low: float, high: float) -> None:
    low, high = min(low, high), max(low, high)
    if low < high:
        assert low <= middle(low, high) < high


def test_the_middle_of_neighbours() -> None:
    for low in (1.0, -1.0, 0.0, 5e-324, 1e308, -1.7976931348623157e308):
        high = np.nextafter(low, np.inf)
        assert low <= middle(low, high) < high


# ------------------------------------------------------------------------------ search


def _brute_force(X, positive, mass) -> Stump:
    """Try every stump in the order of ties, by sums over ordered columns."""
    y, total = np.where(positive, 1.0, -1.0), mass.sum()
    found = []
    for feature in range(X.shape[1]):
        values = np.unique(X[:, feature])
        thresholds = [-np.inf, *(0.5 * values[:-1] + 0.5 * values[1:])]
        below = np.searchsorted(values, X[:, feature])
        balance = np.bincount(below, weights=mass * y, minlength=len(values))
        balance = np.concatenate([[0.0], np.cumsum(balance)[:-1]])
        plus = mass[~positive].sum() + balance
        for threshold, error in zip(thresholds, plus, strict=True):
            found += [(error, feature, threshold, 1), (total - error, feature, threshold, -1)]
    goal = min(error for error, *_ in found) + TIE * total
    return next(Stump(*stump) for error, *stump in found if error <= goal)


def _column(rng, n: int, kind: int) -> np.ndarray:
    if kind == 0:
        return rng.normal(size=n)
    if kind == 1:
        return np.where(rng.random(n) < 0.5, 0.0, rng.normal(size=n))  # one heavy bin
    if kind == 2:
        return rng.integers(0, 40, n).astype(float)
    return 1e6 + rng.random(n) * 1e-6 if kind == 3 else np.exp(8 * rng.normal(size=n))


def _search(seed: int):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(300, 1500))
    X = np.column_stack([_column(rng, n, kind) for kind in rng.integers(0, 5, 6)])
    rank = X.argsort(axis=0).argsort(axis=0) / n
    positive = (rank[:, 0] > 0.6) ^ (rng.random(n) < 0.2 + 0.2 * (seed % 2))
    return rng, X, positive


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_exact_search_equals_brute_force(seed: int, threads: int, monkeypatch) -> None:
    """Weights grow round by round, so that sums are kept up to date and not made afresh."""
    monkeypatch.setattr("widemargin.solvers.boosting.stumps.WORTH_A_THREAD", 0)
    rng, X, positive = _search(seed)
    columns = BinnedColumns(X, 0, threads)
    learner = StumpLearner(columns, positive, exact=True, threads=threads)
    mass, changed = rng.random(len(positive)), None
    for _ in range(8):
        stump = learner.learn(mass, changed)
        assert stump == _brute_force(X, positive, mass)
        says = (X[:, stump.feature] > stump.threshold) == (stump.sign > 0)
        np.testing.assert_array_equal(learner.predictions(stump), says)
        changed = np.flatnonzero(says != positive)
        mass = mass.copy()
        mass[changed] *= rng.uniform(1.2, 3.0)


@pytest.mark.parametrize("seed", range(6))
def test_histogram_search_is_the_best_between_bins(seed: int) -> None:
    rng, X, positive = _search(seed)
    columns = BinnedColumns(X, 0, 1)
    learner = StumpLearner(columns, positive, exact=False, threads=1)
    mass = rng.random(len(positive))
    binned = columns.codes.T.astype(float)
    expected = _brute_force(binned, positive, mass)
    stump = learner.learn(mass, None)
    assert (stump.feature, stump.sign) == (expected.feature, expected.sign)
    np.testing.assert_array_equal(
        X[:, stump.feature] > stump.threshold, binned[:, stump.feature] > expected.threshold
    )


def test_pure_noise_is_searched_exactly() -> None:
    """No feature stands out: every bin has to be read, and the answer is still the first best."""
    rng = np.random.default_rng(3)
    X, positive = rng.normal(size=(2000, 8)), rng.random(2000) < 0.5
    learner = StumpLearner(BinnedColumns(X, 0, 2), positive, exact=True, threads=2)
    mass = np.ones(2000)
    assert learner.learn(mass, None) == _brute_force(X, positive, mass)


def test_ties_go_to_the_first_feature_threshold_and_sign() -> None:
    X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    positive = np.array([False, True, False, True])
    learner = StumpLearner(BinnedColumns(X, 0, 1), positive, exact=True, threads=1)
    # +1 above 0.5 and +1 above 2.5 both err on one row; so do both in the second feature.
    assert learner.learn(np.ones(4), None) == Stump(0, 0.5, 1)
    # Less weight on the negatives changes nothing, until they weigh no more than a tie.
    mass = np.array([0.1, 1.0, 0.1, 1.0])
    assert learner.learn(mass, None) == Stump(0, 0.5, 1)
    assert learner.learn(np.array([1e-14, 1.0, 1e-14, 1.0]), None) == Stump(0, -np.inf, 1)
    assert learner.constant(False) == Stump(0, -np.inf, -1)
    assert not learner.predictions(learner.constant(False)).any()
