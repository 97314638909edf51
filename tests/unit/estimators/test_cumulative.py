"""The cumulative link classifier: links in their tails, the fit, its edges."""

from __future__ import annotations

import pickle
from decimal import Decimal, localcontext

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from scipy import integrate, stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from widemargin import CumulativeLinkClassifier
from widemargin.problems.cumulative import CumulativeProblem
from widemargin.problems.cumulative.links import LINKS, log_probabilities
from widemargin.solvers import cumulative as solver
from widemargin.solvers.base import Budget
from widemargin.solvers.cumulative.rows import CentredRows

NAMES = ["logit", "probit", "cloglog"]
each_link = pytest.mark.parametrize("link", NAMES)
INF = np.inf


def _data(n: int = 200, d: int = 3, q: int = 4, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = X @ np.linspace(2.0, -1.0, d) + rng.logistic(size=n)
    return X, np.searchsorted(np.quantile(f, np.arange(1, q) / q), f)


# ---------------------------------------------------------------- links


def _exact(link: str, a: float, b: float) -> float:
    """-log(P(b) - P(a)) without the formulas of the library."""
    if link == "probit":
        # the density relative to its largest value in the interval, integrated
        peak = min(max(a, 0.0), b) if a <= 0 <= b else (a if a > 0 else b)
        ends = (max(a, peak - 12.0), min(b, peak + 12.0))
        mass = integrate.quad(
            lambda t: np.exp(0.5 * (peak - t) * (peak + t)),
            *ends,
            epsabs=0,
            epsrel=1e-13,
            limit=200,
        )[0]
        return 0.5 * peak**2 + 0.5 * np.log(2 * np.pi) - np.log(mass)
    with localcontext(prec=400):
        low, high = Decimal(a).exp(), Decimal(b).exp()
        p = low.copy_negate().exp() - high.copy_negate().exp()
        if link == "logit":
            p = 1 / (1 + low) - 1 / (1 + high)
        return float(-p.ln())


INTERVALS = [
    (-1.0, 2.0),
    (-40.0, -38.0),
    (2.0, 4.5),
    (-1e-3, 1e-3),
    (0.5, 0.5 + 1e-6),
    (-30.0, 3.0),
]


@each_link
@pytest.mark.parametrize(("a", "b"), INTERVALS)
def test_losses_are_exact_in_the_tails(link: str, a: float, b: float) -> None:
    loss = LINKS[link].loss(np.array([a]), np.array([b]))[0]
    # 1e-6 is the width of the narrowest interval: its ends are known to 1e-16 / 1e-6.
    assert loss == pytest.approx(_exact(link, a, b), rel=1e-10)


@pytest.mark.parametrize(
    ("link", "a", "b"), [("logit", 50, 51), ("probit", 37, 39), ("cloglog", 5, 6)]
)
def test_the_upper_tail_does_not_underflow(link: str, a: float, b: float) -> None:
    loss = LINKS[link].loss(np.array([a, a * 1.0]), np.array([b, INF]))
    assert loss[0] == pytest.approx(_exact(link, a, b), rel=1e-10)
    assert np.isfinite(loss).all()
    assert loss[0] >= loss[1] > 20.0


@each_link
def test_the_ends_of_the_line(link: str) -> None:
    """A lowest and a highest rank: what is left of an interval without one end."""
    t = np.array([-3.0, 0.0, 2.0])
    cdf = {"logit": stats.logistic, "probit": stats.norm, "cloglog": stats.gumbel_l}[link]
    infinite = np.full(3, INF)
    np.testing.assert_allclose(LINKS[link].loss(-infinite, t), -cdf.logcdf(t), rtol=1e-13)
    np.testing.assert_allclose(LINKS[link].loss(t, infinite), -cdf.logsf(t), rtol=1e-13)
    low, high = LINKS[link].curvature(-infinite, t), LINKS[link].curvature(t, infinite)
    for zero in (low.a, low.aa, low.ab, high.b, high.bb, high.ab):
        np.testing.assert_array_equal(zero, 0.0)
    np.testing.assert_allclose(LINKS[link].quantile(cdf.cdf(t)), t, rtol=1e-12, atol=1e-12)


@each_link
@pytest.mark.parametrize(
    ("a", "b"), [(-1.0, 2.0), (-8.0, -7.0), (1.0, 3.0), (-0.01, 0.02), (-INF, -5.0), (1.5, INF)]
)
def test_derivatives_are_those_of_the_loss(link: str, a: float, b: float) -> None:
    loss, h = LINKS[link].loss, 1e-5
    ends = np.array([[a], [b]])
    move = {"a": np.array([[h], [0.0]]), "b": np.array([[0.0], [h]])}
    found = LINKS[link].curvature(*ends)
    for name, step in move.items():
        slope = (loss(*(ends + step)) - loss(*(ends - step))) / (2 * h)
        np.testing.assert_allclose(getattr(found, name), slope, rtol=1e-6, atol=1e-8)
        up, down = LINKS[link].curvature(*(ends + step)), LINKS[link].curvature(*(ends - step))
        for other in "ab":
            bend = (getattr(up, other) - getattr(down, other)) / (2 * h)
            pair = "".join(sorted(name + other))
            np.testing.assert_allclose(getattr(found, pair), bend, rtol=1e-5, atol=1e-7)


@each_link
def test_losses_are_convex_in_both_ends(link: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.uniform(-6, 3, 500)
    c = LINKS[link].curvature(a, a + rng.uniform(1e-3, 4, 500))
    assert (c.aa >= 0).all()
    assert (c.bb >= 0).all()
    scale = np.maximum(c.aa * c.bb, 1e-300)
    assert ((c.aa * c.bb - c.ab**2) / scale >= -1e-7).all()


@each_link
def test_probabilities_add_up_to_one(link: str) -> None:
    utility = np.array([-50.0, -3.0, 0.0, 3.0, 50.0])
    logs = log_probabilities(link, np.array([-2.0, -1.9, 0.0, 5.0]), utility)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1.0, rtol=1e-13)


# ---------------------------------------------------------------- the problem


@each_link
def test_slopes_are_derivatives_of_the_objective(link: str) -> None:
    rng = np.random.default_rng(1)
    codes = np.concatenate([np.arange(4), rng.integers(0, 4, 16)]).astype(np.intp)
    problem = CumulativeProblem(link, codes, rng.uniform(0.5, 2, 20), 0.0)
    u, theta, h = rng.normal(size=20), np.array([-1.0, 0.2, 0.9]), 1e-6
    slopes = problem.slopes(u, theta)
    T = np.diag(slopes.diagonal) + np.diag(slopes.beside, 1) + np.diag(slopes.beside, -1)
    for k in range(3):
        step = h * np.eye(3)[k]
        up, down = problem.slopes(u, theta + step), problem.slopes(u, theta - step)
        value = problem.objective(u, theta + step, 0) - problem.objective(u, theta - step, 0)
        assert slopes.threshold[k] == pytest.approx(value / (2 * h), rel=1e-6, abs=1e-7)
        by_row, by_cut = (up.utility - down.utility), (up.threshold - down.threshold)
        np.testing.assert_allclose(T[k], by_cut / (2 * h), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            problem.to_utilities(slopes, np.eye(3)[k]), by_row / (2 * h), rtol=1e-5, atol=1e-6
        )
    direction = rng.normal(size=20)
    up = problem.slopes(u + h * direction, theta)
    down = problem.slopes(u - h * direction, theta)
    np.testing.assert_allclose(
        slopes.bend * direction, (up.utility - down.utility) / (2 * h), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(
        problem.to_thresholds(slopes, direction),
        (up.threshold - down.threshold) / (2 * h), rtol=1e-5, atol=1e-6,
    )  # fmt: skip
    np.testing.assert_allclose(T @ slopes.solve_thresholds(theta), theta, rtol=1e-10)


@each_link
def test_the_start_is_the_optimum_without_features(link: str) -> None:
    rng = np.random.default_rng(2)
    codes = np.concatenate([np.arange(5), rng.integers(0, 5, 50)]).astype(np.intp)
    problem = CumulativeProblem(link, codes, rng.uniform(0.5, 2, 55), 0.0)
    slopes = problem.slopes(np.zeros(55), problem.start())
    np.testing.assert_allclose(slopes.threshold, 0.0, atol=1e-12)


# ---------------------------------------------------------------- the fit


@each_link
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 1.0])
def test_a_fitted_model_keeps_its_promises(link: str, alpha: float) -> None:
    X, y = _data()
    model = CumulativeLinkClassifier(link=link, alpha=alpha).fit(X, y)
    assert model.coef_.shape == (3,)
    assert model.thresholds_.shape == (3,)
    assert (np.diff(model.thresholds_) > 0).all()
    assert 1 <= model.n_iter_ <= 20
    probability = model.predict_proba(X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.log(probability), model.predict_log_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[probability.argmax(axis=1)])
    np.testing.assert_array_equal(
        model.predict(X), model.classes_[model.decision_function(X).argmax(axis=1)]
    )
    own = np.log(probability[np.arange(len(y)), y]).sum()
    assert model.log_likelihood_ == pytest.approx(own, rel=1e-12)
    np.testing.assert_allclose(model.utility(X), X @ model.coef_, rtol=1e-13)
    if alpha == 0:
        assert model.certificate_ is None
    else:
        assert model.certificate_.converged
        assert 0 <= model.certificate_.relative_gap <= 1e-8
        penalised = 0.5 * alpha * model.coef_ @ model.coef_ - own
        assert model.certificate_.primal == pytest.approx(penalised, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 1.0, 50.0])
