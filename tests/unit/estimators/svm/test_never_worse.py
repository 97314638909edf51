"""Fits that end early: the published model is never worse than the best constant."""

from __future__ import annotations

import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from widemargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.base import Budget
from widemargin.solvers.soft_margin import solve

MACHINES = ("hinge", "squared_hinge", "tube", "nu-tube", "nu", "one-class")


def hostile(seed):
    """Return an unconverged model with a polynomial kernel, its samples and its targets."""
    rng = np.random.default_rng(seed)
    name = MACHINES[seed % len(MACHINES)]
    n = int(rng.integers(6, 14))
    X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-4, 5)
    y = np.where(np.arange(n) < n // 2, 1.0, -1.0)
    kernel = {
        "kernel": "poly", "degree": int(rng.integers(1, 7)), "gamma": 1.0,
        "coef0": float(rng.integers(0, 2)), "max_iter": int(rng.integers(1, 51)),
    }  # fmt: skip
    C = 10.0 ** float(rng.integers(-2, 7))
    model = {
        "hinge": lambda: SVC(C=C, **kernel),
        "squared_hinge": lambda: SVC(C=C, loss="squared_hinge", **kernel),
        "tube": lambda: SVR(C=C, epsilon=0.125, **kernel),
        "nu-tube": lambda: NuSVR(C=C, nu=0.5, **kernel),
        "nu": lambda: NuSVC(nu=0.5, **kernel),
        "one-class": lambda: OneClassSVM(nu=0.5, **kernel),
    }[name]()
    if "tube" in name:
        y = rng.normal(size=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, None if name == "one-class" else y)
    return name, model, X, y, C


def exact_model(model, X):
    """Return |w|^2 and the decision values without threshold, in rational arithmetic."""
    degree, coef0 = int(model.degree), Fraction(model.coef0)
    rows = [[Fraction(v) for v in x] for x in X]

    def k(a, b):
        return (sum(p * q for p, q in zip(a, b, strict=True)) + coef0) ** degree

    beta = [Fraction(float(b)) for b in np.ravel(model.dual_coef_)]
    if hasattr(model, "rho_") and model.rho_[0] != 0:
        beta = [b * Fraction(float(model.rho_[0])) for b in beta]
    support = [rows[i] for i in model.support_]
    f = [sum((b * k(s, x) for b, s in zip(beta, support, strict=True)), Fraction(0)) for x in rows]
    return sum((b * f[i] for b, i in zip(beta, model.support_, strict=True)), Fraction(0)), f


def least(cost, points):
    """Return the least value of a convex, piecewise linear function with these corners."""
    return min(cost(p) for p in points)


def objective(name, norm2, f, y, C):
    """Return the primal objective with the best thresholds, exactly (squared: of a fine grid)."""
    n, half, C = len(f), Fraction(1, 2) * norm2, Fraction(C)
    y = [Fraction(v) for v in y]
    if name in ("hinge", "squared_hinge"):
        power = 1 if name == "hinge" else 2

        def cost(b):
            return C * sum(max(0, 1 - t * (v + b)) ** power for t, v in zip(y, f, strict=True))

        corners = [t - v for t, v in zip(y, f, strict=True)]
        return half + (least(cost, corners) if power == 1 else least_square(y, f, C, corners))
    if name == "tube":
        eps = Fraction(0.125)

        def cost(b):
            return C * sum(max(0, abs(t - v - b) - eps) for t, v in zip(y, f, strict=True))

        r = [t - v for t, v in zip(y, f, strict=True)]
        return half + least(cost, [v + s for v in r for s in (-eps, eps)])
    total = Fraction(1, 2) * n  # nu times the sum of the weights
    if name == "one-class":
        return half + least(lambda rho: -total * rho + sum(max(0, rho - v) for v in f), f)
    if name == "nu":

        def side(values):  # thresholds rho - b and rho + b of the classes
            return least(lambda r: -total / 2 * r + sum(max(0, r - v) for v in values), values)

        plus = [v for v, t in zip(f, y, strict=True) if t > 0]
        minus = [-v for v, t in zip(f, y, strict=True) if t < 0]
        return half + side(plus) + side(minus)
    r = [t - v for t, v in zip(y, f, strict=True)]
    above = least(lambda h: C * (total / 2 * h + sum(max(0, v - h) for v in r)), r)
    below = least(lambda h: C * (-total / 2 * h + sum(max(0, h - v) for v in r)), r)
    return half + above + below


def least_square(y, f, C, corners):
    """Return the least squared hinge over the threshold: a quadratic between two corners."""
    corners = sorted(corners)
    spots = [corners[0] - 1, *((a + b) / 2 for a, b in pairwise(corners))]
    best = None
    for spot in [*spots, corners[-1] + 1]:
        active = [t - v for t, v in zip(y, f, strict=True) if 1 - t * (v + spot) > 0]
        for b in ([sum(active) / len(active)] if active else [spot]) + corners:
            value = C * sum(max(0, 1 - t * (v + b)) ** 2 for t, v in zip(y, f, strict=True))
            best = value if best is None else min(best, value)
    return best


@pytest.mark.parametrize("block", range(10))
def test_no_unconverged_fit_is_worse_than_the_best_constant(block):
    unconverged = 0
    for seed in range(36 * block, 36 * block + 36):
        name, model, X, y, C = hostile(seed)
        if model.certificate_.converged:
            continue
        unconverged += 1
        norm2, f = exact_model(model, X)
        reached = objective(name, norm2, f, y, C)
        constant = objective(name, Fraction(0), [Fraction(0)] * len(f), y, C)
        # Only the rounding of the published coefficients themselves is allowed for.
        assert reached <= constant + Fraction(1e-9) * max(1, abs(constant)), (seed, name)
    assert unconverged


@pytest.mark.parametrize("C", [1e5, 1e6])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.slow
def test_large_costs_out_of_steps(C, loss, noise):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = np.sign(rng.normal(size=6000) if noise else X[:, 0] + rng.normal(size=6000))
    with pytest.warns(ConvergenceWarning):
        model = SVC(C=C, loss=loss, max_iter=50_000).fit(X, y)
    positive = int((y > 0).sum())
    fewer, more = sorted((positive, 6000 - positive))
    constant = C * 2 * fewer if loss == "hinge" else C * 4 * fewer * more / 6000
    assert model.certificate_.primal <= constant * (1 + 1e-12)
    assert model.certificate_.dual >= 0


@pytest.mark.parametrize("steps", [1, 10, 100])
def test_dual_of_a_run_from_subsamples_is_not_negative(steps):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(5200, 3)), np.sign(rng.normal(size=5200))
    problem = c_classification(y, np.full(5200, 1e5))
    found = solve(problem, Rows(Kernel("rbf", gamma=0.5), X), tol=1e-3, budget=Budget(steps))
    assert found.status == "max_iter"
    assert problem.dual(found.alpha, float(found.alpha @ found.f)) >= 0


def wine():
    """Return two classes of the wine data, standardised."""
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_steps_that_end_before_the_gap_is_small_are_told_with_the_tol_that_would_do():
    X, y = wine()
    with pytest.warns(ConvergenceWarning, match=r"below tol, but the relative gap") as told:
        model = SVC(C=1e6, kernel="linear", max_iter=200).fit(X, y)
    assert model.certificate_.kkt_violation < 1e-3
    assert not model.certificate_.converged
    advised = float(str(told[0].message).split("lower tol to ")[1].split(" and")[0])
    assert advised < model.certificate_.kkt_violation
    assert SVC(C=1e6, kernel="linear", tol=advised).fit(X, y).certificate_.converged


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_convergence_includes_the_gap(kernel):
    model = SVC(C=1e6, kernel=kernel).fit(*wine())
    assert model.certificate_.converged
    assert model.certificate_.relative_gap <= 1e-2
