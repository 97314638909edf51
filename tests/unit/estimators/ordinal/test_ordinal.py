"""OrdinalSVC: the model it returns, what leaves it unchanged, queries, thresholds and its edges."""

from __future__ import annotations

import pickle
import warnings
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, OrdinalSVC, loo, metrics, suspects
from widemargin._base.validation import canonical
from widemargin.fitted.ordinal import rank_thresholds
from widemargin.problems.preference import preference_problem

FRESH = np.random.default_rng(99).normal(size=(30, 3))
LOSSES = ["hinge", "squared_hinge"]
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_kernel = pytest.mark.parametrize("kernel", ["linear", "rbf"])
each_rule = pytest.mark.parametrize("rule", ["optimal", "margin"])
seeds = st.integers(0, 10_000)


def _data(seed: int = 0, n: int = 40, q: int = 4, *, digits: int = 3):
    """Rows of q ranks that overlap; few digits give equal rows, some of different rank."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, 3)), digits)
    f = X @ [1.5, -1.0, 0.5] + 0.5 * rng.normal(size=n)
    return X, np.argsort(np.argsort(f)) * q // n


def _pairs(y, qid=None):
    """All pairs (i, j) of a query with y_i > y_j."""
    qid = np.zeros(len(y)) if qid is None else np.asarray(qid)
    return np.nonzero((y[:, None] > y[None, :]) & (qid[:, None] == qid[None, :]))


def _pair_loss(f, y, C, loss, weight=None, qid=None) -> float:
    i, j = _pairs(y, qid)
    weight = np.ones(len(y)) if weight is None else weight
    slack = np.maximum(0.0, 1.0 - (f[i] - f[j]))
    return C * float((weight[i] * weight[j]) @ (slack if loss == "hinge" else slack**2))


# ---------------------------------------------------------------- the model and its certificate


@each_loss
@each_kernel
@pytest.mark.parametrize("queries", [False, True])
def test_the_certificate_is_that_of_the_model(loss: str, kernel: str, queries: bool) -> None:
    """The primal, summed over the pairs one by one; the dual must not be above any model's."""
    X, y = _data(1)
    rng = np.random.default_rng(5)
    weight = rng.integers(0, 3, len(y)).astype(float)
    qid = rng.integers(0, 5, len(y)) if queries else None
    model = OrdinalSVC(kernel=kernel, loss=loss, C=0.3, tol=1e-7)
    model.fit(X, y, sample_weight=weight, qid=qid)
    if kernel == "linear":
        norm2 = float(model.coef_ @ model.coef_)
    else:
        beta = model.dual_coef_[0]
        K = rbf_kernel(model.support_vectors_, gamma=model.gamma_)
        norm2 = float(beta @ K @ beta)
    f = model.utility(X)
    primal = 0.5 * norm2 + _pair_loss(f, y, 0.3, loss, weight, qid)
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(primal, rel=1e-9)
    assert -1e-12 * primal <= certificate.gap <= 1e-7 * primal
    assert certificate.converged
    i, j = _pairs(y, qid)
    assert model.n_pairs_ == float(weight[i] @ weight[j])


@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_the_linear_machine_is_at_the_optimum(C: float) -> None:
    """Against a general minimiser of the sum over pairs, which is smooth."""
    X, y = _data(2, n=30)
    i, j = _pairs(y)
    D = X[i] - X[j]

    def objective(w):
        slack = np.maximum(0.0, 1.0 - D @ w)
        return 0.5 * w @ w + C * slack @ slack, w - 2.0 * C * (slack @ D)

    best = minimize(objective, np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-9})
    model = OrdinalSVC(kernel="linear", loss="squared_hinge", C=C, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, best.x, rtol=1e-5, atol=1e-6)
    assert model.certificate_.dual <= best.fun * (1 + 1e-9)
    assert model.certificate_.primal >= best.fun * (1 - 1e-9)


