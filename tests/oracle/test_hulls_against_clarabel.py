"""Reduced hulls and tubes against an interior-point solver and against the other machines.

The reference states the problems as the literature does, in w, thresholds and slacks (linear) or in
the masses (kernels), and shares nothing with the library.
"""

from __future__ import annotations

from itertools import combinations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import SVC as LibSVC
from sklearn.svm import SVR as LibSVR
from sklearn.svm import NuSVC as LibNuSVC
from sklearn.svm import NuSVR as LibNuSVR

from tests.helpers.byhand import gram, row_coefficients
from widemargin import SVC, SVR, NuSVC, NuSVR, ReducedHullSVC, TubeSVR

DIGITS = 1e-6


def minimum(P, q, equal, totals, below, bounds):
    """Minimise 1/2 x'Px + q'x, equal x = totals, below x <= bounds."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.tol_ktratio = 1e-9
    A = sp.csc_matrix(np.vstack([equal, below]))
    cones = [clarabel.ZeroConeT(len(totals)), clarabel.NonnegativeConeT(len(bounds))]
    side = np.concatenate([totals, bounds])
    found = clarabel.DefaultSolver(sp.csc_matrix(np.triu(P)), q, A, side, cones, settings).solve()
    assert abs(found.obj_val - found.obj_val_dual) < 1e-9
    return np.array(found.x)


def primal_p2(X, y, D):
    """P2 as it is printed: variables w, theta_plus, theta_minus, xi."""
    m, n = X.shape
    P = np.zeros((n + 2 + m, n + 2 + m))
    P[:n, :n] = np.eye(n)
    q = np.concatenate([np.zeros(n), [-1.0, 1.0], D])
    plus = (y > 0).astype(float)
    margins = np.hstack([-X * y[:, None], plus[:, None], -(1 - plus)[:, None], -np.eye(m)])
    slack = np.hstack([np.zeros((m, n + 2)), -np.eye(m)])
    x = minimum(P, q, np.zeros((0, n + 2 + m)), np.zeros(0),
                   np.vstack([margins, slack]), np.zeros(2 * m))  # fmt: skip
    return x[:n]


def dual_p3(K, y, D):
    """P3: masses, and |w|."""
    m = len(y)
    equal = np.array([y > 0, y < 0], dtype=float)
    below = np.vstack([np.eye(m), -np.eye(m)])
    s = minimum(K * np.outer(y, y), np.zeros(m), equal, np.ones(2),
                   below, np.concatenate([D, np.zeros(m)]))  # fmt: skip
    return s, np.sqrt(s @ (K * np.outer(y, y)) @ s)


def classes(seed=0, m_minus=30, m_plus=22, d=3, shift=2.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m_minus + m_plus, d))
    y = np.repeat([-1.0, 1.0], [m_minus, m_plus])
    X[y > 0, 0] += shift
    return X, y


def curve(seed=0, m=36):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 2))
    return X, np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + 0.2 * rng.normal(size=m) + 3.0


def masses(model, n_rows):
    """Scale a classifier's dual coefficients to P3."""
    beta = row_coefficients(model, n_rows)
    return beta * 2.0 / np.abs(beta).sum()


def best_thresholds(f, y, D):
    """The middle of all best theta_plus and theta_minus, by trying every example's value.

    Where no example is strictly between its bounds, the reference may stop anywhere in an interval;
    the library takes its middle (its finite end if k is the whole class).
    """
    found = []
    for sign in (1.0, -1.0):
        g, mass = sign * f[y == sign], D[y == sign]
        loss = np.array([mass @ np.maximum(0, theta - g) - theta for theta in g])
        best = np.sort(g[loss <= loss.min() + 1e-9])
        unbounded = mass.sum() <= 1 + 1e-12
        found.append(sign * (best[-1] if unbounded else 0.5 * (best[0] + best[-1])))
    return found


HULLS = {
    "P1": ({"k": 1}, 6.0),
    "P2": ({"k": 12}, 2.6),
    "P2-fraction-of-k": ({"k": 11.5}, 2.6),
    "P3-two-D": ({"D": (1 / 8, 1 / 14)}, 2.6),
    "P3-two-k": ({"k": (15, 9)}, 2.6),
}


def caps(params, y):
    """D of each example; more than 1 for the hard margin, which has no example beyond."""
    k = 1 / np.array(params["D"]) if "D" in params else params["k"]
    k_plus, k_minus = np.broadcast_to(k, 2)
    D = np.where(y > 0, 1.0 / k_plus, 1.0 / k_minus)
    return np.where(D >= 1, 2.0, D)


@pytest.mark.parametrize("solver", ["qp", "smo", "implicit", "sampling"])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HULLS)
def test_linear_hulls(name: str, seed: int, solver: str) -> None:
    params, shift = HULLS[name]
    X, y = classes(seed, shift=shift)
    w = primal_p2(X, y, caps(params, y))
    model = ReducedHullSVC(**params, solver=solver, tol=1e-9).fit(X, y)
    found = masses(model, len(y)) @ X
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(w), abs=DIGITS)
    np.testing.assert_allclose(found, w, atol=DIGITS)
    thresholds = best_thresholds(X @ w, y, caps(params, y))
    np.testing.assert_allclose([model.theta_plus_, model.theta_minus_], thresholds, atol=DIGITS)
    certificate = model.certificate_
    assert certificate.primal == pytest.approx(-0.5 * w @ w, abs=DIGITS)
    assert certificate.dual <= certificate.primal + 1e-12


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", HULLS)
def test_rbf_hulls(name: str, seed: int) -> None:
    params, shift = HULLS[name]
    X, y = classes(seed, shift=shift)
    K = gram(X, X, "rbf", 0.5)
    s, norm = dual_p3(K, y, caps(params, y))
    model = ReducedHullSVC(**params, kernel="rbf", gamma=0.5, tol=1e-9).fit(X, y)
    b = masses(model, len(y))
    assert np.sqrt(b @ K @ b) == pytest.approx(norm, abs=DIGITS)
    thresholds = best_thresholds(K @ (y * s), y, caps(params, y))
    np.testing.assert_allclose([model.theta_plus_, model.theta_minus_], thresholds, atol=DIGITS)


