"""LPBoostClassifier: its interface, budgets, other base learners, several classes, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from widemargin import LPBoostClassifier, bounds, margins

TREE = DecisionTreeClassifier(max_depth=2)


def _data(n: int = 120, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 1).astype(int)
    return X, y


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"nu": 0.0}, r"nu must be a number in \(0, 1\]; got nu=0.0"),
        ({"nu": 1.5}, "nu must be"),
        ({"nu": np.nan}, "nu must be"),
        ({"nu": "auto"}, "nu must be"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"max_iter": 0}, "max_iter must be a positive integer, or -1"),
        ({"time_limit": -1.0}, "time_limit"),
        ({"cache_size": 0}, "cache_size"),
        ({"cache_size": 1e-4}, "cache_size must be at least 1 megabytes for stumps"),
        ({"random_state": -3}, "random_state"),
        ({"base": TREE.__class__}, "base must be .* pass an instance"),
        ({"base": LinearRegression()}, "base must be a classifier"),
        ({"base": KNeighborsClassifier()}, "base must have a fit that takes sample_weight"),
    ],
)
def test_bad_parameters(params, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        LPBoostClassifier(**params).fit(*_data())


def test_bad_data() -> None:
    X, y = _data()
    with pytest.raises(ValueError, match="at least two classes"):
        LPBoostClassifier().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="NaN"):
        LPBoostClassifier().fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(NotFittedError):
        LPBoostClassifier().margin_bound(0.1)


def test_labels_that_a_stump_knows_give_that_stump() -> None:
    X, _ = _data()
    y = np.where(X[:, 2] > 0.3, "yes", "no")
    model = LPBoostClassifier().fit(X, y)
    assert model.rho_ == 1.0
    assert model.certificate_.gap == 0.0
    assert [stump.feature for stump in model.estimators_] == [2]
    np.testing.assert_array_equal(model.margins_, 1.0)
    assert model.feature_importances_.tolist() == [0.0, 0.0, 1.0, 0.0]


def test_labels_that_no_stump_knows() -> None:
    """The four corners of a square: no vote has a margin above 0."""
    X, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float), np.array([0, 1, 1, 0])
    model = LPBoostClassifier().fit(X, y)
    assert model.certificate_.converged
    assert model.rho_ == pytest.approx(0.0, abs=1e-6)
    assert abs(model.margin_limit_) <= 1e-6


def test_nu_of_one_maximises_the_mean_margin() -> None:
    X, y = _data()
    model = LPBoostClassifier(nu=1.0).fit(X, y)
    assert len(model.alphas_) == 1
    assert model.certificate_.primal == pytest.approx(-model.margins_.mean(), abs=1e-12)
    assert model.certificate_.converged


@pytest.mark.parametrize("limit", [{"max_iter": 3}, {"time_limit": 1e-9}])
def test_a_budget_ends_the_fit_with_numbers(limit) -> None:
    X, y = _data()
    full = LPBoostClassifier(nu=0.2).fit(X, y).certificate_
    match = "did not converge .*the gap is .*asked: 1e-06.*lower bound .*larger nu"
    with pytest.warns(ConvergenceWarning, match=match):
        short = LPBoostClassifier(nu=0.2, **limit).fit(X, y).certificate_
    assert not short.converged
    assert short.dual <= full.primal <= short.primal + full.gap
    assert short.primal <= 0.0


def test_several_classes_are_one_against_the_rest() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["c", "a", "b"])[y]
    model = LPBoostClassifier(nu=0.1).fit(X, names)
    assert len(model.alphas_) == len(model.certificates_) == len(model.n_iter_) == 3
    assert model.rho_.shape == model.margin_limit_.shape == (3,)
    assert model.distribution_.shape == (3, 150)
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, names) > 0.9
    np.testing.assert_allclose(model.margins_, margins.margins(model, X, names), atol=1e-12)
    assert (model.margins_ < -0.1).mean() <= model.margin_bound(-0.1)
    for k, name in enumerate(model.classes_):
        alone = LPBoostClassifier(nu=0.1).fit(X, names == name)
        assert alone.certificate_.primal == pytest.approx(model.certificates_[k].primal, abs=1e-6)


def test_samples_of_weight_zero_have_margins_but_no_part() -> None:
    X, y = _data()
    weight = np.ones(len(y))
    weight[10:40] = 0.0
    model = LPBoostClassifier(nu=0.2).fit(X, y, weight)
    fewer = LPBoostClassifier(nu=0.2).fit(X[weight > 0], y[weight > 0])
    assert model.certificate_ == fewer.certificate_
    assert not model.distribution_[10:40].any()
    signs = np.where(y == 1, 1.0, -1.0)
    np.testing.assert_array_equal(model.margins_, signs * model.decision_function(X))


def test_a_base_learner_proves_nothing_about_others() -> None:
    X, y = _data()
    model = LPBoostClassifier(nu=0.2, base=TREE, random_state=0).fit(X, y)
    proof = model.certificate_
    assert proof.converged
    assert proof.dual == -1.0
    assert "hypotheses of base" in proof.problem
    assert not hasattr(model, "margin_limit_")
    assert not hasattr(model, "feature_importances_")
    stumps = LPBoostClassifier(nu=0.2).fit(X, y)
    assert proof.primal < stumps.certificate_.primal
    assert model.rho_ > stumps.rho_
    again = LPBoostClassifier(nu=0.2, base=TREE, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.alphas_, again.alphas_)


def test_a_base_learner_out_of_budget_warns() -> None:
    with pytest.warns(ConvergenceWarning, match="base still returns hypotheses"):
        LPBoostClassifier(nu=0.05, base=TREE, max_iter=10).fit(*_data())


def test_little_memory_forgets_stumps_and_still_converges() -> None:
    X, y = _data(300)
    proof = LPBoostClassifier(nu=0.3).fit(X, y).certificate_
    few = LPBoostClassifier(nu=0.3, cache_size=0.01).fit(X, y).certificate_
    assert few.converged
    assert few.primal == pytest.approx(proof.primal, abs=2e-6)


def test_bounds_of_adaboost_do_not_apply() -> None:
    X, y = _data()
    found = bounds.summary(LPBoostClassifier(nu=0.3).fit(X, y), X, y, c=1.0)
    text = str(found)
    assert "convex_combination" in text
    assert "is for AdaBoostClassifier with reg=0" in text