@each_loss
def test_linear_is_the_linear_kernel(loss: str) -> None:
    X, y = _data(3)
    model = OrdinalSVC(kernel="linear", loss=loss, C=0.2, tol=1e-9).fit(X, y)
    other = OrdinalSVC(kernel="precomputed", loss=loss, C=0.2, tol=1e-9).fit(X @ X.T, y)
    assert model.certificate_.primal == pytest.approx(other.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(model.utility(FRESH), other.utility(FRESH @ X.T), atol=1e-3)
    np.testing.assert_allclose(model.thresholds_, other.thresholds_, atol=1e-3)


@each_loss
@each_kernel
def test_sparse_rows_give_the_dense_model(loss: str, kernel: str) -> None:
    X, y = _data(4, digits=0)
    dense = OrdinalSVC(kernel=kernel, loss=loss, tol=1e-8).fit(X, y)
    sparse = OrdinalSVC(kernel=kernel, loss=loss, tol=1e-8).fit(sp.csr_array(X), y)
    assert sparse.certificate_.primal == pytest.approx(dense.certificate_.primal, rel=2e-8)
    np.testing.assert_allclose(sparse.utility(X), dense.utility(sp.csr_array(X)), atol=2e-3)


def test_many_sparse_features_are_never_made_dense(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    X = sp.random(3_000, 5_000, density=0.002, random_state=1, format="csr")
    y = np.digitize(X @ rng.normal(size=5_000), [-0.3, 0.3])
    made: list[int] = []
    original = sp.csr_matrix.toarray

    def seen(self, *args, **kwargs):
        made.append(self.shape[0] * self.shape[1])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(type(X), "toarray", seen)
    model = OrdinalSVC(kernel="linear", C=1.0, C_scale="total", tol=1e-3).fit(X, y)
    assert model.certificate_.converged
    assert model.coef_.shape == (5_000,)
    assert max(made, default=0) < X.shape[0] * X.shape[1] / 100


def test_float32_rows_stay_and_give_the_same_model() -> None:
    X, y = _data(5)
    X = np.round(X, 1).astype(np.float32)
    one = OrdinalSVC(tol=1e-8).fit(X, y)
    other = OrdinalSVC(tol=1e-8).fit(X.astype(np.float64), y)
    assert one.support_vectors_.dtype == np.float32
    np.testing.assert_allclose(one.utility(X), other.utility(X), atol=1e-3)


def test_attributes_of_both_kinds_of_machine() -> None:
    X, y = _data(6)
    model = OrdinalSVC().fit(X, y)
    n = len(model.support_)
    assert model.dual_coef_.shape == (1, n)
    assert abs(model.dual_coef_.sum()) < 1e-9 * np.abs(model.dual_coef_).sum()
    assert model.n_support_.sum() == n
    assert len(model.n_support_) == 4
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.gamma_ == pytest.approx(1.0 / (3 * X.var()))
    assert not hasattr(model, "coef_")
    assert is_classifier(model)
    assert model.n_iter_ >= 1
    model.set_params(kernel="linear").fit(X, y)  # nothing of the earlier fit is left
    assert model.coef_.shape == (3,)
    assert not hasattr(model, "dual_coef_")


@pytest.mark.parametrize("queries", [False, True])
def test_the_l1_norm_leaves_few_weights(queries: bool) -> None:
    """Against the linear program over all pairs."""
    X, y = _data(27, n=30)
    X = np.column_stack([X, np.random.default_rng(3).normal(size=(30, 5))])
    qid = np.arange(30) % 3 if queries else None
    i, j = _pairs(y, qid)
    n = len(i)
    D = X[i] - X[j]
    C = 0.02
    best = linprog(
        np.concatenate([np.ones(16), np.full(n, C)]),
        A_ub=np.hstack([-D, D, -np.eye(n)]),
        b_ub=-np.ones(n),
    )
    machine = OrdinalSVC(kernel="linear", norm=1, C=C, tol=1e-8, pooled_ranks=True)
    model = machine.fit(X, y, qid=qid)
    assert model.certificate_.primal == pytest.approx(best.fun, rel=1e-7)
    assert model.certificate_.dual <= best.fun * (1 + 1e-9)
    primal = np.abs(model.coef_).sum() + _pair_loss(model.utility(X), y, C, "hinge", None, qid)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    assert np.count_nonzero(model.coef_) < 8
    assert model.predict(X).shape == (30,)
    with pytest.raises(ValueError, match=r"norm=1|qid"):
        loo.result(model)


@each_loss
def test_the_total_scale_shares_the_cost_by_all_pairs(loss: str) -> None:
    X, y = _data(7)
    total = OrdinalSVC(loss=loss, C=50.0, C_scale="total").fit(X, y)
    pair = OrdinalSVC(loss=loss, C=50.0 / total.n_pairs_).fit(X, y)
    np.testing.assert_array_equal(total.utility(FRESH), pair.utility(FRESH))
    twice = OrdinalSVC(loss=loss, C=50.0, C_scale="total").fit(np.tile(X, (2, 1)), np.tile(y, 2))
    np.testing.assert_allclose(twice.utility(FRESH), total.utility(FRESH), rtol=1e-9)


# ---------------------------------------------------------------- what leaves the utility as it is


@given(seeds, st.sampled_from(LOSSES), st.sampled_from(["linear", "rbf"]))
def test_only_the_order_of_labels_counts(seed: int, loss: str, kernel: str) -> None:
    X, y = _data(seed, n=25, digits=1)
    model = OrdinalSVC(kernel=kernel, loss=loss).fit(X, y)
    other = clone(model).fit(X, np.array([-7.0, 1.0, 2.0, 1e6])[y])
    np.testing.assert_array_equal(model.utility(FRESH), other.utility(FRESH))
    np.testing.assert_array_equal(other.classes_, [-7.0, 1.0, 2.0, 1e6])


@given(seeds, st.sampled_from(LOSSES), st.sampled_from(["linear", "rbf"]))
def test_reversing_the_ranks_reverses_the_utility(seed: int, loss: str, kernel: str) -> None:
    X, y = _data(seed, n=25, digits=1)
    model = OrdinalSVC(kernel=kernel, loss=loss, tol=1e-9).fit(X, y)
    other = clone(model).fit(X, -y)
    assert other.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-9)
    np.testing.assert_allclose(other.utility(FRESH), -model.utility(FRESH), atol=2e-3)


@given(seeds, st.sampled_from(LOSSES), st.booleans())
def test_order_repetition_and_weight_give_the_same_bits(seed, loss, queries) -> None:
    X, y = _data(seed, n=25, digits=0)
    rng = np.random.default_rng(seed)
    qid = rng.integers(0, 3, 25) if queries else None
    times = rng.integers(0, 3, 25)
    times[[int(np.flatnonzero(y == r)[0]) for r in range(4)]] = 1
    often = rng.permutation(np.repeat(np.arange(25), times))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* queries have rows of one rank only")
        weighted = OrdinalSVC(loss=loss, pooled_ranks=True).fit(X, y, sample_weight=times, qid=qid)
        repeated = OrdinalSVC(loss=loss, pooled_ranks=True).fit(
            X[often], y[often], qid=None if qid is None else qid[often]
        )
    np.testing.assert_array_equal(weighted.utility(FRESH), repeated.utility(FRESH))
    np.testing.assert_array_equal(weighted.thresholds_, repeated.thresholds_)
    assert weighted.certificate_.primal == repeated.certificate_.primal


@given(seeds, st.sampled_from(LOSSES))
def test_doubled_rows_with_a_quarter_of_the_cost(seed: int, loss: str) -> None:
    X, y = _data(seed, n=25, digits=1)
    model = OrdinalSVC(loss=loss, C=1.0).fit(X, y)
    double = OrdinalSVC(loss=loss, C=0.25).fit(np.tile(X, (2, 1)), np.tile(y, 2))
    np.testing.assert_allclose(double.utility(FRESH), model.utility(FRESH), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(double.thresholds_, model.thresholds_, rtol=1e-9, atol=1e-12)


@given(seeds, st.sampled_from(LOSSES))
def test_terms_of_one_row_in_the_kernel_change_nothing(seed: int, loss: str) -> None:
    """k(x, z) + g(x) + g(z): differences of utilities and the objective are the same."""
    X, y = _data(seed, n=25, digits=1)
    K = rbf_kernel(X, gamma=0.3)
    g = 0.5 - rbf_kernel(X, FRESH[:1], gamma=0.3)[:, 0]  # the origin moves to a fresh row
    model = OrdinalSVC(kernel="precomputed", loss=loss, tol=1e-9).fit(K, y)
    f = model.utility(K)
    for other in (K + 5.0, K + g[:, None] + g[None, :]):
        same = OrdinalSVC(kernel="precomputed", loss=loss, tol=1e-9).fit(other, y)
        assert same.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-9)
        h = same.utility(other)
        np.testing.assert_allclose(f - f[0], h - h[0], atol=2e-3)


# ---------------------------------------------------------------- thresholds and ranks


@each_rule
@each_loss
@pytest.mark.parametrize("q", [2, 3, 6])
def test_predict_is_the_largest_score(rule: str, loss: str, q: int) -> None:
    X, y = _data(8, n=60, q=q)
    model = OrdinalSVC(loss=loss, thresholds=rule).fit(X, y)
    scores = model.decision_function(FRESH)
    assert (np.diff(model.thresholds_) >= 0).all()
    assert len(model.thresholds_) == q - 1
    if q == 2:
        np.testing.assert_array_equal(scores, model.utility(FRESH) - model.thresholds_[0])
        best = (scores > 0).astype(int)
    else:
        best = scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(FRESH), model.classes_[best])


