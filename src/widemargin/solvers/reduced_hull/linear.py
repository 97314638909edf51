"""Nearest points of reduced hulls for the linear kernel: the exact solvers, under one call.

Problem: P2 of :mod:`widemargin.problems.reduced_hull` on rows in memory. Each of these returns the
optimum itself, up to rounding:

========  =====================================================================================
qp        interior points on all rows and an exact finish (`numerics.box_qp`)
implicit  the same on rows near the thresholds only (`out_of_core`): many rows
sampling  random samples (`literature.random_sampling`): Fig. 3 of Balcázar et al. (2008) in
          its practical form, for small k; for k = 1 a sample that grows
========  =====================================================================================
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.reduced_hull import NearestPoints
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Monitor, SolverResult, Status
from widemargin.solvers.literature.random_sampling import (
    NotSeparable,
    grow_margin,
    opt_soft_margin,
    practical_plan,
)
from widemargin.solvers.numerics.box_qp import solve_box_qp
from widemargin.solvers.out_of_core import Form, dual_variables, solve_implicit
from widemargin.sources.memory import Memory

METHODS = ("qp", "implicit", "sampling")
ZERO = 1e-10  # |w| relative to the longest row: less is rounding
ROUNDING = 1e-12
ROUNDS = {"qp": 1, "implicit": 100, "sampling": 10_000}


@dataclass(frozen=True)
class LinearHulls:
    """What was found: dual variables, what they say, and the way there.

    `apart` tells whether the hulls are known to be apart; `history` has one entry a round.
    """

    result: SolverResult
    points: NearestPoints
    apart: bool
    history: list[dict[str, Any]]


def solve_linear_hulls(
    hulls: SoftMargin,
    X: FloatArray,
    method: str,
    *,
    seed: int = 0,
    max_iter: int = -1,
    monitor: Monitor | None = None,
) -> LinearHulls:
    """Find the nearest points of two reduced hulls.

    Parameters
    ----------
    hulls : SoftMargin
        The problem.
    X : ndarray of shape (n_rows, n_features)
        The rows, about the origin.
    method : {"qp", "implicit", "sampling"}
        How.
    seed : int
        Seed of samples; the result does not depend on it.
    max_iter : int
        Largest number of rounds; -1 is 100, or 10,000 for "sampling".
    monitor : callable, optional
        Called between rounds with (rounds, relative gap); returns whether to go on.
    """
    rounds = max_iter if max_iter > 0 else ROUNDS[method]
    solve = {"qp": _by_qp, "implicit": _by_implicit, "sampling": _by_sampling}[method]
    s, n_iter, status, history = solve(hulls, X, seed, rounds, monitor)
    # Caps went through divisions: what is at its cap up to rounding is at its cap.
    D = hulls.upper - hulls.lower
    s = np.where(s >= (1.0 - ROUNDING) * D, D, np.where(s <= ROUNDING * D, 0.0, s))
    b = np.where(hulls.group == 0, s, -s)
    b = hulls.repair(b, _order(hulls, b, X))
    w = b @ X
    f = X @ w
    norm2 = float(w @ w)
    points = NearestPoints.of(hulls, f, norm2)
    longest = float(np.sqrt(np.einsum("ij,ij->i", X, X).max(initial=0.0)))
    apart = points.separated and norm2 > (ZERO * longest) ** 2
    return LinearHulls(SolverResult(b, f, max(1, n_iter), status), points, apart, history)


_Found = tuple[FloatArray, int, Status, list[dict[str, Any]]]


def _by_qp(
    hulls: SoftMargin, X: FloatArray, seed: int, rounds: int, monitor: Monitor | None
) -> _Found:
    y, D = _labels(hulls), hulls.upper - hulls.lower
    form = Form("hull", 1.0)
    found = solve_box_qp(
        X * y[:, None], form.columns(y), form.sums(np.zeros(2)), np.zeros(len(y)), D,
        np.zeros(X.shape[1]),
    )  # fmt: skip
    return found.s, found.n_iter, "converged", []


def _by_implicit(
    hulls: SoftMargin, X: FloatArray, seed: int, rounds: int, monitor: Monitor | None
) -> _Found:
    source = Memory(X, _labels(hulls), hulls.upper - hulls.lower)
    form = Form("hull", 1.0)
    found = solve_implicit(source, form, seed=seed, max_rounds=rounds, monitor=monitor)
    if found.status == "not_separable":
        return _somewhere(hulls), found.n_iter, "converged", found.history
    s = np.concatenate(dual_variables(source, form, found))
    return s, found.n_iter, found.status, found.history


def _by_sampling(
    hulls: SoftMargin, X: FloatArray, seed: int, rounds: int, monitor: Monitor | None
) -> _Found:
    D = hulls.upper - hulls.lower
    k = max(1.0, 1.0 / float(D[D > 0].min()))
    source = Memory(X, _labels(hulls), D * k)
    try:
        if k == 1.0:
            found = grow_margin(source, seed=seed, max_rounds=rounds, monitor=monitor)
        else:
            plan = practical_plan(X.shape[1], k)
            found = opt_soft_margin(
                source, k, plan=plan, seed=seed, max_rounds=rounds, monitor=monitor
            )
    except NotSeparable:
        return _somewhere(hulls), 1, "converged", []
    first = np.concatenate([[0], np.cumsum(source.sizes)])
    s = np.zeros(len(D))
    s[first[found.support_part] + found.support_row] = found.multipliers
    return s, found.rounds, found.status, [asdict(entry) for entry in found.history]


def _order(hulls: SoftMargin, b: FloatArray, X: FloatArray) -> FloatArray:
    """Return where sums take up their rounding: free rows first, then by nearness to the threshold.

    A row far from its threshold that rounding lifts off its bound would violate by that distance.
    """
    f = X @ (b @ X)
    distance = np.abs(NearestPoints.of(hulls, f, 0.0).slack(hulls, f))
    free = (b > hulls.lower) & (b < hulls.upper)
    return np.where(free, -np.minimum(b - hulls.lower, hulls.upper - b), distance)


def _labels(hulls: SoftMargin) -> FloatArray:
    return np.where(hulls.group == 0, 1.0, -1.0)


def _somewhere(hulls: SoftMargin) -> FloatArray:
    """Return feasible masses where w = 0 is all that is known."""
    return np.abs(hulls.repair(np.zeros(hulls.n_variables)))
