r"""Radial-basis function networks, fitted by k-means and a few conjugate-gradient steps.

Problem: :class:`widemargin.problems.rbf_net.RBFNetProblem`; data: the samples, float64, dense or
CSR. There is one method. The reduced error as a function of centres and widths has many local
minima and is not meant to be minimised: after k-means has placed the centres by sample weight,
about ten steps adapt them to the labels (Rätsch, Onoda and Müller 2001).

*Initialisation.* Weighted k-means++ (Arthur and Vassilvitskii 2007) and Lloyd's iterations; each
width is the distance to the nearest other centre.

*Steps.* Polak-Ribière conjugate gradients, restarted with the negative gradient if the direction
is not a descent direction. The variables are the centres in units of their initial widths and the
logarithms of the widths, so that scaling X scales the network. The line search stops where the
slope is at most half its initial value; no step moves a coordinate of a centre by more than its
initial width or changes a width by more than a factor e.

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
SUFFICIENT = 1e-4  # Armijo condition: fraction of the decrease predicted by the initial slope
FLATTER = 0.5  # curvature condition: fraction of the initial slope at which a line search stops
TRIALS = 10  # evaluations per line search
LONGER = 3.0  # factor by which a step grows until a minimum is bracketed


@dataclass(frozen=True, eq=False, kw_only=True)
class RBFNetResult(Result):
    """Fitted radial-basis function network.

    Attributes
    ----------
    centres : ndarray of shape (n_centres, n_features)
        Centres c.
    widths : ndarray of shape (n_centres,)
        Widths sigma.
    coef : ndarray of shape (n_centres,)
        Output weights a.
    error : float
        Regularised error.
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
    """Fit a radial-basis function network.

    Parameters
    ----------
    problem : RBFNetProblem
        Labels, weights, weight decay and number of centres.
    data : ndarray or CSR of shape (n_samples, n_features)
        Samples, float64; dense ones near the origin, so that squared distances keep their digits.
    tol : float, default=1e-12
        The run has converged if the slope along a search direction, relative to the error, is
        below this.
    budget : Budget
        Conjugate-gradient steps; with 0, centres and widths keep their initial values.
    start : RBFNetResult, optional
        Network whose centres and widths to start from; by default that of :func:`k_means`.
    method : {"auto"}
        The only method.
    seed : int, default=0
        Seed of :func:`k_means`.
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
        # Polak-Ribière (PR+): a negative coefficient restarts the method along the gradient.
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


# -- initialisation by k-means -----------------------------------------------------------------


def k_means(problem: RBFNetProblem, X: Matrix, *, seed: int) -> RBFNetResult:
    """Return a network with zero output weights, centres by k-means and widths from distances.

    It does not depend on the labels. If X has fewer distinct samples than `n_centres`, there are
    fewer centres.
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
    """Draw samples by k-means++: probability ~ weight times squared distance to those drawn."""
    rows: list[int] = []
    distance = np.ones(len(weight))
    # |x|^2 - 2 x.c + |c|^2 cancels: a squared distance below this means an equal sample.
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
    """Return a dense float64 copy of some samples."""
    taken = X[rows]
    return np.array(taken.toarray() if hasattr(taken, "toarray") else taken, dtype=np.float64)


def _cluster_means(
    X: Matrix, weight: FloatArray, nearest: IntArray, centres: FloatArray
) -> FloatArray:
    """Return the weighted mean of each cluster; an empty cluster keeps its centre."""
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

    A single centre gets the root mean squared distance of the samples to it, or 1 if that is 0.
    """
    if len(centres) == 1:
        spread = float(weight @ squared_distances(X, norms, centres)[:, 0]) / float(weight.sum())
        return np.array([np.sqrt(spread) if spread > 0 else 1.0])
    apart = squared_distances(centres, squared_lengths(centres), centres)
    np.fill_diagonal(apart, np.inf)
    widths = np.sqrt(apart.min(axis=1))
    # By a rare symmetry of the samples two means can coincide; a width must not be zero.
    return np.where(widths > 0, widths, widths.max() if widths.max() > 0 else 1.0)


# -- conjugate gradients -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Point:
    """Iterate: variables, reduced error and gradient with respect to the variables."""

    variables: FloatArray
    found: ReducedError
    gradient: FloatArray


class _Scaled:
    """Reduced error as a function of one dimensionless vector of variables."""

    def __init__(
        self, problem: RBFNetProblem, X: Matrix, centres: FloatArray, widths: FloatArray
    ) -> None:
        self.problem, self.X, self.norms = problem, X, squared_lengths(X)
        self.centres = centres
        self.widths = widths

    def network(self, variables: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the centres and widths that correspond to the variables."""
        moves = variables[: self.centres.size].reshape(self.centres.shape)
        growth = variables[self.centres.size :]
        return self.centres + moves * self.widths[:, None], self.widths * np.exp(growth)

    def at(self, variables: FloatArray) -> _Point:
        """Evaluate the reduced error and its gradient."""
        found = self.problem.reduced(self.X, self.norms, *self.network(variables))
        by_move = found.by_centre * self.widths[:, None]
        return _Point(variables, found, np.concatenate([by_move.ravel(), found.by_log_width]))


def _search(
    scaled: _Scaled, here: _Point, direction: FloatArray, slope: float, first: float
) -> tuple[_Point, float]:
    """Search along a direction; return the best point and its step, or `here` if none is better.

    Once `high` is finite, [low, high] brackets a minimum; `low` satisfies the Armijo condition.
    """
    # No scaled variable may move by more than 1, see the module docstring.
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
            if high == step and there_slope > 0:  # zero of the linearly interpolated slope
                share = float(np.clip(low_slope / (low_slope - there_slope), 0.1, 0.9))
            step = low + (high - low) * share
    return best, best_step
