"""C = inf: hard margins and hard tubes of any kernel, with a proved objective."""

from __future__ import annotations

import re
import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from widemargin import SVC, SVR, LOOSearch, MaxMarginClassifier, ReducedHullSVC, loo

KERNELS = ("linear", "rbf", "poly")


def separable(seed, n=40, d=4):
    """Return samples of two classes with a gap between them, and values near a plane."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    value = X @ rng.normal(size=d) + 0.3 * rng.normal()
    X, value = X[np.abs(value) > 0.2], value[np.abs(value) > 0.2]
    return X, np.where(value > 0, "b", "a"), value + rng.uniform(-0.1, 0.1, len(X))


def matrix(kernel, X):
    """Return the kernel matrix for gamma = 0.3 and degree 3, coef0 1."""
    if kernel == "linear":
        return X @ X.T
    if kernel == "rbf":
        return rbf_kernel(X, gamma=0.3)
    return polynomial_kernel(X, degree=3, gamma=0.3, coef0=1.0)


def parameters(kernel):
    """Return the parameters of `matrix`."""
    more = {"rbf": {"gamma": 0.3}, "poly": {"gamma": 0.3, "coef0": 1.0}}
    return {"kernel": kernel} | more.get(kernel, {})


def least_norm(K, sides, targets, intercept):
    """Return the least |w|^2 / 2 subject to sides * (f - targets) >= 0, by Clarabel."""
    U, s, _ = np.linalg.svd(K)
    Z = U * np.sqrt(s)  # f = Z u, |w|^2 = |u|^2
    A = np.column_stack([Z, np.ones(len(K))])[np.tile(np.arange(len(K)), len(sides) // len(K))]
    A = -sides[:, None] * A[:, : Z.shape[1] + int(intercept)]
    P = sp.csc_matrix(np.diag(np.append(np.ones(Z.shape[1]), np.zeros(int(intercept)))))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.NonnegativeConeT(len(sides))]
    zero = np.zeros(A.shape[1])
    solver = clarabel.DefaultSolver(P, zero, sp.csc_matrix(A), -sides * targets, cones, settings)
    found = solver.solve()
    assert str(found.status) == "Solved"
    return found.obj_val


def check(model, optimum):
    """Demand a converged certificate around the optimum."""
    certificate = model.certificate_
    assert certificate.converged
    assert certificate.dual <= optimum * (1 + 1e-6)
    assert certificate.primal >= optimum * (1 - 1e-6)
    assert certificate.gap <= 1e-6 * certificate.primal


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_the_hard_margin_is_the_optimum(kernel, intercept, seed):
    X, y, _ = separable(seed)
    sign = np.where(y == "b", 1.0, -1.0)
    kernel = kernel if intercept else "rbf"  # the others need not separate without an intercept
    model = SVC(C=np.inf, fit_intercept=intercept, **parameters(kernel)).fit(X, y)
    optimum = least_norm(matrix(kernel, X), sign, sign, intercept)
    check(model, optimum)
    assert (sign * model.decision_function(X)).min() == pytest.approx(1.0, abs=1e-6)
    assert model.margin_ == pytest.approx(1.0 / np.sqrt(2.0 * optimum), rel=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(5))
def test_the_hard_tube_is_the_optimum(kernel, intercept, seed):
    X, _, t = separable(seed)
    kernel = kernel if intercept else "rbf"
    model = SVR(C=np.inf, epsilon=0.25, fit_intercept=intercept, **parameters(kernel)).fit(X, t)
    sides = np.repeat([1.0, -1.0], len(t))
    ends = np.concatenate([t - 0.25, t + 0.25])
    check(model, least_norm(matrix(kernel, X), sides, ends, intercept))
    assert np.abs(model.predict(X) - t).max() <= 0.25


def test_it_is_the_margin_of_the_other_machines():
    X, y, _ = separable(3)
    model = SVC(C=np.inf, kernel="linear").fit(X, y)
    assert model.margin_ == pytest.approx(MaxMarginClassifier(C=np.inf).fit(X, y).margin_)
    hulls = ReducedHullSVC(k=1, tol=1e-8).fit(X, y)
    assert model.margin_ == pytest.approx(hulls.margin_, rel=1e-6)
    soft = SVC(C=0.01, kernel="linear").fit(X, y)
    assert soft.margin_ == pytest.approx(1.0 / np.linalg.norm(soft.coef_))
    assert soft.margin_ > model.margin_


def test_classes_are_separated_pair_by_pair():
    X, y = load_iris(return_X_y=True)
    model = SVC(C=np.inf, gamma=5.0).fit(X, y)
    assert model.margin_.shape == (3,)
    assert model.score(X, y) == 1.0
    assert all(each.converged for each in model.certificates_)


def test_weights_and_losses_do_not_matter():
    X, y, _ = separable(1)
    plain = SVC(C=np.inf).fit(X, y)
    weight = np.random.default_rng(0).uniform(1e-3, 1e3, len(y))
    others = (
        SVC(C=np.inf, loss="squared_hinge").fit(X, y),
        SVC(C=np.inf, class_weight={"a": 100.0}, gamma=plain.gamma_).fit(X, y),
        SVC(C=np.inf, gamma=plain.gamma_).fit(X, y, sample_weight=weight),
    )
    for other in others:
        np.testing.assert_allclose(other.decision_function(X), plain.decision_function(X), 1e-6)
    outlier = np.vstack([X, X[:1]]), np.append(y, "a" if y[0] == "b" else "b")
    absent = np.append(np.ones(len(y)), 0.0)
    left = SVC(C=np.inf, gamma=plain.gamma_).fit(*outlier, sample_weight=absent)
    np.testing.assert_allclose(left.decision_function(X), plain.decision_function(X), 1e-6)


def overlapping():
    return make_classification(
        200, 5, n_informative=3, n_redundant=0, flip_y=0.3, class_sep=0.7, random_state=0
    )


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [True, False])
def test_classes_that_overlap_are_refused_with_a_cost_that_works(loss, intercept):
    X, y = overlapping()
    with pytest.raises(ValueError, match="does not separate the classes") as raised:
        SVC(C=np.inf, kernel="linear", loss=loss, fit_intercept=intercept).fit(X, y)
    below = float(re.search(r"below ([\d.e+-]+)\.", str(raised.value))[1])
    assert below < 1e-8
    cost = float(re.search(r"with C=([\d.e+-]+) the", str(raised.value))[1])
    slacks = []
    for C in (cost, 1e4 * cost):
        model = SVC(C=C, kernel="linear", fit_intercept=intercept).fit(X, y)
        slacks.append(np.maximum(0.0, 1.0 - np.where(y, 1, -1) * model.decision_function(X)).sum())
    assert slacks[0] < 1.2 * slacks[1]


def test_contradicting_labels_are_refused():
    X = np.array([[0.0], [1.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match="does not separate"):
        SVC(C=np.inf).fit(X, [0, 0, 1, 1])


def test_a_tube_that_no_plane_fits_is_refused():
    X, t = make_regression(50, 3, noise=20.0, random_state=0)
    with pytest.raises(ValueError, match="Or raise epsilon"):
        SVR(C=np.inf, kernel="linear").fit(X, t)


def test_a_tube_without_width_is_fitted_and_not_proved():
    X, t = make_regression(30, 3, random_state=0)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model = SVR(C=np.inf, epsilon=0.0).fit(X, t)
    np.testing.assert_allclose(model.predict(X), t, atol=1e-3)
    assert model.certificate_.primal == np.inf
    assert not model.certificate_.converged


def test_targets_that_a_constant_fits_need_no_support_vectors():
    model = SVR(C=np.inf, epsilon=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    assert len(model.support_) == 0
    assert 0.0 <= model.certificate_.primal < 1e-200


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_leave_one_out_is_that_of_refits(seed, intercept):
    X, y, t = separable(seed, n=30)
    for model, target in (
        (SVC(C=np.inf, gamma=0.3, fit_intercept=intercept), y),
        (SVR(C=np.inf, gamma=0.3, epsilon=0.2, fit_intercept=intercept), t),
    ):
        found = loo.decision_values(model.fit(X, target))
        for i in range(len(X)):
            rest = np.arange(len(X)) != i
            refit = type(model)(**model.get_params()).fit(X[rest], target[rest])
            predict = getattr(refit, "decision_function", refit.predict)
            assert found[i] == pytest.approx(predict(X[i : i + 1])[0], abs=1e-6)


def test_a_sample_given_twice_stays_when_one_copy_leaves():
    X, y, _ = separable(2)
    model = SVC(C=np.inf, gamma=0.3)
    model.fit(np.vstack([X, X]), np.append(y, y))
    found = loo.decision_values(model)
    np.testing.assert_allclose(found, model.decision_function(np.vstack([X, X])), atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loo.result(model, method="xi_alpha").error == 0.0


def test_a_search_over_costs_may_include_it():
    X, y, _ = separable(5)
    search = LOOSearch(SVC(gamma=0.3), {"C": [0.1, 1.0, 1e3, np.inf]}).fit(X, y)
    alone = [loo.error(SVC(C=C, gamma=0.3).fit(X, y)) for C in (0.1, 1.0, 1e3, np.inf)]
    np.testing.assert_allclose(1.0 - search.cv_results_["mean_test_score"], alone)


def test_probabilities_are_available():
    X, y, _ = separable(4)
    model = SVC(C=np.inf).fit(X, y)
    probability = model.predict_proba(X)
    assert ((probability[:, 1] > 0.5) == (y == "b")).mean() > 0.9


@pytest.mark.parametrize("C", [0.0, -np.inf, np.nan, "inf", True])
def test_other_costs_are_refused(C):
    for model in (SVC(C=C), SVR(C=C)):
        with pytest.raises(ValueError, match=r"positive number, or np\.inf"):
            model.fit([[0.0], [1.0]], [0, 1])