def test_a_utility_on_a_threshold_goes_to_the_lower_rank() -> None:
    X, y = _data(9, q=4)
    model = OrdinalSVC(kernel="linear").fit(X, y)
    model.coef_ = np.array([1.0, 0.0, 0.0])
    model.thresholds_ = np.array([-1.0, 2.0, 2.0])  # the third rank has no room
    rows = np.array([[-1.0, 0, 0], [2.0, 0, 0], [2.5, 0, 0], [0.0, 0, 0], [-3.0, 0, 0]])
    expected = [0, 1, 3, 1, 0]
    np.testing.assert_array_equal(model.predict(rows), expected)
    np.testing.assert_array_equal(model.decision_function(rows).argmax(axis=1), expected)
    np.testing.assert_allclose(model.decision_function(rows)[3], [-1.0, 1.0, -2.0, -2.0])


@each_loss
@each_kernel
def test_optimal_thresholds_have_the_least_training_error(loss: str, kernel: str) -> None:
    X, y = _data(10, n=25, q=3, digits=1)
    weight = np.random.default_rng(0).integers(1, 4, 25).astype(float)
    model = OrdinalSVC(kernel=kernel, loss=loss, C=0.05).fit(X, y, sample_weight=weight)
    f = model.utility(X)
    levels = np.unique(np.round(f, 5))
    cuts = np.concatenate([[levels[0] - 1], levels + 1e-4])
    errors = [
        float(weight @ np.abs(np.searchsorted(theta, f, side="left") - y))
        for theta in combinations_with_replacement(cuts, 2)
    ]
    assert float(weight @ np.abs(model.predict(X) - y)) == min(errors)


