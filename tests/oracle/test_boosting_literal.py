"""AdaBoost equals a literal run of Table 1.2 with stumps found by trying every one of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from widemargin import AdaBoostClassifier, bounds

CLOSE = 1e-12
TIE = 1e-12


# ------------------------------------------------------------------ the literal run


@dataclass
class Literal:
    """What Table 1.2 returns, and its distributions."""

    stumps: list
    errors: list
    alphas: list
    distributions: list
    f: np.ndarray


def _all_stumps(X):
    """Every stump in the order of ties: feature, threshold, sign; the constant comes first."""
    for feature in range(X.shape[1]):
        values = sorted(set(X[:, feature].tolist()))
        middles = [0.5 * a + 0.5 * b for a, b in pairwise(values)]
        for threshold in [-inf, *middles]:
            for sign in (1, -1):
                yield feature, threshold, sign


def _says(stump, X):
    feature, threshold, sign = stump
    return np.where(X[:, feature] > threshold, sign, -sign)


def _weighted_error(stump, X, y, D):
    return float(sum(d for d, h, label in zip(D, _says(stump, X), y, strict=True) if h != label))


def _learn(stumps, wrong, D):
    """(1.85): the first stump whose weighted error is the least, but for ties."""
    errors = np.array([sum(D[w].tolist()) for w in wrong])
    return stumps[int(np.flatnonzero(errors <= errors.min() + TIE * D.sum())[0])]


def literal_adaboost(X, y, T, weight=None):
    m = len(y)
    D = np.full(m, 1.0 / m) if weight is None else weight / weight.sum()
    stumps = list(_all_stumps(X))
    wrong = [np.flatnonzero(_says(stump, X) != y) for stump in stumps]
    run = Literal([], [], [], [], np.zeros(m))
    for _ in range(T):
        g = _learn(stumps, wrong, D)
        eps = _weighted_error(g, X, y, D)
        if eps == 0.0:
            return Literal([g], [0.0], [1.0], [D], 1.0 * _says(g, X))
        if eps >= 0.5 - TIE:
            break
        alpha = 0.5 * log((1.0 - eps) / eps)
        Z = 2.0 * sqrt(eps * (1.0 - eps))
        run.stumps.append(g)
        run.errors.append(eps)
        run.alphas.append(alpha)
        run.distributions.append(D)
        right = _says(g, X) == y
        D = np.array([d * exp(-alpha if ok else alpha) / Z for d, ok in zip(D, right, strict=True)])
    total = sum(a * _says(g, X) for a, g in zip(run.alphas, run.stumps, strict=True))
    run.f = total / sum(run.alphas)
    return run


# ------------------------------------------------------------------------ the data


def _problem(seed: int):
    """Rows with ties, equal rows of both classes, columns of few values, and weights."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 60)), int(rng.integers(1, 6))
    X = rng.normal(size=(n, d))
    kind = seed % 4
    if kind == 1:
        X = np.round(X)
    if kind == 2:
        X = np.column_stack([X, X[:, 0], -X[:, 0], np.zeros(n)])
    if kind == 3:
        X = X[rng.integers(0, n, n)].round(1)
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    weight = rng.integers(1, 5, n).astype(float) if seed % 3 == 0 else None
    return X, y, weight