def test_two_ranks_by_logit_are_logistic_regression(alpha: float) -> None:
    X, y = _data(q=2)
    model = CumulativeLinkClassifier(alpha=alpha, tol=1e-12).fit(X, y)
    peer = LogisticRegression(C=1 / alpha, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(model.coef_, peer.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(-model.thresholds_, peer.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(X), peer.decision_function(X), atol=1e-5)
    assert model.decision_function(X).shape == (len(y),)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_reversing_the_ranks_reverses_a_symmetric_model(link: str) -> None:
    X, y = _data()
    up = CumulativeLinkClassifier(link=link).fit(X, y)
    down = CumulativeLinkClassifier(link=link, classes=[3, 2, 1, 0]).fit(X, y)
    np.testing.assert_array_equal(down.classes_, [3, 2, 1, 0])
    np.testing.assert_allclose(down.coef_, -up.coef_, rtol=1e-6)
    np.testing.assert_allclose(down.thresholds_, -up.thresholds_[::-1], rtol=1e-6)
    np.testing.assert_allclose(down.predict_proba(X), up.predict_proba(X)[:, ::-1], atol=1e-7)


def test_reversing_the_ranks_makes_another_cloglog_model() -> None:
    X, y = _data()
    up = CumulativeLinkClassifier(link="cloglog").fit(X, y)
    down = CumulativeLinkClassifier(link="cloglog", classes=[3, 2, 1, 0]).fit(X, y)
    assert abs(up.log_likelihood_ - down.log_likelihood_) > 0.1


@each_link
def test_only_the_order_of_labels_matters(link: str) -> None:
    X, y = _data()
    plain = CumulativeLinkClassifier(link=link).fit(X, y)
    for labels in (np.array([-5.0, 1.0, 7.0, 100.0]), np.array([1, 3, 7, 8])):
        other = CumulativeLinkClassifier(link=link).fit(X, labels[y])
        np.testing.assert_array_equal(other.coef_, plain.coef_)
        np.testing.assert_array_equal(other.predict(X), labels[plain.predict(X)])


@each_link
def test_weight_repetition_and_order_give_the_same_bits(link: str) -> None:
    X, y = _data(80)
    weight = np.random.default_rng(3).integers(0, 4, len(y))
    rows = np.random.default_rng(4).permutation(np.repeat(np.arange(len(y)), weight))
    one = CumulativeLinkClassifier(link=link).fit(X, y, sample_weight=weight)
    two = CumulativeLinkClassifier(link=link).fit(X[rows], y[rows])
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.thresholds_, two.thresholds_)
    assert one.log_likelihood_ == two.log_likelihood_


@each_link
@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_sparse_rows_give_the_dense_model(link: str, alpha: float) -> None:
    X, y = _data()
    X[np.abs(X) < 0.7] = 0.0
    X[:, 1] += 30.0
    dense = CumulativeLinkClassifier(link=link, alpha=alpha).fit(X, y)
    sparse = CumulativeLinkClassifier(link=link, alpha=alpha).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-6)
    np.testing.assert_allclose(sparse.thresholds_, dense.thresholds_, rtol=1e-6)
    np.testing.assert_allclose(
        sparse.predict_proba(sp.csr_matrix(X)), dense.predict_proba(X), atol=1e-8
    )


