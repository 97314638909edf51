"""Margins in l_q against solvers that state the problem in w, where the library works in the dual.

The references share no code with the library: HiGHS for p = 1 and p = inf, Clarabel with a
quadratic objective for p = 2 (cones for its hard margin) and power cones on w for the others, and
in the plane all directions.
"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog, minimize_scalar

from widemargin import MaxMarginClassifier

NORMS = [1.0, 1.5, 2.0, 3.0, np.inf]
DIGITS = 1e-6


def rows(seed: int, shift: float):
    """Two classes in a few dimensions, unequal in size and in their features' scales."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(12, 60)), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d)) * rng.uniform(0.5, 2.0, d) + rng.normal(size=d)
    y = np.where(rng.random(n) < rng.uniform(0.3, 0.7), 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X += shift * y[:, None] * rng.normal(size=d)
    return X, y


def separable(seed: int):
    """Rows on both sides of a plane, none nearer to it than a tenth of their spread."""
    X, y = rows(seed, 0.0)
    rng = np.random.default_rng(seed + 1000)
    w = rng.normal(size=X.shape[1])
    f = X @ w - np.median(X @ w)
    y = np.where(f > 0, 1.0, -1.0)
    return X + (y * 0.1 * np.abs(f).max())[:, None] * w / (w @ w), y


def by_program(X, y, C, norm):
    """Return w of the linear program in w, b, the slacks and (p = inf) the largest weight."""
    n, d = X.shape
    hard = np.isinf(C)
    slack = -np.eye(n) if not hard else np.zeros((n, n))
    cost = np.full(n, 0.0 if hard else C)
    signed = y[:, None] * X
    if norm == 1:
        objective = np.concatenate([np.ones(2 * d), [0.0], cost])
        below = np.hstack([-signed, signed, -y[:, None], slack])
        limits = -np.ones(n)
        bounds = [(0, None)] * (2 * d) + [(None, None)] + [(0, None)] * n
    else:
        objective = np.concatenate([np.zeros(d), [0.0], cost, [1.0]])
        margins = np.hstack([-signed, -y[:, None], slack, np.zeros((n, 1))])
        one, none = np.eye(d), np.zeros((d, n + 1))
        largest = [np.hstack([sign * one, none, -np.ones((d, 1))]) for sign in (1, -1)]
        below = np.vstack([margins, *largest])
        limits = np.concatenate([-np.ones(n), np.zeros(2 * d)])
        bounds = [(None, None)] * (d + 1) + [(0, None)] * (n + 1)
    sharp = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(objective, below, limits, bounds=bounds, method="highs-ds", options=sharp)
    assert found.status == 0
    return found.x[:d] - found.x[d : 2 * d] if norm == 1 else found.x[:d]


def by_cones(X, y, C, norm):
    """Return w of min t + C sum xi (p = 2, soft: 1/2 |w|^2 + C sum xi), |w|_p <= t."""
    n, d = X.shape
    hard = np.isinf(C)
    squared = norm == 2 and not hard
    m = 2 * d + 2 + n  # w, b, r, t, xi
    q = np.zeros(m)
    q[2 * d + 1] = 0.0 if squared else 1.0
    q[2 * d + 2 :] = 0.0 if hard else C
    P = sp.diags_array(np.where((np.arange(m) < d) & squared, 1.0, 0.0)).tocsc()
    margins = np.zeros((n, m))
    margins[:, :d], margins[:, d] = -y[:, None] * X, -y
    margins[:, 2 * d + 2 :] = 0.0 if hard else -np.eye(n)
    positive = np.zeros((n, m))
    positive[:, 2 * d + 2 :] = -np.eye(n)
    total = np.zeros((1, m))
    total[0, d + 1 : 2 * d + 1], total[0, 2 * d + 1] = 1.0, -1.0
    cones = np.zeros((3 * d, m))
    for j in range(d):
        cones[3 * j, d + 1 + j] = cones[3 * j + 1, 2 * d + 1] = cones[3 * j + 2, j] = -1.0
    A = sp.csc_array(np.vstack([margins, positive, total, cones]))
    side = np.concatenate([-np.ones(n), np.zeros(n + 1 + 3 * d)])
    kinds = [clarabel.NonnegativeConeT(2 * n + 1), *[clarabel.PowerConeT(1.0 / norm)] * d]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    found = clarabel.DefaultSolver(P, q, A, side, kinds, settings).solve()
    assert abs(found.obj_val - found.obj_val_dual) < 1e-7 * max(1.0, abs(found.obj_val))
    return np.array(found.x)[:d]


def reference(X, y, C, norm):
    return by_program(X, y, C, norm) if norm in (1, np.inf) else by_cones(X, y, C, norm)


def distance(X, y, w, norm):
    """The least l_q distance of a row from the plane with weights w, in the best place."""
    f = X @ w
    return 0.5 * (f[y > 0].min() - f[y < 0].max()) / np.linalg.norm(w, norm)


def objective(X, y, w, b, C, norm):
    size = np.linalg.norm(w, norm)
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    return (0.5 * size**2 if norm == 2 else size) + C * slack.sum()


@pytest.mark.parametrize("norm", NORMS)
def test_hard_margins(norm: float) -> None:
    for seed in range(25):
        X, y = separable(seed)
        model = MaxMarginClassifier(norm=norm, C=np.inf).fit(X, y)
        expected = distance(X, y, reference(X, y, np.inf, norm), norm)
        assert model.margin_ == pytest.approx(expected, rel=DIGITS)
        assert distance(X, y, model.coef_[0], norm) == pytest.approx(expected, rel=DIGITS)
        assert model.certificate_.primal == pytest.approx(1.0 / expected, rel=DIGITS)
        assert model.certificate_.relative_gap < 1e-7


@pytest.mark.parametrize("C", [0.03, 0.5, 20.0])
@pytest.mark.parametrize("norm", NORMS)
def test_soft_margins(norm: float, C: float) -> None:
    for seed in range(12):
        X, y = rows(seed, 0.5)
        model = MaxMarginClassifier(norm=norm, C=C).fit(X, y)
        w, b = model.coef_[0], model.intercept_[0]
        other = reference(X, y, C, norm)
        size = np.linalg.norm(other, norm)
        best = min(objective(X, y, other, t, C, norm) for t in y - X @ other)
        assert objective(X, y, w, b, C, norm) == pytest.approx(best, rel=1e-7, abs=1e-7)
        assert model.certificate_.primal == pytest.approx(objective(X, y, w, b, C, norm), rel=1e-12)
        assert model.certificate_.relative_gap < 1e-7
        if size < 1e-7:  # no weights at all are best
            assert model.margin_ > 1e6
        else:
            assert model.margin_ == pytest.approx(1.0 / size, rel=DIGITS)


@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 3.0, 7.0, np.inf])
@pytest.mark.parametrize("n", [30, 3000])
def test_all_directions_in_the_plane(norm: float, n: int) -> None:
    """The margin has one hill over the directions of w: climb it from the best of many."""
    for seed in range(8 if n == 30 else 2):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2))
        turned = rng.normal(size=2)
        y = np.where(X @ turned > 0, 1.0, -1.0)
        X += 0.2 * y[:, None] * turned

        def loss(angle, X=X, y=y):
            return -distance(X, y, np.array([np.cos(angle), np.sin(angle)]), norm)

        angles = np.linspace(-np.pi, np.pi, 2001)
        start = angles[np.argmin([loss(angle) for angle in angles])]
        near = (start - 0.004, start + 0.004)
        found = minimize_scalar(loss, bounds=near, method="bounded", options={"xatol": 1e-12})
        model = MaxMarginClassifier(norm=norm, C=np.inf).fit(X, y)
        assert model.margin_ == pytest.approx(-found.fun, rel=DIGITS)