@each_rule
def test_separable_ranks_are_parted_midway(rule: str) -> None:
    X = np.array([[0.0], [1.0], [2.0], [3.0], [5.0], [6.0]])
    y = np.array([0, 0, 1, 1, 2, 2])
    model = OrdinalSVC(kernel="linear", C=100.0, thresholds=rule, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, [1.0], atol=1e-6)
    np.testing.assert_allclose(model.thresholds_, [1.5, 4.0], atol=1e-5)
    assert model.score(X, y) == 1.0


@each_rule
@each_loss
def test_utilities_that_only_rounding_tells_apart_are_not_parted(rule: str, loss: str) -> None:
    """At the optimum many rows share a utility; a threshold among them would be chance."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        _, y = _data(int(rng.integers(1000)), n=60)
        problem = preference_problem(y, C=1.0, loss=loss)
        levels = np.sort(rng.uniform(0.0, 4.0, size=15))  # no two distances are equal
        f = levels[3 * y + rng.integers(0, 6, 60)]
        expected = rank_thresholds(rule, problem, f, 4)
        noise = rng.uniform(-1e-9, 1e-9, size=60)
        found = rank_thresholds(rule, problem, f + noise, 4)
        np.testing.assert_allclose(found, expected, atol=1e-8)


# ---------------------------------------------------------------- queries


def _queries(seed: int = 0, n_queries: int = 12, size: int = 8):
    """Rows whose grades are relative to their query: each has a level of its own."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(n_queries), size)
    X = rng.normal(size=(len(qid), 3))
    gain = X @ [1.0, -2.0, 0.5] + 0.2 * rng.normal(size=len(qid))
    order = np.lexsort((gain, qid))
    y = np.empty(len(qid), dtype=int)
    y[order] = np.tile(np.arange(size) * 3 // size, n_queries)
    X[:, 0] += 10.0 * rng.normal(size=n_queries)[qid]
    return X, y, qid


@each_kernel
def test_a_model_of_queries_sorts_but_does_not_predict_ranks(kernel: str) -> None:
    X, y, qid = _queries()
    model = OrdinalSVC(kernel=kernel, C=0.1).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match=r"fitted with qid.*pooled_ranks=True"):
        model.predict(X)
    assert not hasattr(model, "thresholds_")
    np.testing.assert_array_equal(model.decision_function(X), model.utility(X))
    pooled = OrdinalSVC(kernel=kernel, C=0.1, pooled_ranks=True).fit(X, y, qid=qid)
    np.testing.assert_array_equal(pooled.utility(X), model.utility(X))
    assert set(pooled.predict(X)) <= {0, 1, 2}
    assert pooled.decision_function(X).shape == (96, 3)
    model.fit(X, y)  # without queries the same object predicts again
    assert model.predict(X).shape == (96,)
    model.fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="qid"):
        model.predict(X)


def test_pairs_across_queries_do_not_count() -> None:
    X, y, qid = _queries()
    model = OrdinalSVC(kernel="linear", C=0.1).fit(X, y, qid=qid)
    risk = metrics.preference_risk(y, model.utility(X), qid, scaled=True)
    assert model.score(X, y, qid=qid) == 1.0 - risk > 0.95
    assert model.n_pairs_ == len(_pairs(y, qid)[0])
    everything = OrdinalSVC(kernel="linear", C=0.1).fit(X, y)
    assert everything.utility(X) @ everything.utility(X) > 0
    assert metrics.preference_risk(y, everything.utility(X), qid, scaled=True) > risk
    moved = X + np.random.default_rng(1).normal(size=(12, 3))[qid] * [1, 0, 0]
    shifted = OrdinalSVC(kernel="linear", C=0.1, tol=1e-9).fit(moved, y, qid=qid)
    still = OrdinalSVC(kernel="linear", C=0.1, tol=1e-9).fit(X, y, qid=qid)
    np.testing.assert_allclose(shifted.coef_, still.coef_, atol=1e-3)


@pytest.mark.parametrize("kind", ["words", "column", "frame", "floats", "dates"])
def test_queries_of_any_kind(kind: str) -> None:
    X, y, qid = _queries()
    given = {
        "words": np.array([f"query {k:03d}" for k in qid]),
        "column": qid[:, None],
        "frame": pd.Series(qid + 1000),
        "floats": qid + 0.5,
        "dates": np.datetime64("2020-01-01") + qid,
    }[kind]
    model = OrdinalSVC(kernel="linear").fit(X, y, qid=qid)
    other = OrdinalSVC(kernel="linear").fit(X, y, qid=given)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert other.score(X, y, qid=given) == model.score(X, y, qid=qid)


