r"""Fit radial-basis networks by k-means and a few steps of conjugate gradients.

Problem: :class:`widemargin.problems.rbf_net.RBFNetProblem`; data: the samples, float64, dense or
CSR. There is one method. The reduced error of centres and widths has many local minima and is not
meant to be minimised: after k-means has put the centres where the weight is, about ten steps adapt
them to the labels (Rätsch, Onoda and Müller 2001).

*Start.* Weighted k-means++ (Arthur and Vassilvitskii 2007) and Lloyd's iterations; each width is
the distance to the nearest other centre.

*Steps.* Conjugate directions of Polak and Ribière, restarted where they would point uphill, over
the centres in units of their first widths and the logarithms of the widths: scaling X scales the
network. A line search ends at a point where the slope is half of what it was; no step moves a
centre by more than its first width or a width by more than a factor e.

>>> import numpy as np
>>> from widemargin.problems.rbf_net import RBFNetProblem
>>> from widemargin.solvers.base import Budget
>>> from widemargin.solvers.rbf_net import solve
>>> X, label = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 1.0, -1.0])
>>> problem = RBFNetProblem(label, np.full(3, 1 / 3), ridge=1e-6, n_centres=2)
>>> result = solve(problem, X, budget=Budget(10))
>>> len(result.centres), result.error < 1e-3
(2, True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import require
from widemargin.problems.rbf_net import (
    RBFNetProblem,
    ReducedError,
    squared_distances,
    squared_lengths,
)
from widemargin.solvers.base import Budget, Result, Status

__all__ = ["RBFNetResult", "k_means", "solve"]

LLOYD_ROUNDS = 100
SUFFICIENT = 1e-4  # share of what the first slope promises that a step must gain
FLATTER = 0.5  # share of the first slope at which a line search is content
TRIALS = 10  # points of a line search
LONGER = 3.0


@dataclass(frozen=True, eq=False, kw_only=True)
class RBFNetResult(Result):
    """A fitted network.

    Attributes
    ----------
    centres : ndarray of shape (n_centres, n_features)
        c.
    widths : ndarray of shape (n_centres,)
        sigma.
    coef : ndarray of shape (n_centres,)
        Output weights a.
    error : float
        The regularised error.
    """

    centres: FloatArray
    widths: FloatArray
    coef: FloatArray
    error: float


def solve(
    problem: RBFNetProblem,
    data: Matrix,
    *,
    tol: float = 1e-12,
    budget: Budget,
    start: RBFNetResult | None = None,
    method: str = "auto",
    seed: int = 0,
) -> RBFNetResult:
    """Fit a radial-basis network.

    Parameters
    ----------
    problem : RBFNetProblem
        Labels, weights, weight decay and number of centres.
    data : ndarray or CSR of shape (n_samples, n_features)
        Samples, float64; dense ones near the origin, so that squared distances keep their digits.
    tol : float, default=1e-12
        Slope along a search direction, relative to the error, below which the run has converged.
    budget : Budget
        Conjugate-gradient steps; 0 leaves centres and widths where they start.
    start : RBFNetResult, optional
        Network whose centres and widths to start from; None is that of :func:`k_means`.
    method : {"auto"}
        There is one.
    seed : int, default=0
        Of :func:`k_means`.
    """
    require(method == "auto", "method", method, '"auto"')
    start = k_means(problem, data, seed=seed) if start is None else start
    scaled = _Scaled(problem, data, start.centres, start.widths)
    here = scaled.at(np.zeros(start.centres.size + len(start.widths)))
    direction, length = -here.gradient, 1.0
    status: Status = "max_iter"
    while budget.left:
        if here.gradient @ direction >= 0:
            direction = -here.gradient
        slope = float(here.gradient @ direction)
        if -slope <= tol * here.found.value:
            status = "converged"
            break
        there, length = _search(scaled, here, direction, slope, length)
        if there is here:
            status = "stalled"
            break
        turned = float(there.gradient @ (there.gradient - here.gradient))
        conjugacy = max(0.0, turned / float(here.gradient @ here.gradient))
        direction = conjugacy * direction - there.gradient
        here = there
        if not budget.spend(1, -slope) and budget.status == "stopped":
            status = "stopped"
            break
    centres, widths = scaled.network(here.variables)
    return RBFNetResult(
        centres=centres,
        widths=widths,
        coef=here.found.coef,
        error=here.found.value,
        n_iter=budget.used,
        status=status,
    )


# -- the start ---------------------------------------------------------------------------------


def k_means(problem: RBFNetProblem, X: Matrix, *, seed: int) -> RBFNetResult:
    """Return a network without output, its centres by k-means, its widths from their distances.

    It depends on the labels in nothing. There are fewer centres than asked for where X has fewer
    different samples.
    """
    norms, weight = squared_lengths(X), problem.weight
    rows = _plus_plus_rows(X, norms, weight, problem.n_centres, np.random.default_rng(seed))
    centres = _dense(X, rows)
    nearest: IntArray | None = None
    for _ in range(LLOYD_ROUNDS):
        before, nearest = nearest, squared_distances(X, norms, centres).argmin(axis=1)
        if before is not None and np.array_equal(before, nearest):
            break
        centres = _cluster_means(X, weight, nearest, centres)
    return RBFNetResult(
        centres=centres,
        widths=_widths(X, norms, weight, centres),
        coef=np.zeros(len(centres)),
        error=0.5 * float(weight.sum()),
        n_iter=0,
        status="max_iter",
    )


def _plus_plus_rows(
    X: Matrix, norms: FloatArray, weight: FloatArray, n_centres: int, rng: np.random.Generator
) -> list[int]:
    """Draw rows with chances of their weight times the squared distance to the rows before."""
    rows: list[int] = []
    distance = np.ones(len(weight))
    # Squared distances below this are the rounding of their expansion: the row is there already.
    rounding = 1e-14 * float(norms.max())
    for draw in rng.random(n_centres):
        chance = np.cumsum(weight * distance)
        if chance[-1] <= 0.0:
            break
        rows.append(int(np.searchsorted(chance, draw * chance[-1], side="right")))
        here = squared_distances(X, norms, _dense(X, rows[-1:]))[:, 0]
        here[here <= rounding] = 0.0
        distance = np.minimum(distance, here) if len(rows) > 1 else here
    return rows


def _dense(X: Matrix, rows: list[int]) -> FloatArray:
    """Return some rows as a dense array of their own."""
    taken = X[rows]
    return np.array(taken.toarray() if hasattr(taken, "toarray") else taken, dtype=np.float64)


def _cluster_means(
    X: Matrix, weight: FloatArray, nearest: IntArray, centres: FloatArray
) -> FloatArray:
    """Return the mean of each cluster; a cluster that has lost its rows stays where it is."""
    share = np.zeros((len(weight), len(centres)))
    share[np.arange(len(weight)), nearest] = weight
    mass = share.sum(axis=0)
    sums = np.asarray(X.T @ share).T
    alive = mass > 0
    moved = centres.copy()
    moved[alive] = sums[alive] / mass[alive, None]
    return moved


def _widths(X: Matrix, norms: FloatArray, weight: FloatArray, centres: FloatArray) -> FloatArray:
    """Return the distance of each centre to the nearest other one.

    A single centre takes the root mean squared distance of the rows, or 1 if they are all there.
    """
    if len(centres) == 1:
        spread = float(weight @ squared_distances(X, norms, centres)[:, 0]) / float(weight.sum())
        return np.array([np.sqrt(spread) if spread > 0 else 1.0])
    apart = squared_distances(centres, squared_lengths(centres), centres)
    np.fill_diagonal(apart, np.inf)
    widths = np.sqrt(apart.min(axis=1))
    # Lloyd's means can meet, if only by a rare symmetry of the rows: no bump may have width zero.
    return np.where(widths > 0, widths, widths.max() if widths.max() > 0 else 1.0)


# -- the steps ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    """A place of the descent: the variables, the error there and the gradient by them."""

    variables: FloatArray
    found: ReducedError
    gradient: FloatArray


class _Scaled:
    """The reduced error as a function of one vector without units."""

    def __init__(
        self, problem: RBFNetProblem, X: Matrix, centres: FloatArray, widths: FloatArray
    ) -> None:
        self.problem, self.X, self.norms = problem, X, squared_lengths(X)
        self.centres = centres
        self.widths = widths

    def network(self, variables: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the centres and widths that the variables stand for."""
        moves = variables[: self.centres.size].reshape(self.centres.shape)
        growth = variables[self.centres.size :]
        return self.centres + moves * self.widths[:, None], self.widths * np.exp(growth)

    def at(self, variables: FloatArray) -> _Point:
        """Evaluate error and gradient."""
        found = self.problem.reduced(self.X, self.norms, *self.network(variables))
        by_move = found.by_centre * self.widths[:, None]
        return _Point(variables, found, np.concatenate([by_move.ravel(), found.by_log_width]))


def _search(
    scaled: _Scaled, here: _Point, direction: FloatArray, slope: float, first: float
) -> tuple[_Point, float]:
    """Return a better point along a direction and its distance; the same point if there is none.

    The bracket [low, high] holds a minimum once high is finite; low has gained enough.
    """
    longest = 1.0 / float(np.abs(direction).max())
    low, low_slope, high, step = 0.0, slope, np.inf, min(first, longest)
    best, best_step = here, 0.0
    for _ in range(TRIALS):
        there = scaled.at(here.variables + step * direction)
        there_slope = float(there.gradient @ direction)
        gained = there.found.value <= here.found.value + SUFFICIENT * step * slope
        if gained and there.found.value <= best.found.value:
            best, best_step = there, step
        if gained and (abs(there_slope) <= -FLATTER * slope or step == longest):
            break
        if gained and there_slope < 0:
            low, low_slope = step, there_slope
        else:
            high = step
        if np.isinf(high):
            step = min(LONGER * step, longest)
        else:
            share = 0.5
            if high == step and there_slope > 0:  # where a linear slope would vanish, well inside
                share = float(np.clip(low_slope / (low_slope - there_slope), 0.1, 0.9))
            step = low + (high - low) * share
    return best, best_step
