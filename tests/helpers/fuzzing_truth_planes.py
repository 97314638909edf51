"""The claims of linear machines, hulls and tubes, recomputed from public attributes and the data.

As in `fuzzing_truth`, nothing of widemargin is used, and numbers are compared to within rounding.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.svm import SVC as LibSVM

from tests.helpers.byhand import dense
from tests.helpers.fuzzing_containers import SPARSE
from tests.helpers.fuzzing_counts import note_error
from tests.helpers.fuzzing_data import Problem
from tests.helpers.fuzzing_truth import (
    CLOSE,
    EPS,
    Seen,
    check_gap,
    merged,
    pair_machines,
    say,
    seen,
)

# ---------------------------------------------------------------- planes


def pair_labels(classes: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return the labels of each pair's machine: 1, -1, and 0 for rows of other classes."""
    codes = np.searchsorted(classes, y)
    if len(classes) == 2:
        return [np.where(codes == 1, 1.0, -1.0)]
    pairs = combinations(range(len(classes)), 2)
    return [np.where(codes == i, 1.0, np.where(codes == j, -1.0, 0.0)) for i, j in pairs]


def rest_labels(classes: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return the labels of each class's machine: 1, and -1 for all other classes."""
    if len(classes) == 2:
        return pair_labels(classes, y)
    return [np.where(y == label, 1.0, -1.0) for label in classes]


def length(vector: np.ndarray, p: float) -> float:
    """Return the l_p norm."""
    return float(np.linalg.norm(vector, ord=p))


def about_mean(X: np.ndarray, problem: Problem) -> np.ndarray:
    """Return the sizes of numbers that are rounded where dense rows are taken about their mean."""
    return np.abs(X) + (0.0 if problem.container in SPARSE else np.abs(X.mean(axis=0)))


def hinge_objective(
    w: np.ndarray,
    b: float,
    X: np.ndarray,
    y: np.ndarray,
    cost: np.ndarray,
    squared: bool = False,
    size: np.ndarray | None = None,
) -> tuple[float, float]:
    """Return 1/2 |w|^2 + the losses, and what rounding can do to it.

    `size` are the sizes of the numbers of which w.x is added up, those of the rows unless given.
    """
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    size = np.abs(X) if size is None else size
    off = (X.shape[1] + 4) * EPS * (size @ np.abs(w) + abs(b) + 1.0)
    loss, loss_off = (slack**2, 2 * slack * off + off**2) if squared else (slack, off)
    return 0.5 * float(w @ w) + float(cost @ loss), float(cost @ loss_off)


def linear_truth(model: Any, problem: Problem) -> None:
    """Check LinearSVC: its primal, and its dual from above by other planes (it shows no dual)."""
    labels = pair_labels if model.multi_class == "ovo" else rest_labels
    for k, label in enumerate(labels(model.classes_, problem.y)):
        rows = np.flatnonzero((label != 0) & (problem.weight > 0))
        X, y, cost = problem.values[rows], label[rows], model.C * problem.weight[rows]
        c, squared = model.certificates_[k], model.loss == "squared_hinge"
        w, b = model.coef_[k], float(model.intercept_[k])
        assert model.fit_intercept or b == 0.0
        primal, off = hinge_objective(w, b, X, y, cost, squared)
        primal += _penalty(model, b)
        say(c.primal, primal, off, "primal")
        check_gap(c, off)
        assert c.converged == (c.relative_gap <= model.tol)
        for other, shift in _planes(X, y, cost, model, squared):
            value, value_off = hinge_objective(other, shift, X, y, cost, squared)
            value += _penalty(model, shift)
            assert c.dual <= value + value_off + off + CLOSE * max(1.0, abs(value)), (
                f"the dual {c.dual!r} is no lower bound: a plane has {value!r}"
            )


def _penalty(model: Any, b: float) -> float:
    """Return the penalty of the intercept, b = s v with the penalty v^2 / 2."""
    return 0.0 if model.intercept_scaling is None else 0.5 * (b / model.intercept_scaling) ** 2


def _planes(X: np.ndarray, y: np.ndarray, cost: np.ndarray, model: Any, squared: bool) -> Any:
    """Yield planes that any lower bound must not exceed: w = 0, and LIBSVM's where it has one."""
    yield np.zeros(X.shape[1]), float(np.sign(cost @ y)) if model.fit_intercept else 0.0
    if squared or not model.fit_intercept or np.abs(X).max() > 1e50:
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        peer = LibSVM(kernel="linear", C=1.0, tol=1e-6, max_iter=20_000)
        try:
            peer.fit(X, y, sample_weight=cost)
        except ValueError:  # its coefficients are not finite
            return
    if np.isfinite(peer.coef_).all() and np.isfinite(peer.intercept_).all():
        yield peer.coef_[0], float(peer.intercept_[0])


def norm_truth(model: Any, problem: Problem) -> None:
    """Check MaxMarginClassifier: plane and dual point, both public."""
    p = float(model.norm)
    q = np.inf if p == 1 else (1.0 if np.isinf(p) else p / (p - 1))
    duals = np.atleast_2d(model.dual_)
    for k, label in enumerate(pair_labels(model.classes_, problem.y)):
        rows = np.flatnonzero((label != 0) & (problem.weight > 0))
        X, y = problem.values[rows], label[rows]
        cost = model.C * problem.weight[rows]
        w, b, a, c = (
            model.coef_[k],
            float(model.intercept_[k]),
            duals[k][rows],
            model.certificates_[k],
        )
        assert not np.delete(duals[k], rows).any(), "a row outside the pair has a dual variable"
        assert a.min() >= 0.0
        assert (a <= cost * (1 + 1e-9)).all(), "a dual variable exceeds its cost"
        assert abs(y @ a) <= 1e-9 * max(1e-300, a.sum()), "the dual variables do not balance"
        v, total = X.T @ (y * a), float(a.sum())
        size = about_mean(X, problem)
        v_off = (len(a) + 8) * EPS * (size.T @ a)
        if np.isinf(model.C):
            least = float((y * (X @ w + b)).min())
            f_off = (X.shape[1] + 4) * EPS * float((size @ np.abs(w) + abs(b)).max())
            if np.isinf(c.primal):
                assert least <= f_off, "a plane that separates is said not to"
                assert not c.converged
                continue
            assert least > 0, "a hard margin that does not separate"
            primal, dual = length(w, p) / least, total / length(v, q) if total else 0.0
            off = primal * f_off / least
            least_v = length(v, q) - length(v_off, q)
            dual_off = (total / least_v if least_v > 0 else np.inf) - dual if total else 0.0
            # One over the margin of large rows is small: say so in units of the rows.
            unit = max(1.0, float(np.abs(X).max()))
            say(c.primal * unit, primal * unit, off * unit, "primal")
            note_error(c.gap * unit + off * unit, primal * unit)
        elif p == 2:
            primal, off = hinge_objective(w, b, X, y, cost, size=size)
            dual = total - 0.5 * float(v @ v)
            dual_off = float((np.abs(v) + v_off) @ v_off)
        else:
            quadratic, off = hinge_objective(w, b, X, y, cost, size=size)
            primal = quadratic - 0.5 * float(w @ w) + length(w, p)
            scale = max(1.0, length(v, q))
            dual = total / scale
            dual_off = total / max(1.0, length(v, q) - length(v_off, q)) - dual
        say(c.primal, primal, off, "primal")
        say(c.dual, dual, dual_off + CLOSE * total, "dual")
        check_gap(c, off + dual_off)
        assert c.converged == (c.relative_gap <= model.tol)


def perceptron_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of PerceptronClassifier: when it says so, no training row is wrong."""

    def truth(model: Any, problem: Problem) -> None:
        codes = np.searchsorted(model.classes_, problem.y)
        n_classes = len(model.classes_)
        machines = [1] if n_classes == 2 else range(n_classes)
        for k, c in enumerate(machines):
            y = np.where(codes == c, 1.0, -1.0)
            if model.kernel is None:
                values = problem.values @ model.coef_[k]
                off = (problem.d + 4) * EPS * (np.abs(problem.values) @ np.abs(model.coef_[k]))
            else:
                beta = np.zeros(problem.n)
                beta[model.support_] = dense(model.dual_coef_)[k]
                kernel = seen(model, problem, matrix)
                values, off = kernel.K @ beta, kernel.sums(beta)
                steps = np.abs(beta).sum() / model.eta
                assert np.isclose(steps, np.atleast_1d(model.n_updates_)[k])
            # Steps are added up one by one: each rounds at the size that the sum has by then.
            steps_off = EPS * float(np.atleast_1d(model.n_updates_)[k]) * (1 + np.abs(values).max())
            right = y * (values + model.intercept_[k]) > -(off + steps_off)
            assert not model.converged_ or right.all(), "converged, and a row is wrong"

    return truth


# ---------------------------------------------------------------- reduced hulls and tubes


def mass_limits(weight: np.ndarray, k: float) -> np.ndarray:
    """Return D = weight / k; the hard margin, k = 1, has no limit that binds (2 stands for it)."""
    D = weight / k
    return np.where((D >= 1) & (k <= 1), np.maximum(D, 2.0), D)


def best_threshold(values: np.ndarray, D: np.ndarray) -> tuple[float, float]:
    """Return the least -theta + sum D max(0, theta - v) over theta (a breakpoint), and theta."""
    costs = [-t + float(D @ np.maximum(0.0, t - values)) for t in values]
    return min(costs), float(values[int(np.argmin(costs))])


def hull_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of ReducedHullSVC: P2 and P3 of Balcazar et al. (2008)."""

    def truth(model: Any, problem: Problem) -> None:
        kernel = seen(model, problem, matrix, centred=True)
        sizes = model.k_ if isinstance(model.k_, list) else [model.k_]
        for k, label, beta in pair_machines(model, problem):
            inside = np.flatnonzero(label)
            few = merged(
                problem.values[inside],
                label[inside],
                problem.weight[inside],
                apart=matrix is not None,
            )
            rows = inside[few.rows]
            part, y, folded = kernel.part(rows), label[rows], few.fold(beta[inside])
            size = sizes[k] if isinstance(sizes[k], tuple) else (sizes[k], sizes[k])
            D = np.where(y > 0, mass_limits(few.weight, size[0]), mass_limits(few.weight, size[1]))
            _check_hulls(model.certificates_[k], part, y, folded, D)

    return truth


def _check_hulls(c: Any, part: Seen, y: np.ndarray, folded: np.ndarray, D: np.ndarray) -> None:
    s = folded * (2.0 / np.abs(folded).sum())  # back to the scale of P3
    alpha = y * s
    assert alpha.min() >= -1e-9
    assert (alpha <= D * (1 + 1e-9)).all(), "a mass exceeds its limit"
    for sign in (1, -1):
        assert abs(alpha[y == sign].sum() - 1.0) <= 1e-9, "the masses of a class are not 1"
    f, off = part.K @ s, part.sums(s)
    norm2, norm2_off = float(s @ f), float(np.abs(s) @ off)
    primal = 0.5 * norm2
    for sign in (1, -1):
        primal += best_threshold(sign * f[y == sign], D[y == sign])[0]
    # The least over thresholds moves by no more than the largest error, once for each class.
    primal_off = norm2_off + 2 * float(off.max()) * (1 + float(D.max()))
    say(c.primal, primal, primal_off, "primal")
    say(c.dual, -0.5 * norm2, norm2_off, "dual")
    check_gap(c, primal_off + norm2_off)


def tube_truth(matrix: np.ndarray | None = None) -> Any:
    """Return the truth of TubeSVR: P7 written in the function that it is.

    sigma, the weight of the lifted target, is what D and equivalent_C_ differ by; w of P7 is
    sigma times that of the regression, with one more entry, sigma itself.
    """

    def truth(model: Any, problem: Problem) -> None:
        t = problem.y.astype(np.float64)
        few = merged(problem.values, t, problem.weight, apart=matrix is not None)
        beta = np.zeros(problem.n)
        beta[model.support_] = dense(model.dual_coef_)[0]
        folded = few.fold(beta)
        part = seen(model, problem, matrix, centred=True).part(few.rows)
        sigma = float(mass_limits(np.ones(1), model.k_)[0]) / model.equivalent_C_
        D = mass_limits(few.weight, model.k_)
        assert (np.abs(folded) * sigma <= D * (1 + 1e-9)).all(), "a mass exceeds its limit"
        assert abs(folded.sum()) * sigma <= 1e-9, "the masses do not balance"
        # The masses, of which beta is what is left, balance to within the rounding of 1.
        imbalance = 8 * EPS / sigma
        f, off = part.K @ folded, part.sums(folded) + imbalance * np.abs(part.K).max(axis=1)
        norm2 = sigma**2 * (float(folded @ f) + 1.0)
        quadratic_off = float(np.abs(folded) @ off) + imbalance * float(off.max())
        residual = t[few.rows] - f
        # Both edges of the tube at their best, in units of sigma.
        primal = 0.5 * norm2 - 2.0 * sigma * model.epsilon_
        for side in (residual, -residual):
            primal += sigma * best_threshold(-side, D)[0]
        y_off = 8 * EPS * float(np.abs(t).max() + model.epsilon_)
        # In |w|^2, masses that add up to 2 meet the lifted targets, sigma (y - middle +- epsilon).
        norm2_off = sigma**2 * quadratic_off + 8 * EPS * norm2 + 4 * sigma * y_off
        primal_off = norm2_off + 2 * sigma * (float(off.max()) + y_off) * (1 + float(D.max()))
        say(model.certificate_.primal, primal, primal_off, "primal")
        say(model.certificate_.dual, -0.5 * norm2, norm2_off, "dual")
        check_gap(model.certificate_, primal_off + norm2_off)

    return truth