@pytest.mark.parametrize("binning", ["exact", "histogram"])
@pytest.mark.parametrize("seed", range(60))
def test_equals_the_literal_run(seed: int, binning: str) -> None:
    X, y, weight = _problem(seed)
    literal = literal_adaboost(X, y, 25, weight)
    assert literal.errors, "the data of this test have an edge"
    model = AdaBoostClassifier(25, binning=binning).fit(X, y, sample_weight=weight)
    assert [tuple(stump) for stump in model.estimators_] == literal.stumps
    np.testing.assert_allclose(model.errors_, literal.errors, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(model.alphas_, literal.alphas, rtol=CLOSE, atol=CLOSE)
    np.testing.assert_allclose(model.margins_, y * literal.f, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(model.decision_function(X), literal.f, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("seed", [0, 2, 4, 7, 9, 11])
def test_equals_the_literal_run_after_many_rounds(seed: int) -> None:
    """Sums that are kept up to date, and from time to time made afresh, stay exact."""
    X, y, weight = _problem(seed)
    literal = literal_adaboost(X, y, 100, weight)
    model = AdaBoostClassifier(100).fit(X, y, sample_weight=weight)
    assert model.n_rounds_ > 64
    assert [tuple(stump) for stump in model.estimators_] == literal.stumps
    np.testing.assert_allclose(model.errors_, literal.errors, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(model.margins_, y * literal.f, rtol=0, atol=CLOSE)


def test_equals_the_literal_run_on_columns_of_many_values() -> None:
    """More than 255 values a column: the best cut is inside a bin, and columns are sorted."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=(900, 2)), rng.exponential(size=900).round(2)])
    y = np.where(X[:, 0] + np.abs(X[:, 1]) + X[:, 2] + rng.normal(size=900) > 1.8, 1, -1)
    literal = literal_adaboost(X, y, 12)
    model = AdaBoostClassifier(12).fit(X, y)
    assert [tuple(stump) for stump in model.estimators_] == literal.stumps
    np.testing.assert_allclose(model.errors_, literal.errors, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(model.margins_, y * literal.f, rtol=0, atol=CLOSE)


# ------------------------------------------------------------- what the theory says


@pytest.mark.parametrize("seed", range(20))
def test_bound_at_zero_is_the_mean_exponential_loss(seed: int) -> None:
    X, y, weight = _problem(seed)
    model = AdaBoostClassifier(15).fit(X, y, sample_weight=weight)
    F = model.decision_function(X) * model.alphas_.sum()
    loss = np.average(np.exp(-y * F), weights=weight)
    if model.stopped_ == "perfect":
        assert model.margin_bound(0.0) == 0.0
    else:
        assert model.margin_bound(0.0) == pytest.approx(loss, rel=1e-11)


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_holds_at_every_margin(seed: int) -> None:
    X, y, weight = _problem(seed)
    model = AdaBoostClassifier(15).fit(X, y, sample_weight=weight)
    for rho in np.linspace(-0.5, 0.9, 15):
        share = np.average(model.margins_ < rho, weights=weight)
        assert share <= model.margin_bound(rho) + 1e-12


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 5, 9, 12])
def test_the_previous_hypothesis_errs_on_half_of_the_weight(seed: int) -> None:
    """D is rebuilt from the model alone: D_t is proportional to s exp(-y F_{t-1})."""
    X, y, weight = _problem(seed)
    weight = np.ones(len(y)) if weight is None else weight
    model = AdaBoostClassifier(15).fit(X, y, sample_weight=weight)
    assert model.stopped_ != "perfect"
    F = np.zeros(len(y))
    for stump, alpha, error in zip(model.estimators_, model.alphas_, model.errors_, strict=True):
        D = weight * np.exp(-y * F)
        wrong = _says(stump, X) != y
        assert D[wrong].sum() / D.sum() == pytest.approx(error, abs=1e-11)
        F += alpha * _says(stump, X)
        D = weight * np.exp(-y * F)
        assert D[wrong].sum() / D.sum() == pytest.approx(0.5, abs=1e-11)


@pytest.mark.parametrize("reg", [0.0, 30.0])
@pytest.mark.parametrize("seed", range(16))
def test_the_largest_margin_is_between_the_least_margin_and_its_limit(seed, reg) -> None:
    """The largest margin by a linear program over all stumps."""
    X, y, weight = _problem(seed)
    model = AdaBoostClassifier(60, reg=reg).fit(X, y, sample_weight=weight)
    A = np.array([y * _says(stump, X) for stump in _all_stumps(X)]).T
    n, k = A.shape
    program = linprog(
        np.append(np.zeros(k), -1.0),
        A_ub=np.column_stack([-A, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[np.append(np.ones(k), 0.0)],
        b_eq=[1.0],
        bounds=[(0, None)] * k + [(None, None)],
    )
    assert model.margins_.min() <= -program.fun + 1e-9
    assert -program.fun <= model.margin_limit_ + 1e-9


def test_the_bound_is_a_product_by_hand() -> None:
    X, y, _ = _problem(4)
    model = AdaBoostClassifier(8).fit(X, y)
    by_hand = 1.0
    for eps in model.errors_.tolist():
        by_hand *= 2.0 * sqrt(eps ** (1.0 - 0.1) * (1.0 - eps) ** (1.0 + 0.1))
    assert model.margin_bound(0.1) == pytest.approx(by_hand, rel=1e-12)
    assert model.margin_bound(0.1) == bounds.adaboost(model.errors_, 0.1)


# ------------------------------------------------------------------------ AdaBoost_Reg


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6])
@pytest.mark.parametrize("power", [1, 2])
def test_a_vanishing_regularisation_is_adaboost(seed: int, power: float) -> None:
    """The line search finds b = 2 alpha, and the rounds follow."""
    X, y, weight = _problem(seed)
    plain = AdaBoostClassifier(10).fit(X, y, sample_weight=weight)
    soft = AdaBoostClassifier(10, reg=1e-300, reg_power=power).fit(X, y, sample_weight=weight)
    assert soft.estimators_ == plain.estimators_
    np.testing.assert_allclose(soft.alphas_, plain.alphas_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(soft.margins_, plain.margins_, rtol=0, atol=1e-7)


def _regularised_loss(b, t, says, y, weight, shares, C, p):
    """The loss of the first t + 1 rounds by its definition, from all coefficients b."""
    size = b.sum()
    c = b / size
    rho = y * (c @ says[: t + 1])
    mu = c @ shares
    return float(weight @ np.exp(-size * (rho + C * mu**p) / 2.0))


@pytest.mark.parametrize(("C", "p"), [(30.0, 2), (1.0, 1), (200.0, 2), (5.0, 1.5)])
@pytest.mark.parametrize("seed", [0, 4, 6, 8])
def test_each_regularised_step_is_the_minimum_along_its_hypothesis(seed, C, p) -> None:
    """Weights and losses are computed here from the definition, round by round."""
    X, y, weight = _problem(seed)
    weight = np.ones(len(y)) if weight is None else weight
    model = AdaBoostClassifier(8, reg=C, reg_power=p).fit(X, y, sample_weight=weight)
    says = np.array([_says(stump, X) for stump in model.estimators_])
    b = 2.0 * model.alphas_
    shares = [np.full(len(y), 1.0 / weight.sum())]
    for t in range(model.n_rounds_ - (model.stopped_ in ("perfect", "reg"))):
        D = weight * shares[-1]
        assert D[says[t] != y].sum() == pytest.approx(model.errors_[t], abs=1e-9)
        here = [
            _regularised_loss(np.append(b[:t], step), t, says, y, weight, np.array(shares), C, p)
            for step in b[t] * np.array([0.999, 1.0, 1.001])
        ]
        assert here[1] <= min(here)
        c = b[: t + 1] / b[: t + 1].sum()
        rho = y * (c @ says[: t + 1]) + C * (c @ np.array(shares)) ** p
        raw = np.exp(-b[: t + 1].sum() * rho / 2.0)
        shares.append(raw / (weight @ raw))


# -------------------------------------------------------------------------- invariances

rows = st.integers(0, 10_000)


def _same_model(one, other) -> None:
    np.testing.assert_allclose(one.errors_, other.errors_, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(one.alphas_, other.alphas_, rtol=CLOSE, atol=CLOSE)


@given(seed=rows, reg=st.sampled_from([0.0, 20.0]))
def test_permuted_rows_give_the_same_bits(seed: int, reg: float) -> None:
    X, y, weight = _problem(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    one = AdaBoostClassifier(10, reg=reg).fit(X, y, weight)
    other = AdaBoostClassifier(10, reg=reg).fit(
        X[order], y[order], None if weight is None else weight[order]
    )
    assert one.estimators_ == other.estimators_
    np.testing.assert_array_equal(one.alphas_, other.alphas_)
    np.testing.assert_array_equal(one.margins_[order], other.margins_)


@given(seed=rows, reg=st.sampled_from([0.0, 20.0]))
def test_a_weight_is_a_repetition(seed: int, reg: float) -> None:
    X, y, _ = _problem(seed)
    times = np.random.default_rng(seed).integers(0, 4, len(y))
    times[:2] = 1
    one = AdaBoostClassifier(10, reg=reg).fit(X, y, times)
    other = AdaBoostClassifier(10, reg=reg).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert one.estimators_ == other.estimators_
    np.testing.assert_array_equal(one.alphas_, other.alphas_)


@given(seed=rows)
def test_a_monotone_transformation_changes_thresholds_only(seed: int) -> None:
    X, y, weight = _problem(seed)
    one = AdaBoostClassifier(10).fit(X, y, weight)
    other = AdaBoostClassifier(10).fit(np.exp(X) - 3.0, y, weight)
    _same_model(one, other)
    assert [(s.feature, s.sign) for s in one.estimators_] == [
        (s.feature, s.sign) for s in other.estimators_
    ]
    np.testing.assert_allclose(one.margins_, other.margins_, rtol=0, atol=CLOSE)


@given(seed=rows)
def test_flipped_labels_give_the_same_errors_where_no_tie_decides(seed: int) -> None:
    """A tie between the signs of one cut cannot be: it would be an error of exactly 1/2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    weight = rng.random(40) + 0.5  # no two stumps have the same error
    y = np.where(X[:, 0] + rng.normal(size=40) > 0, 1, -1)
    y[:2] = 1, -1
    one = AdaBoostClassifier(10).fit(X, y, weight)
    other = AdaBoostClassifier(10).fit(X, -y, weight)
    _same_model(one, other)
    np.testing.assert_allclose(one.decision_function(X), -other.decision_function(X), atol=CLOSE)
    np.testing.assert_allclose(one.margins_, other.margins_, rtol=0, atol=CLOSE)


@given(seed=rows)
def test_histogram_equals_exact_for_few_values(seed: int) -> None:
    """Up to 255 values a feature, more rows than the sample of quantiles, rare values included."""
    rng = np.random.default_rng(seed)
    n = 20_000
    X = np.column_stack([rng.integers(0, 255, n), rng.integers(0, 3, n), np.zeros(n)])
    X[0, 2], X[1, 2] = 1.0, -1.0  # as rare as can be
    y = np.where(X[:, 0] / 100 + X[:, 1] + rng.normal(size=n) > 2, 1, -1)
    one = AdaBoostClassifier(5).fit(X, y)
    other = AdaBoostClassifier(5, binning="histogram").fit(X, y)
    assert one.estimators_ == other.estimators_
    np.testing.assert_array_equal(one.alphas_, other.alphas_)
    np.testing.assert_array_equal(one.margins_, other.margins_)