def test_equal_rows_of_different_queries_are_not_merged() -> None:
    X = np.ones((4, 1))
    data = canonical(X, np.array([0, 0, 1, 1]), np.ones(4), group=np.array([0, 1, 0, 0]))
    assert sorted(data.weight.tolist()) == [1.0, 1.0, 2.0]
    assert data.member[2] == data.member[3]
    assert len(set(data.member.tolist())) == 3


def test_real_targets_are_ranked_within_queries_only() -> None:
    X, y, qid = _queries()
    gain = y + np.linspace(0.0, 0.5, len(y))
    with pytest.raises(ValueError, match=r"Unknown label type: continuous.*qid"):
        OrdinalSVC().fit(X, gain)
    model = OrdinalSVC(kernel="linear").fit(X, gain, qid=qid)
    assert model.n_pairs_ == 12 * 8 * 7 / 2
    assert len(model.classes_) == len(y)
    unseen = np.random.default_rng(0).normal(size=len(y))
    assert 0.0 <= model.score(X, unseen, qid=qid) <= 1.0


def test_as_many_ranks_as_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5_500, 3))
    y = X @ [1.0, 2.0, 3.0]
    model = OrdinalSVC(kernel="linear", C_scale="total", C=1e3, pooled_ranks=True)
    model.fit(X, y, qid=np.zeros(len(y)))
    assert len(model.thresholds_) == len(y) - 1
    assert model.score(X, y, qid=np.zeros(len(y))) > 0.99


def test_queries_of_one_rank_are_ignored_and_named() -> None:
    X, y, qid = _queries()
    y = np.where(qid == 3, 1, y)
    told = r"1 of 12 queries have rows of one rank only \(qid 3\)"
    with pytest.warns(UserWarning, match=told) as caught:
        model = OrdinalSVC(kernel="linear").fit(X, y, qid=qid)
    assert caught[0].filename == __file__
    rest = qid != 3
    other = OrdinalSVC(kernel="linear").fit(X[rest], y[rest], qid=qid[rest])
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-3)


def test_nothing_to_compare_is_refused() -> None:
    X, y, _ = _queries()
    with pytest.raises(ValueError, match="none of the 96 queries has rows of two ranks"):
        OrdinalSVC().fit(X, y, qid=np.arange(len(y)))
    with pytest.raises(ValueError, match="none of the 3 queries"):
        OrdinalSVC().fit(X, y, qid=y)


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        (np.arange(5), "one entry for each of the 96 rows"),
        (np.full(96, np.nan), "none missing"),
        (np.full(96, np.inf), "infinite"),
        (np.full(96, np.datetime64("NaT")), "none missing"),
        (3, "one entry for each"),
        (np.zeros((96, 2)), "one entry for each"),
        ([None] * 48 + ["a"] * 48, "none missing"),
        (["a"] * 48 + [1.5] * 48, "qid"),
    ],
)
def test_bad_queries_are_named(qid, message: str) -> None:
    X, y, _ = _queries()
    qid = np.asarray(qid, dtype=object) if isinstance(qid, list) else qid
    with pytest.raises(ValueError, match=f"qid.*{message}|{message}"):
        OrdinalSVC().fit(X, y, qid=qid)


def test_the_score_asks_for_queries_where_there_were_any() -> None:
    X, y, qid = _queries()
    ranking = OrdinalSVC(kernel="linear").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match="qid must be given"):
        ranking.score(X, y)
    ordinal = OrdinalSVC(kernel="linear").fit(X, y)
    with pytest.raises(ValueError, match="qid must be None"):
        ordinal.score(X, y, qid=qid)
    assert ordinal.score(X, y) == np.mean(ordinal.predict(X) == y)


def test_the_score_of_a_ranking_knows_the_order_of_labels() -> None:
    X, y, qid = _queries()
    plain = OrdinalSVC(kernel="linear").fit(X, y, qid=qid)
    expected = plain.score(X, y, qid=qid)
    names = np.array(["poor", "fair", "good"])
    named = OrdinalSVC(kernel="linear", classes=names).fit(X, names[y], qid=qid)
    assert named.score(X, names[y], qid=qid) == expected
    backwards = OrdinalSVC(kernel="linear", classes=[2, 1, 0]).fit(X, 2 - y, qid=qid)
    assert backwards.score(X, 2 - y, qid=qid) == expected
    column = pd.Categorical(names[y], categories=names, ordered=True)
    declared = OrdinalSVC(kernel="linear").fit(X, column, qid=qid)
    assert declared.score(X, column, qid=qid) == expected
    assert declared.score(X, names[y], qid=qid) == expected


# ---------------------------------------------------------------- scikit-learn's tools