@pytest.mark.parametrize("norm", NORMS)
def test_weighted_rows_and_classes(norm: float) -> None:
    """Costs that differ from row to row, by repetition of rows in the reference."""
    X, y = rows(3, 0.4)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    model = MaxMarginClassifier(norm=norm, C=0.2, class_weight={1: 2.0})
    model.fit(X, y, sample_weight=times)
    repeats = np.where(y > 0, 2 * times, times)
    w = reference(np.repeat(X, repeats, axis=0), np.repeat(y, repeats), 0.2, norm)
    assert model.margin_ == pytest.approx(1.0 / np.linalg.norm(w, norm), rel=DIGITS)


@pytest.mark.parametrize("norm", NORMS)
def test_more_features_than_rows(norm: float) -> None:
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(20, 130)), np.repeat([-1.0, 1.0], 10)
    for C in (np.inf, 0.1):
        model = MaxMarginClassifier(norm=norm, C=C).fit(X, y)
        w = reference(X, y, C, norm)
        expected = distance(X, y, w, norm) if np.isinf(C) else 1.0 / np.linalg.norm(w, norm)
        assert model.margin_ == pytest.approx(expected, rel=DIGITS)


@pytest.mark.parametrize("norm", NORMS)
def test_whether_a_plane_separates(norm: float) -> None:
    """Few rows in few dimensions, separable or not as a feasibility program says."""
    answers = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(10, 3)), np.where(np.arange(10) < 5, -1.0, 1.0)
        margins = np.hstack([-y[:, None] * X, -y[:, None]])
        possible = linprog(np.zeros(4), margins, -np.ones(10), bounds=(None, None)).status == 0
        answers.append(possible)
        model = MaxMarginClassifier(norm=norm, C=np.inf)
        if possible:
            assert model.fit(X, y).margin_ > 0
        else:
            with pytest.raises(ValueError, match="there is none"):
                model.fit(X, y)
    assert 5 < sum(answers) < 35