def test_one_mass_for_each_example() -> None:
    """sample_weight makes D_i: weight / k."""
    X, y = classes()
    weight = np.random.default_rng(3).uniform(0.3, 2.0, len(y))
    w = primal_p2(X, y, weight / 13)
    model = ReducedHullSVC(k=13, tol=1e-9).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(masses(model, len(y)) @ X, w, atol=DIGITS)
    thresholds = best_thresholds(X @ w, y, weight / 13)
    np.testing.assert_allclose([model.theta_plus_, model.theta_minus_], thresholds, atol=DIGITS)
    assert model.nu_ == pytest.approx(26 / weight.sum())


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_composed_examples_by_brute_force(k: int, seed: int) -> None:
    """P5: the hard margin between all means of k examples of one class."""
    X, y = classes(seed, 7, 6, 2, 6.0)
    composed = [np.array([X[list(c)].mean(axis=0) for c in combinations(np.flatnonzero(y == s), k)])
                for s in (1, -1)]  # fmt: skip
    Z = np.vstack(composed)
    labels = np.repeat([1.0, -1.0], [len(composed[0]), len(composed[1])])
    w = primal_p2(Z, labels, np.ones(len(Z)))
    eta_plus, eta_minus = (composed[0] @ w).min(), (composed[1] @ w).max()
    model = ReducedHullSVC(k=k, cut="hull", tol=1e-9).fit(X, y)
    np.testing.assert_allclose(masses(model, len(y)) @ X, w, atol=DIGITS)
    # Its boundary is half way between the nearest points.
    on_it = 0.5 * (eta_plus + eta_minus) * w / (w @ w)
    assert model.decision_function([on_it])[0] == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(("k", "epsilon"), [(1, 2.5), (4, 1.0), (7.5, 1.2)])
def test_tubes(kernel: str, k: float, epsilon: float) -> None:
    """P6 (k = 1) and P7, stated on the lifted examples."""
    X, t = curve()
    m = len(t)
    z = np.concatenate([t + epsilon, t - epsilon])
    K = np.tile(gram(X, X, kernel, 0.5), (2, 2)) + np.outer(z, z)
    y = np.repeat([1.0, -1.0], m)
    D = caps({"k": k}, y)
    s, norm = dual_p3(K, y, D)
    theta_plus, theta_minus = best_thresholds(K @ (y * s), y, D)
    sigma = z @ (y * s)
    gamma = {"gamma": 0.5} if kernel == "rbf" else {}
    model = TubeSVR(kernel=kernel, k=k, epsilon=epsilon, tol=1e-9, **gamma).fit(X, t)
    assert model.equivalent_C_ == pytest.approx(D[0] / sigma, rel=1e-5)
    assert -2 * model.certificate_.dual == pytest.approx(norm**2, abs=DIGITS)
    assert model.tube_width_ == pytest.approx(
        epsilon - (theta_plus - theta_minus) / (2 * sigma), abs=1e-5
    )
    f = -(K @ (y * s))[:m] / sigma + (t + epsilon) + (theta_plus + theta_minus) / (2 * sigma)
    np.testing.assert_allclose(model.predict(X), f, atol=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
# Not whole numbers of examples: then every threshold is a point. Of an interval LIBSVM takes the
# middle or an end, as its rounding of nu has it.
@pytest.mark.parametrize("k", [11.5, 0.51, (14.5, 11.5)])
def test_the_same_boundary_as_the_c_and_nu_machines(kernel: str, k) -> None:
    X, y = classes(shift=2.5)
    common = {"kernel": kernel, "tol": 1e-8}
    hull = ReducedHullSVC(k=k, **common).fit(X, y)
    values = hull.decision_function(X)
    C_plus, C_minus = np.broadcast_to(hull.equivalent_C_, 2)
    for machine in (SVC, LibSVC):
        other = machine(class_weight={1.0: C_plus, -1.0: C_minus}, C=1.0, **common).fit(X, y)
        np.testing.assert_allclose(values, other.decision_function(X), atol=2e-4)
    k_plus, k_minus = np.broadcast_to(hull.k_, 2)
    weight = np.where(y > 0, k_minus, k_plus) / max(k_plus, k_minus)
    for machine in (NuSVC, LibNuSVC):
        other = machine(nu=hull.nu_, **common, gamma=hull.gamma_ if kernel == "rbf" else "scale")
        other.fit(X, y, sample_weight=weight)
        np.testing.assert_allclose(values, other.decision_function(X), atol=2e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("k", [1, 0.2])
def test_the_same_function_as_svr_and_nu_svr(kernel: str, k: float) -> None:
    X, t = curve()
    common = {"kernel": kernel, "tol": 1e-8}
    tube = TubeSVR(k=k, epsilon=1.5, **common).fit(X, t)
    values = tube.predict(X)
    C = tube.equivalent_C_
    for machine in (SVR, LibSVR):
        other = machine(C=C, epsilon=tube.tube_width_, **common).fit(X, t)
        np.testing.assert_allclose(values, other.predict(X), atol=2e-4)
    for machine in (NuSVR, LibNuSVR):
        other = machine(C=C, nu=tube.nu_, **common).fit(X, t)
        np.testing.assert_allclose(values, other.predict(X), atol=2e-4)