def test_queries_are_routed_through_a_pipeline_and_a_search() -> None:
    X, y, qid = _queries(n_queries=20)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = OrdinalSVC(kernel="linear", C_scale="total")
        machine.set_fit_request(qid=True, sample_weight=True)
        machine.set_score_request(qid=True, sample_weight=True)
        steps = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), machine)
        search = GridSearchCV(steps, {"ordinalsvc__C": [1e-4, 1e4]}, cv=GroupKFold(4))
        search.fit(X, y, qid=qid, groups=qid, sample_weight=np.ones(len(y)))
        assert search.best_params_ == {"ordinalsvc__C": 1e4}
        assert search.score(X, y, qid=qid) > 0.95
        # The same by hand: four folds of whole queries.
        best = []
        for train, test in GroupKFold(4).split(X, y, qid):
            model = make_pipeline(StandardScaler(), clone(machine).set_params(C=1e4))
            model.fit(X[train], y[train], qid=qid[train])
            utility = model[-1].utility(model[0].transform(X[test]))
            risk = metrics.preference_risk(y[test], utility, qid[test], scaled=True)
            best.append(1.0 - risk)
        assert search.cv_results_["mean_test_score"][1] == pytest.approx(np.mean(best))


def test_the_preference_scorer_takes_the_machine() -> None:
    X, y, qid = _queries(n_queries=20)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = OrdinalSVC(kernel="linear").set_fit_request(qid=True)
        scores = cross_validate(
            machine,
            X,
            y,
            params={"qid": qid, "groups": qid},
            cv=GroupKFold(4),
            scoring=metrics.preference_scorer(),
        )["test_score"]
    assert scores.min() > 0.9


def test_without_routing_queries_reach_a_pipeline_by_name() -> None:
    X, y, qid = _queries()
    model = make_pipeline(StandardScaler(), OrdinalSVC(kernel="linear"))
    model.fit(X, y, ordinalsvc__qid=qid)
    assert model[-1].n_pairs_ == len(_pairs(y, qid)[0])


def test_pickles_and_clones() -> None:
    X, y = _data(12)
    model = OrdinalSVC(C=0.5, thresholds="margin").fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.utility(FRESH), model.utility(FRESH))
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        clone(model).utility(FRESH)


def test_model_files_hold_the_machine() -> None:
    import skops.io

    from widemargin.cli._model_file import trusted_types

    X, y = _data(13)
    model = OrdinalSVC().fit(X, y)
    loo.error(model)
    content = skops.io.dumps(model.compact())
    assert set(skops.io.get_untrusted_types(data=content)) <= set(trusted_types())
    again = skops.io.loads(content, trusted=trusted_types())
    np.testing.assert_array_equal(again.predict(FRESH), model.predict(FRESH))
    assert loo.error(again) == loo.error(model)


# ---------------------------------------------------------------- leave-one-out


@each_rule
@each_loss
@pytest.mark.parametrize("q", [2, 4])
def test_leaving_out_is_training_without(loss: str, rule: str, q: int) -> None:
    X, y = _data(14, n=24, q=q)
    model = OrdinalSVC(C=0.1, gamma=0.2, loss=loss, thresholds=rule, tol=1e-10).fit(X, y)
    result = loo.result(model)
    expected, wrong = [], []
    for row in range(len(y)):
        rest = np.arange(len(y)) != row
        other = clone(model).fit(X[rest], y[rest])
        expected.append(other.decision_function(X[[row]])[0])
        wrong.append(other.predict(X[[row]])[0] != y[row])
    assert (result.method, result.kind) == ("exact", "exact")
    # A relative gap of tol keeps f within sqrt(2 tol) of the optimum, in units of its objective.
    np.testing.assert_allclose(result.values, expected, atol=1e-4)
    np.testing.assert_array_equal(result.errors, wrong)
    assert model.loo_error() == np.mean(wrong)