def test_shift_and_scale_of_features_without_a_penalty() -> None:
    X, y = _data()
    plain = CumulativeLinkClassifier(alpha=0.0).fit(X, y)
    moved = CumulativeLinkClassifier(alpha=0.0).fit(X * [1e-4, 1.0, 1e4] + [1.0, 1e4, -1e6], y)
    assert moved.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-10)
    np.testing.assert_allclose(moved.coef_ * [1e-4, 1.0, 1e4], plain.coef_, rtol=1e-5)


def test_float32_rows_are_summed_in_float64() -> None:
    X, y = _data(500)
    X = X.astype(np.float32) + np.float32(8.0)
    single = CumulativeLinkClassifier().fit(X, y)
    double = CumulativeLinkClassifier().fit(X.astype(np.float64), y)
    np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-9)
    assert single.coef_.dtype == np.float64


@each_link
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("alpha", [0.05, 2.0])
def test_conjugate_gradients_find_the_same_model(link, kind, alpha, monkeypatch) -> None:
    X, y = _data(300, 6)
    X = X if kind == "dense" else sp.csr_array(X)
    factors = CumulativeLinkClassifier(link=link, alpha=alpha, tol=1e-11).fit(X, y)
    used = []
    original = solver._by_conjugate_gradients
    monkeypatch.setattr(solver, "FEW_FEATURES", 2)
    monkeypatch.setattr(solver, "FEW_ROWS", 2)
    monkeypatch.setattr(
        solver, "_by_conjugate_gradients", lambda *a: used.append(1) or original(*a)
    )
    gradients = CumulativeLinkClassifier(link=link, alpha=alpha, tol=1e-11).fit(X, y)
    assert used
    assert gradients.certificate_.converged
    np.testing.assert_allclose(gradients.coef_, factors.coef_, rtol=1e-5, atol=1e-7)


