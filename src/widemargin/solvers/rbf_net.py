r"""Radial-basis networks by k-means and a few steps of conjugate gradients.

Problem: the reduced error of :mod:`widemargin.problems.rbf_net`. It has many local minima and is
not meant to be minimised: after k-means has put the centres where the weight is, about ten steps
adapt them to the labels (Rätsch, Onoda and Müller 2001).

*Start.* Weighted k-means++ (Arthur and Vassilvitskii 2007) and Lloyd's iterations; each width is
the distance to the nearest other centre.

*Steps.* Conjugate directions of Polak and Ribière, restarted where they would point uphill, over
the centres in units of their first widths and the logarithms of the widths: scaling X scales the
network. A line search ends at a point where the slope is half of what it was; no step moves a
centre by more than its first width or a width by more than a factor e.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.problems.rbf_net import (
    RBFNetProblem,
    ReducedError,
    squared_distances,
    squared_lengths,
)

LLOYD_ROUNDS = 100
SUFFICIENT = 1e-4  # share of what the first slope promises that a step must gain
FLATTER = 0.5  # share of the first slope at which a line search is content
TRIALS = 10  # points of a line search
LONGER = 3.0
NOTHING = 1e-12  # a slope below this share of the error promises nothing


@dataclass(frozen=True)
class RBFNet:
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


# -- the start ---------------------------------------------------------------------------------


def start(
    X: Matrix, weight: FloatArray, n_centres: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return centres by k-means and their widths.

    There are fewer centres than asked for where X has fewer different rows.
    """
    norms = squared_lengths(X)
    rows = _spread_rows(X, norms, weight, n_centres, np.random.default_rng(seed))
    centres = _dense(X, rows)
    nearest: IntArray | None = None
    for _ in range(LLOYD_ROUNDS):
        before, nearest = nearest, squared_distances(X, norms, centres).argmin(axis=1)
        if before is not None and np.array_equal(before, nearest):
            break
        centres = _cluster_means(X, weight, nearest, centres)
    return centres, _widths(X, norms, weight, centres)


def _spread_rows(
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

    def __init__(self, problem: RBFNetProblem, centres: FloatArray, widths: FloatArray) -> None:
        self.problem = problem
        self.centres = centres
        self.widths = widths

    def network(self, variables: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the centres and widths that the variables stand for."""
        moves = variables[: self.centres.size].reshape(self.centres.shape)
        growth = variables[self.centres.size :]
        return self.centres + moves * self.widths[:, None], self.widths * np.exp(growth)

    def at(self, variables: FloatArray) -> _Point:
        """Evaluate error and gradient."""
        found = self.problem.reduced(*self.network(variables))
        by_move = found.by_centre * self.widths[:, None]
        return _Point(variables, found, np.concatenate([by_move.ravel(), found.by_log_width]))


def adapt(
    problem: RBFNetProblem, centres: FloatArray, widths: FloatArray, n_steps: int
) -> tuple[RBFNet, int]:
    """Take at most n_steps conjugate-gradient steps; return the network and the steps taken."""
    scaled = _Scaled(problem, centres, widths)
    here = scaled.at(np.zeros(centres.size + len(widths)))
    direction, length, taken = -here.gradient, 1.0, 0
    while taken < n_steps:
        if here.gradient @ direction >= 0:
            direction = -here.gradient
        slope = float(here.gradient @ direction)
        if -slope <= NOTHING * here.found.value:
            break
        there, length = _search(scaled, here, direction, slope, length)
        if there is here:
            break
        turned = float(there.gradient @ (there.gradient - here.gradient))
        conjugacy = max(0.0, turned / float(here.gradient @ here.gradient))
        direction = conjugacy * direction - there.gradient
        here = there
        taken += 1
    centres, widths = scaled.network(here.variables)
    return RBFNet(centres, widths, here.found.coef, here.found.value), taken


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
            step = _between(low, low_slope, high, there_slope if high == step else np.nan)
    return best, best_step


def _between(low: float, low_slope: float, high: float, high_slope: float) -> float:
    """Return where the slope should vanish by linear interpolation, well inside the bracket."""
    width = high - low
    if not high_slope > 0:
        return low + 0.5 * width
    return low + width * float(np.clip(low_slope / (low_slope - high_slope), 0.1, 0.9))