def test_leaving_out_keeps_the_cost_of_a_pair_and_the_order_of_labels() -> None:
    X, y = _data(15, n=24, q=3)
    names = np.array(["small", "medium", "large"])
    total = OrdinalSVC(C=30.0, C_scale="total", gamma=0.2, classes=names, tol=1e-9).fit(X, names[y])
    pair = OrdinalSVC(C=30.0 / total.n_pairs_, gamma=0.2, tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(loo.decision_values(total), loo.decision_values(pair))
    worst = suspects(total, 2)[0]
    assert worst.label == names[y[worst.row]] != worst.predicted
    assert worst.predicted in names


@each_loss
def test_a_weight_leaves_as_one_of_so_many_rows(loss: str) -> None:
    X, y = _data(28, n=20, q=3)
    weight = np.random.default_rng(2).integers(1, 4, 20)
    often = np.repeat(np.arange(20), weight)
    machine = OrdinalSVC(C=0.05, gamma=0.2, loss=loss, tol=1e-9)
    weighted = loo.result(clone(machine).fit(X, y, sample_weight=weight))
    repeated = loo.result(clone(machine).fit(X[often], y[often]))
    np.testing.assert_array_equal(weighted.values[often], repeated.values)
    assert weighted.error == pytest.approx(repeated.error)


def test_the_linear_machine_leaves_rows_out_too() -> None:
    X, y = _data(16, n=24, q=3)
    model = OrdinalSVC(kernel="linear", C=0.1, loss="squared_hinge", tol=1e-10).fit(X, y)
    values = loo.decision_values(model)
    for row in (0, 7, 23):
        rest = np.arange(len(y)) != row
        other = clone(model).fit(X[rest], y[rest])
        np.testing.assert_allclose(values[row], other.decision_function(X[[row]])[0], atol=1e-3)


def test_many_rows_are_left_out_by_folds() -> None:
    X, y = _data(17, n=600, q=3)
    model = OrdinalSVC(kernel="linear", C_scale="total", C=100.0).fit(X, y)
    result = loo.result(model)
    assert (result.method, result.kind) == ("10-fold", "estimate")
    assert result.values.shape == (600, 3)
    assert abs(result.error - (1.0 - model.score(X, y))) < 0.05


def test_the_only_row_of_a_rank_can_be_left_out() -> None:
    X = np.array([[0.0], [0.2], [0.9], [2.0]])
    two = OrdinalSVC(kernel="linear").fit(X, [0, 0, 0, 1])
    assert bool(loo.result(two).errors[3])
    three = OrdinalSVC(kernel="linear").fit(X, [0, 0, 1, 2])
    assert loo.result(three).values.shape == (4, 3)
    assert bool(loo.result(three).errors[2])


def test_leaving_out_rows_of_queries_is_refused() -> None:
    X, y, qid = _queries()
    model = OrdinalSVC(kernel="linear").fit(X, y, qid=qid)
    with pytest.raises(ValueError, match=r"fitted with qid.*GroupKFold"):
        loo.result(model)
    with pytest.raises(ValueError, match="each pair of rows has its own"):
        loo.result(OrdinalSVC(kernel="linear").fit(X, y), "xi_alpha")
    np.testing.assert_array_equal(model.compact().utility(X), model.utility(X))


# ---------------------------------------------------------------- what it is for


def _rank_map(seed: int, n: int = 1000):
    """Five ranks in the unit square, Herbrich et al. (2000), section 2.5.1: a saddle with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    f = 10.0 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) + 0.125 * rng.normal(size=n)
    y = np.digitize(f, [-1.0, -0.1, 0.25, 1.0])
    while True:
        train = rng.permutation(n)[:25]
        if len(np.unique(y[train])) == 5:
            return X, y, train


def test_twenty_five_rows_rank_better_than_pairs_of_classes() -> None:
    """Fig. 2.2 at 25 training rows: scaled risk of the predicted ranks, mean of 60 draws."""
    kernel = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0, "C": 1e6}
    risks = np.empty((60, 2))
    for seed in range(60):
        X, y, train = _rank_map(seed)
        test = np.setdiff1d(np.arange(len(y)), train)
        for k, machine in enumerate((OrdinalSVC(**kernel), SVC(**kernel))):
            predicted = machine.fit(X[train], y[train]).predict(X[test])
            risks[seed, k] = metrics.preference_risk(y[test], predicted, scaled=True)
    ordinal, pairwise = risks.mean(axis=0)
    assert ordinal <= 0.17
    assert ordinal <= 0.85 * pairwise


# ---------------------------------------------------------------- labels


def test_ordered_columns_and_classes_give_the_order() -> None:
    X, y = _data(18, q=3)
    names = np.array(["low", "medium", "high"])
    plain = OrdinalSVC().fit(X, y)
    columns = [
        pd.Series(pd.Categorical(names[y], categories=names, ordered=True)),
        pl.Series(names[y], dtype=pl.Enum(names.tolist())),
    ]
    models = [OrdinalSVC().fit(X, column) for column in columns]
    models.append(OrdinalSVC(classes=names.tolist()).fit(X, names[y]))
    for model in models:
        assert model.classes_.tolist() == names.tolist()
        np.testing.assert_array_equal(model.utility(FRESH), plain.utility(FRESH))
        assert model.predict(FRESH).tolist() == names[plain.predict(FRESH)].tolist()


def test_plain_strings_show_the_order_used() -> None:
    X, y = _data(19, q=3)
    with pytest.warns(UserWarning, match="'high' < 'low' < 'medium'") as caught:
        model = OrdinalSVC().fit(X, np.array(["low", "medium", "high"])[y])
    assert caught[0].filename == __file__
    assert model.classes_.tolist() == ["high", "low", "medium"]


def test_gaps_in_labels_and_ranks_of_zero_weight() -> None:
    X, y = _data(20, q=3)
    model = OrdinalSVC().fit(X, np.array([1, 3, 7])[y], sample_weight=np.where(y == 1, 0, 1))
    assert model.classes_.tolist() == [1, 7]
    assert len(model.thresholds_) == 1
    other = OrdinalSVC().fit(X[y != 1], y[y != 1])
    np.testing.assert_array_equal(model.utility(FRESH), other.utility(FRESH))
    assert bool(loo.result(model).errors[np.flatnonzero(y == 1)[0]])


# ---------------------------------------------------------------- edges


@each_loss
@each_kernel
def test_constant_rows_leave_nothing_but_ties(loss: str, kernel: str) -> None:
    y = np.array([0, 1, 2, 2])
    model = OrdinalSVC(kernel=kernel, loss=loss).fit(np.ones((4, 2)), y)
    f = model.utility(np.ones((4, 2)))
    np.testing.assert_allclose(f - f[0], 0.0, atol=1e-12)
    assert model.certificate_.primal == pytest.approx(5.0)  # slack 1 of each pair
    assert metrics.preference_risk(y, f, scaled=True) == 1.0
    assert len(set(model.predict(np.ones((4, 2))))) == 1


@each_loss
def test_equal_rows_of_different_rank_cost_their_slack(loss: str) -> None:
    X = np.array([[0.0], [0.0], [3.0]])
    model = OrdinalSVC(kernel="linear", loss=loss, C=10.0, tol=1e-9).fit(X, [0, 1, 1])
    assert model.certificate_.converged
    assert model.certificate_.primal >= 10.0


@each_loss
@each_kernel
def test_a_huge_cost_ends_with_an_honest_gap(loss: str, kernel: str) -> None:
    X, y = _data(21, n=60)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = OrdinalSVC(kernel=kernel, loss=loss, C=1e6).fit(X, y)
    certificate = model.certificate_
    assert certificate.primal >= certificate.dual - 1e-11 * certificate.primal > 0
    told = [w for w in caught if w.category is ConvergenceWarning]
    assert certificate.converged == (certificate.relative_gap <= 1e-4) == (not told)
    assert all(f"{certificate.relative_gap:.2e}" in str(w.message) for w in told)
    if kernel == "linear":
        norm2 = float(model.coef_ @ model.coef_)
        primal = 0.5 * norm2 + _pair_loss(model.utility(X), y, 1e6, loss)
        assert certificate.primal == pytest.approx(primal, rel=1e-6)


def test_an_exhausted_budget_is_told_with_its_numbers() -> None:
    X, y = _data(22, n=60)
    told = r"max_iter was reached.*relative duality gap"
    with pytest.warns(ConvergenceWarning, match=told) as caught:
        model = OrdinalSVC(max_iter=1).fit(X, y)
    assert not model.certificate_.converged
    assert model.certificate_.relative_gap > 1e-4
    assert caught[0].filename == __file__
    assert model.predict(FRESH).shape == (30,)
    with pytest.warns(ConvergenceWarning, match="time_limit was reached"):
        OrdinalSVC(time_limit=1e-9).fit(X, y)


def test_an_indefinite_kernel_is_told_and_not_left_out() -> None:
    X, y = _data(23, n=20)
    K = rbf_kernel(X, gamma=0.5) - 0.5 * np.eye(20)
    with (
        pytest.warns(UserWarning, match="not symmetric positive semi-definite"),
        pytest.warns(ConvergenceWarning),
    ):
        model = OrdinalSVC(kernel="precomputed", C=0.1).fit(K, y)
    assert not model.certificate_.converged
    with pytest.raises(ValueError, match="not positive semi-definite"):
        loo.result(model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0.0),
        ("C", -1.0),
        ("C", np.inf),
        ("C", "1"),
        ("loss", "logistic"),
        ("loss", ["hinge"]),
        ("thresholds", "best"),
        ("C_scale", "mean"),
        ("pooled_ranks", "yes"),
        ("norm", 3),
        ("norm", 1),  # the default kernel is not linear
        ("norm", True),
        ("tol", 0.0),
        ("kernel", "cubic"),
        ("gamma", -1.0),
        ("cache_size", 0),
        ("max_iter", 0),
        ("time_limit", -1.0),
        ("random_state", -3),
        ("classes", ["a"]),
    ],
)
def test_bad_parameters_are_named(name: str, value: object) -> None:
    X, y = _data(24)
    with pytest.raises(ValueError, match=f"{name} must be"):
        OrdinalSVC(**{name: value}).fit(X, y)


def test_bad_data_are_named() -> None:
    X, y = _data(25)
    machine = OrdinalSVC()
    with pytest.raises(ValueError, match="at least two ranks; got one class"):
        machine.fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="Input X contains NaN"):
        machine.fit(np.where(X > 1, np.nan, X), y)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        machine.fit(X, np.where(y > 1, np.nan, y))
    with pytest.raises(ValueError, match="labels of one kind, none missing"):
        machine.fit(X, np.array(["a", None] * (len(y) // 2), dtype=object))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        machine.fit(X, y[:-1])
    with pytest.raises(ValueError, match="Expected 2D array"):
        machine.fit(X[:, 0], y)
    with pytest.raises(ValueError, match=r"[Ww]eights"):
        machine.fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="square kernel matrix"):
        OrdinalSVC(kernel="precomputed").fit(X, y)
    with pytest.raises(ValueError, match="not among classes"):
        OrdinalSVC(classes=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="3 features"):
        machine.fit(X, y).utility(X[:, :2])


def test_unused_parameters_are_told() -> None:
    X, y = _data(26)
    with pytest.warns(UserWarning, match="degree=5 has no effect"):
        OrdinalSVC(degree=5).fit(X, y)