@each_link
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_more_features_than_rows(link: str, kind: str, monkeypatch) -> None:
    """The turned problem in n features against conjugate gradients in all of them."""
    X, y = _data(60, 400)
    X = X if kind == "dense" else sp.csr_array(X)
    turned = CumulativeLinkClassifier(link=link, alpha=5.0, tol=1e-11).fit(X, y)
    assert turned.certificate_.converged
    monkeypatch.setattr(solver, "FEW_ROWS", 2)
    plain = CumulativeLinkClassifier(link=link, alpha=5.0, tol=1e-11).fit(X, y)
    assert plain.certificate_.converged
    np.testing.assert_allclose(turned.coef_, plain.coef_, atol=1e-6)


@pytest.mark.parametrize("method", ["auto", "matrix", "gram", "conjugate_gradients"])
def test_every_method_reaches_the_optimum_and_a_start_there_takes_no_step(method: str) -> None:
    X, y = _data(80, 5)
    X = X + 3.0
    problem = CumulativeProblem("logit", y, np.ones(80), 1.0)
    expected = solver.solve(problem, X, tol=1e-11, budget=Budget(100))
    found = solver.solve(problem, X, tol=1e-11, budget=Budget(100), method=method)
    model = X, found.coef, found.thresholds
    assert problem.certificate(*model, tol=1e-11, n_iter=1).converged
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-5, atol=1e-6)
    budget = Budget(100)
    again = solver.solve(problem, X, tol=1e-8, budget=budget, start=found)
    assert budget.used == 0
    np.testing.assert_allclose(again.thresholds, found.thresholds, rtol=1e-6)


def test_turned_rows_have_the_products_of_the_rows() -> None:
    X, _ = _data(20, 50)
    rows = CentredRows(X, np.ones(20), 1)
    Z, back = rows.turned()
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(Z @ Z.T, centred @ centred.T, atol=1e-10)
    z = np.random.default_rng(0).normal(size=Z.shape[1])
    w = rows.combine(back @ z)
    np.testing.assert_allclose(rows.dot(w), Z @ z, atol=1e-9)
    assert w @ w == pytest.approx(z @ z)


