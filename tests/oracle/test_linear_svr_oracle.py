"""LinearSVR and SVR(kernel="linear") against Clarabel, LIBLINEAR and LIBSVM: objectives first."""

from __future__ import annotations

import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVR as Libsvm
from sklearn.svm import LinearSVR as Liblinear

from widemargin import SVR, LinearSVR

LINEAR, SQUARED = "epsilon_insensitive", "squared_epsilon_insensitive"
both_losses = pytest.mark.parametrize("loss", [LINEAR, SQUARED])


def primal(coef, intercept, X, y, cost, epsilon, loss, penalised=0.0):
    """The primal objective, written down once more; `penalised` is the intercept's own weight."""
    excess = np.maximum(0.0, np.abs(y - X @ coef - intercept) - epsilon)
    lost = cost @ (excess if loss == LINEAR else excess**2)
    return 0.5 * float(coef @ coef) + 0.5 * penalised**2 + float(lost)


def clarabel_optimum(X, y, cost, epsilon, loss, intercept=True):
    """Minimise over (w, b, slack) with an interior-point solver; return both of its objectives.

    The slacks bound |y - Xw - b| - epsilon and zero from above. Targets are centred and divided by
    their size: the objective is then divided by its square, the costs of the linear loss by it.
    """
    n, d = X.shape
    middle = 0.5 * (y.max() + y.min()) if intercept else 0.0
    if np.abs(y - middle).max() <= epsilon:
        return 0.0, 0.0  # w = 0; an interior-point solver has few digits there
    size = float(np.abs(y - middle).max())
    y, epsilon = (y - middle) / size, epsilon / size
    if loss == LINEAR:
        cost = cost / size
    P = np.zeros((d + 1 + n, d + 1 + n))
    P[np.arange(d), np.arange(d)] = 1.0
    q = np.zeros(d + 1 + n)
    if loss == LINEAR:
        q[d + 1 :] = cost
    else:
        P[np.arange(d + 1, d + 1 + n), np.arange(d + 1, d + 1 + n)] = 2.0 * cost
    one, eye = np.ones((n, 1)), np.eye(n)
    rows = [
        np.hstack([-X, -one, -eye]),
        np.hstack([X, one, -eye]),
        np.hstack([np.zeros((n, d + 1)), -eye]),
    ]
    sides = [epsilon - y, epsilon + y, np.zeros(n)]
    cones = [clarabel.NonnegativeConeT(3 * n)]
    if not intercept:
        rows.insert(0, np.eye(d + 1 + n)[d : d + 1])
        sides.insert(0, np.zeros(1))
        cones.insert(0, clarabel.ZeroConeT(1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = 1e-16, 1e-9, 1e-10
    found = clarabel.DefaultSolver(
        sp.csc_matrix(P), q, sp.csc_matrix(np.vstack(rows)), np.concatenate(sides), cones, settings
    ).solve()
    low, high = sorted([found.obj_val_dual, found.obj_val])
    assert high - low <= 1e-3 * high  # its own bracket is the reference
    return size**2 * low, size**2 * high


def make(kind, seed=0, n=50, d=4):
    """Small data of several kinds: X, y, sample weights."""
    rng = np.random.default_rng([seed, len(kind)])
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + 2.0 + 0.5 * rng.standard_t(3, size=n)
    weight = np.ones(n)
    if kind == "weighted":
        weight = rng.integers(0, 4, n) * rng.uniform(0.1, 2.0, n)
    elif kind == "constant":
        y = np.full(n, 3.5)
    elif kind == "collinear":
        X[:, 1] = -2.0 * X[:, 0]
        X[:, 2] = 1.0
    elif kind == "wide":
        X = rng.normal(size=(12, 30))
        y, weight = y[:12], weight[:12]
    elif kind == "scales":
        X, y = X * [1e-2, 1.0, 10.0, 1e2], 1e3 * y + 1e5
    elif kind == "tiny":
        y = 1e-4 * y
    elif kind == "ties":
        X, y = np.round(X), np.round(y)
    elif kind == "sparse":
        X = np.where(rng.random(X.shape) < 0.4, X, 0.0)
    return X, y, weight


KINDS = [
    "plain", "weighted", "constant", "collinear", "wide", "scales", "tiny", "ties", "sparse",
]  # fmt: skip


def bracketed(model, low, high):
    """The certificate contains an optimum between low and high, and its ends are close."""
    certificate = model.certificate_
    slack = 1e-6 * max(1.0, high)
    assert certificate.converged
    assert certificate.dual - slack <= high
    assert low <= certificate.primal + slack
    assert certificate.relative_gap <= model.tol


@both_losses
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_contains_clarabels_optimum(kind, intercept, loss):
    X, y, weight = make(kind)
    spread = float(np.std(y)) or 1.0
    for C in (1e-2, 1.0, 1e2):
        for epsilon in (0.0, 0.3 * spread, 100.0 * spread):
            optimum = clarabel_optimum(X, y, C * weight, epsilon, loss, intercept)
            model = LinearSVR(
                C=C, epsilon=epsilon, loss=loss, fit_intercept=intercept, tol=1e-7
            ).fit(sp.csr_array(X) if kind == "sparse" else X, y, sample_weight=weight)
            bracketed(model, *optimum)
            b = float(np.sum(model.intercept_))
            own = primal(model.coef_, b, X, y, C * weight, epsilon, loss)
            assert model.certificate_.primal == pytest.approx(own, rel=1e-9, abs=1e-9)


@both_losses
@pytest.mark.parametrize("seed", range(4))
def test_random_problems(seed, loss):
    rng = np.random.default_rng(seed)
    for _ in range(15):
        X, y, weight = make(rng.choice(KINDS), int(rng.integers(1000)), int(rng.integers(12, 90)))
        C, intercept = 10.0 ** rng.uniform(-3, 3), bool(rng.integers(2))
        epsilon = float(rng.choice([0.0, rng.uniform(0, 2)])) * float(np.std(y))
        optimum = clarabel_optimum(X, y, C * weight, epsilon, loss, intercept)
        model = LinearSVR(C=C, epsilon=epsilon, loss=loss, fit_intercept=intercept, tol=1e-6)
        bracketed(model.fit(X, y, sample_weight=weight), *optimum)


@both_losses
@pytest.mark.parametrize("scaling", [1.0, 5.0])
def test_a_penalised_intercept_is_that_of_liblinear(scaling, loss):
    for seed in range(5):
        X, y, weight = make("weighted", seed)
        cost = 0.3 * weight
        options = {"C": 0.3, "epsilon": 0.2, "loss": loss, "intercept_scaling": scaling}
        ours = LinearSVR(**options, tol=1e-8).fit(X, y, sample_weight=weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = Liblinear(**options, tol=1e-8, max_iter=20_000, random_state=0).fit(
                X, y, weight
            )
        b = theirs.intercept_[0]
        value = primal(theirs.coef_, b, X, y, cost, 0.2, loss, penalised=b / scaling)
        # LIBLINEAR's tolerance is that of its projected gradient, not of the objective.
        assert ours.certificate_.dual <= value + 1e-9
        assert ours.certificate_.primal <= value * (1 + 1e-8)
        assert value <= ours.certificate_.primal * (1 + 1e-3)
        b = ours.intercept_[0]
        value = primal(ours.coef_, b, X, y, cost, 0.2, loss, penalised=b / scaling)
        assert ours.certificate_.primal == pytest.approx(value, rel=1e-10)


def test_it_has_the_optimum_of_libsvm_and_of_our_svr():
    for seed in range(5):
        X, y, weight = make("weighted", seed)
        cost = 2.0 * weight
        ours = LinearSVR(C=2.0, epsilon=0.1, tol=1e-9).fit(X, y, sample_weight=weight)
        kernel = SVR(kernel="linear", C=2.0, tol=1e-8).fit(X, y, sample_weight=weight)
        theirs = Libsvm(kernel="linear", C=2.0, tol=1e-8).fit(X, y, weight)
        value = primal(theirs.coef_[0], theirs.intercept_[0], X, y, cost, 0.1, LINEAR)
        assert ours.certificate_.primal == pytest.approx(value, rel=1e-6)
        assert kernel.certificate_.primal == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("C", [0.01, 1.0, 20.0])
def test_svr_with_a_linear_kernel_meets_its_kkt_tolerance(epsilon, as_given, C):
    X, y, _ = make("plain", 3, n=600, d=5)
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    ours = SVR(kernel="linear", C=C, epsilon=epsilon).fit(as_given(X), y)
    theirs = Libsvm(kernel="linear", C=C, epsilon=epsilon, tol=1e-5).fit(X, y)
    cost = np.full(len(y), C)
    value = primal(theirs.coef_[0], theirs.intercept_[0], X, y, cost, epsilon, LINEAR)
    assert ours.certificate_.converged
    assert ours.certificate_.kkt_violation <= 1e-3
    # LIBSVM's model is not better than ours, and its distance to our lower bound is small.
    assert ours.certificate_.primal <= value * (1 + 1e-9) + 1e-9
    assert ours.certificate_.dual <= value * (1 + 1e-9) + 1e-9
    assert value <= ours.certificate_.dual * (1 + 1e-5) + 1e-5


@both_losses
def test_leave_one_out_is_that_of_refits(loss):
    X, y, weight = make("ties", 1, n=25, d=2)
    weight[:5] = 2.0
    for options in ({}, {"fit_intercept": False}, {"intercept_scaling": 2.0}):
        model = LinearSVR(C=0.5, epsilon=0.4, loss=loss, tol=1e-10, **options)
        model.fit(X, y, sample_weight=weight)
        left_out = model.loo_decision_values()
        for row in range(len(y)):
            kept = weight.copy()
            kept[row] -= 1.0  # leave-one-out removes min(1, weight)
            refit = LinearSVR(C=0.5, epsilon=0.4, loss=loss, tol=1e-11, **options)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                refit.fit(X, y, sample_weight=kept)
            assert left_out[row] == pytest.approx(refit.predict(X[row : row + 1])[0], abs=1e-5)
        assert model.loo_error() > 0