# Said by scikit-learn, from 1.7 on.
@pytest.mark.filterwarnings("ignore:The number of unique classes")
@each_link
def test_as_many_ranks_as_rows(link: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.argsort(np.argsort(X[:, 0] + rng.normal(size=300)))
    model = CumulativeLinkClassifier(link=link).fit(X, y)
    assert model.certificate_.converged
    assert model.thresholds_.shape == (299,)
    assert (np.diff(model.thresholds_) > 0).all()


def test_far_rows_have_finite_logarithms() -> None:
    X, y = _data()
    for link in NAMES:
        model = CumulativeLinkClassifier(link=link).fit(X, y)
        far = np.array([[1e4, 0.0, 0.0], [-1e4, 0.0, 0.0]])
        assert np.isfinite(model.predict_log_proba(far)).all()
        np.testing.assert_array_equal(model.predict(far), [3, 0])
        np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0)


# ---------------------------------------------------------------- labels


def test_ordered_categoricals_and_classes_agree() -> None:
    X, y = _data(q=3)
    names = ["low", "medium", "high"]
    words = np.array(names)[y]
    models = [
        CumulativeLinkClassifier().fit(X, pd.Categorical(words, names, ordered=True)),
        CumulativeLinkClassifier().fit(X, pl.Series(words, dtype=pl.Enum(names))),
        CumulativeLinkClassifier(classes=names).fit(X, words),
        CumulativeLinkClassifier(classes=[*names, "extreme"]).fit(X, words.tolist()),
    ]
    numbers = CumulativeLinkClassifier().fit(X, y)
    for model in models:
        assert model.classes_.tolist() == names
        np.testing.assert_array_equal(model.coef_, numbers.coef_)
        np.testing.assert_array_equal(model.predict(X), np.array(names)[numbers.predict(X)])


def test_plain_strings_show_the_order_used() -> None:
    X, y = _data(q=3)
    words = np.array(["low", "medium", "high"])[y]
    with pytest.warns(UserWarning, match="'high' < 'low' < 'medium'") as caught:
        model = CumulativeLinkClassifier().fit(X, words)
    assert caught[0].filename == __file__
    assert model.classes_.tolist() == ["high", "low", "medium"]


def test_a_rank_of_zero_weight_is_none() -> None:
    X, y = _data(q=4)
    model = CumulativeLinkClassifier().fit(X, y, sample_weight=(y != 2).astype(float))
    assert model.classes_.tolist() == [0, 1, 3]
    assert model.thresholds_.shape == (2,)
    np.testing.assert_array_equal(
        model.coef_, CumulativeLinkClassifier().fit(X[y != 2], y[y != 2]).coef_
    )


# ---------------------------------------------------------------- no optimum, or too many


@each_link
def test_separable_ranks_have_no_maximum_and_are_told(link: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.digitize(X @ [1.0, 2.0], [-1.0, 0.0, 1.0])
    with pytest.warns(ConvergenceWarning, match="no maximum.*Give alpha > 0") as caught:
        model = CumulativeLinkClassifier(link=link, alpha=0.0).fit(X, y)
    assert caught[0].filename == __file__
    assert len(caught) == 1
    assert -1e-6 < model.log_likelihood_ < 0
    assert model.score(X, y) == 1.0
    assert (np.diff(model.thresholds_) > 0).all()
    assert CumulativeLinkClassifier(link=link, alpha=1e-3).fit(X, y).certificate_.converged
    assert CumulativeLinkClassifier(link=link, alpha=1e-10).fit(X, y).certificate_.converged


def test_separable_ranks_are_told_without_a_matrix(monkeypatch) -> None:
    """Conjugate gradients see the same; so does a fit of noisy ranks, which has a maximum."""
    monkeypatch.setattr(solver, "FEW_FEATURES", 2)
    monkeypatch.setattr(solver, "FEW_ROWS", 2)
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 20), density=0.3, random_state=rng, format="csr")
    f = X @ rng.normal(size=20)
    with pytest.warns(ConvergenceWarning, match="no maximum"):
        CumulativeLinkClassifier(alpha=0.0).fit(X, np.digitize(f, [-1.0, 0.0, 1.0]))
    noisy = np.digitize(f + rng.logistic(size=300), [-1.0, 0.0, 1.0])
    CumulativeLinkClassifier(alpha=0.0).fit(X, noisy)


def test_many_rows_are_taken_as_they_come() -> None:
    """Beyond the rows that are merged and sorted; weights still are repetitions."""
    X, y = _data(6000)
    weight = np.random.default_rng(0).integers(1, 3, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    one = CumulativeLinkClassifier(tol=1e-12).fit(X, y, sample_weight=weight)
    two = CumulativeLinkClassifier(tol=1e-12).fit(X[rows], y[rows])
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-8)
    assert one.log_likelihood_ == pytest.approx(two.log_likelihood_, rel=1e-12)


@each_link
def test_one_indicator_of_the_highest_rank_is_enough_to_have_no_maximum(link: str) -> None:
    """The likelihood stays far from zero: some rows only are told apart without error."""
    X, y = _data()
    indicator = (y == 3) & (np.arange(len(y)) % 2 == 0)
    with pytest.warns(ConvergenceWarning, match="no maximum"):
        CumulativeLinkClassifier(link=link, alpha=0.0).fit(np.column_stack([X, indicator]), y)
    indicator[np.flatnonzero(y == 0)[0]] = True  # an exception: now there is one
    CumulativeLinkClassifier(link=link, alpha=0.0).fit(np.column_stack([X, indicator]), y)


def test_rows_that_hardly_count_are_not_taken_for_separable() -> None:
    """A direction that one row alone determines converges late, but it does."""
    X, y = _data(3000)
    lonely = np.zeros(3000)
    lonely[np.flatnonzero(y == 3)[:20]] = 1.0
    lonely[np.flatnonzero(y == 2)[:1]] = 1.0
    model = CumulativeLinkClassifier(alpha=0.0).fit(np.column_stack([X, lonely]), y)
    assert model.coef_[3] > 1.0


@pytest.mark.parametrize("kind", ["dense", "sparse", "frame"])
def test_constant_columns_are_named(kind: str) -> None:
    X, y = _data()
    wide = np.column_stack([X[:, :1], np.full(len(y), 0.1), X[:, 1:], np.zeros(len(y))])
    given = {
        "dense": wide,
        "sparse": sp.csr_array(wide),
        "frame": pd.DataFrame(wide, columns=["a", "flat", "c", "d", "empty"]),
    }[kind]
    shown = r"\(flat, empty\)" if kind == "frame" else r"\(1, 4\)"
    with pytest.warns(UserWarning, match=rf"constant columns of X {shown}.*alpha > 0") as caught:
        model = CumulativeLinkClassifier(alpha=0.0).fit(given, y)
    assert len(caught) == 1
    assert model.coef_[[1, 4]].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(
        model.coef_[[0, 2, 3]], CumulativeLinkClassifier(alpha=0.0).fit(X, y).coef_, rtol=1e-7
    )
    penalised = CumulativeLinkClassifier().fit(given, y)
    assert penalised.coef_[[1, 4]].tolist() == [0.0, 0.0]


def test_dependent_columns_are_reported() -> None:
    X, y = _data()
    with pytest.warns(UserWarning, match=r"depend on each other linearly \(1 too many\)"):
        model = CumulativeLinkClassifier(alpha=0.0).fit(
            np.column_stack([X, X[:, 0] - 2 * X[:, 1]]), y
        )
    plain = CumulativeLinkClassifier(alpha=0.0).fit(X, y)
    assert model.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-12)
    assert np.abs(model.coef_).max() < 10


def test_constant_data_leave_the_shares_of_the_ranks() -> None:
    y = np.repeat([0, 1, 2], [10, 30, 60])
    model = CumulativeLinkClassifier().fit(np.ones((100, 2)), y)
    assert model.coef_.tolist() == [0.0, 0.0]
    assert model.n_iter_ == 1
    np.testing.assert_allclose(model.predict_proba([[1.0, 1.0]]), [[0.1, 0.3, 0.6]])
    with pytest.warns(UserWarning, match=r"constant columns of X \(0, 1\)"):
        pure = CumulativeLinkClassifier(alpha=0.0).fit(np.ones((100, 2)), y)
    np.testing.assert_allclose(pure.predict_proba([[5.0, 1.0]]), [[0.1, 0.3, 0.6]])


def test_equal_rows_with_different_ranks() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    model = CumulativeLinkClassifier(alpha=0.0).fit(X, [0, 1, 0, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], [1 / 2, 2 / 3], rtol=1e-7)


# ---------------------------------------------------------------- budgets and bad input


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_an_exhausted_budget_is_told_with_its_numbers(alpha: float) -> None:
    X, y = _data()
    with pytest.warns(ConvergenceWarning, match="max_iter was reached.*raise max_iter") as caught:
        model = CumulativeLinkClassifier(alpha=alpha, max_iter=1).fit(X, y)
    assert caught[0].filename == __file__
    assert model.n_iter_ == 1
    if alpha:
        assert not model.certificate_.converged
        assert model.certificate_.relative_gap > 1e-8


def test_a_time_limit_stops_the_fit() -> None:
    X, y = _data()
    with pytest.warns(ConvergenceWarning, match="time_limit was reached"):
        model = CumulativeLinkClassifier(time_limit=1e-9).fit(X, y)
    assert model.n_iter_ == 1


def test_a_tolerance_beyond_rounding_ends_honestly() -> None:
    X, y = _data()
    with pytest.warns(ConvergenceWarning, match="raise tol"):
        model = CumulativeLinkClassifier(tol=1e-300, alpha=1e-12).fit(X * [1.0, 1e3, 1.0], y)
    # With so small a penalty the bound multiplies the squared error of the gradient by 5e11.
    assert model.certificate_.relative_gap < 1e-8


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("link", v) for v in ("cauchit", None, 1)],
        *[("alpha", v) for v in (-1.0, np.nan, np.inf, "0", None, True)],
        *[("tol", v) for v in (0.0, -1.0, np.nan, "a")],
        *[("max_iter", v) for v in (0, -1, 1.5, None)],
        *[("time_limit", v) for v in (0, -1.0, "a")],
        *[("classes", v) for v in ("abc", [0], [0, 0, 1], 5)],
    ],
)
def test_bad_parameters_are_named(name: str, value: object) -> None:
    X, y = _data()
    with pytest.raises(ValueError, match=f"^{name} must be"):
        CumulativeLinkClassifier(**{name: value}).fit(X, y)


def test_bad_data_are_named() -> None:
    X, y = _data()
    model = CumulativeLinkClassifier()
    with pytest.raises(ValueError, match="at least two ranks"):
        model.fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="at least two ranks"):
        model.fit(X, y, sample_weight=(y == 1).astype(float))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, y + 0.5)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1])
    with pytest.raises(ValueError, match="not among classes"):
        CumulativeLinkClassifier(classes=[0, 1, 2]).fit(X, y)
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.fit(X[:, 0], y)


# ---------------------------------------------------------------- in scikit-learn's tools


def test_pickles_clones_and_the_bar(capsys) -> None:
    X, y = _data()
    model = CumulativeLinkClassifier(link="probit", classes=[3, 2, 1, 0], verbose=1).fit(X, y)
    assert "CumulativeLinkClassifier" in capsys.readouterr().out
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert clone(model).get_params() == model.get_params()


def test_weights_are_routed_through_a_search() -> None:
    X, y = _data()
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    with sklearn.config_context(enable_metadata_routing=True):
        machine = CumulativeLinkClassifier().set_fit_request(sample_weight=True)
        machine.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, machine)
        pipe.set_score_request(sample_weight=True)  # scikit-learn 1.6 asks the pipeline itself
        grid = {"cumulativelinkclassifier__alpha": [1e-3, 1.0, 1000.0]}
        search = GridSearchCV(pipe, grid, cv=3).fit(X, y, sample_weight=weight)
    best = CumulativeLinkClassifier(alpha=next(iter(search.best_params_.values())))
    best.fit(StandardScaler().fit_transform(X), y, sample_weight=weight)
    np.testing.assert_array_equal(search.best_estimator_[-1].coef_, best.coef_)
