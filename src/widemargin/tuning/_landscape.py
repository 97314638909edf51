r"""What gradient tuning descends: leave-one-out loss plus prior, as a function of log-parameters.

The coordinates x are relative to a natural scale of the data, so that 0 is a sensible guess:

* log C - log C_0, where C_0 times the mean of k(x, x) and of the weights is 1;
* log gamma - log gamma_0, gamma_0 = 1 / (n_features variance);
* for one gamma a feature, delta_d = log(gamma_d / gamma), gamma_d in units of 1 / variance_d.

With m rows (counted by weight) the objective is

.. math::

    J(x) + \frac{\lambda}{m} \Bigl[ \frac{x_C^2 + x_\gamma^2}{2 \cdot 3^2}
    + \sum_d \log\bigl(1 + (\delta_d / 0.25)^2\bigr) \Bigr] .

m J is a log-likelihood, so the bracket is minus the logarithm of a prior density. The first term
is weak: half a unit at a factor of 20. It keeps flat valleys (small gamma with large C is a
linear machine) from being followed to their ends. The second one is Cauchy's: narrow, so that
features which all matter keep one scale (free scales overfit), and with heavy tails, so that to
remove a noise feature, delta = -4, costs no more than 5.6 units, which any real gain pays.

J jumps a little where the support set changes, by about a percent in all. So the descent
ends when a step gains less than a thousandth, and its best point is kept, not its last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from widemargin._typing import BoolArray, FloatArray, IntArray
from widemargin.tuning._kernel_paths import KernelPath
from widemargin.tuning._smooth_loss import Pair, smooth_loss

WEAK_SD = 3.0
CAUCHY_WIDTH = 0.25
COST_RANGE = (-7.0, 10.0)  # bounds of the coordinates, in natural logarithms
GAMMA_RANGE = (-7.0, 5.0)
DELTA_RANGE = (-8.0, 4.0)
SMALLEST_GAIN = 1e-3  # of a step, relative to the objective
SMALLEST_NATS = 0.05  # the same in units of m J: less likelihood than that tells nothing apart
LINE_SEARCH = 8  # evaluations; a search that needs more has met a jump


@dataclass(frozen=True)
class Point:
    """One evaluation: parameters, leave-one-out loss and objective (the loss plus the prior)."""

    x: FloatArray
    C: float
    theta: FloatArray
    loss: float
    objective: float


@dataclass
class Landscape:
    """The objective on one set of rows.

    Attributes
    ----------
    path : KernelPath
        The kernel matrix as a function of log gamma.
    rows : list of ndarray or None
        Rows of each binary problem, None for all.
    pairs : list of Pair
        The binary problems.
    cost : float
        C_0, or the fixed C.
    base : ndarray of shape (path.size,)
        Log gamma at x = 0.
    tune_cost : bool
        Whether C is a coordinate.
    prior : float
        lambda.
    observe : callable
        Called with every Point.
    """

    path: KernelPath
    rows: list[IntArray | None]
    pairs: list[Pair]
    cost: float
    base: FloatArray
    tune_cost: bool
    prior: float
    observe: Callable[[Point], None]

    def __post_init__(self) -> None:
        self.supports: list[BoolArray | None] = [None] * len(self.pairs)
        self.n_deltas = self.path.size if self.path.size > 1 else 0
        self.total = sum(float(pair.weight.sum()) for pair in self.pairs)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Bounds of the coordinates."""
        cost = [COST_RANGE] * self.tune_cost
        gamma = [GAMMA_RANGE] * (self.path.size > 0)
        return cost + gamma + [DELTA_RANGE] * self.n_deltas

    def split(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return C and log gamma at a point."""
        C = self.cost * float(np.exp(x[0])) if self.tune_cost else self.cost
        x = x[int(self.tune_cost) :]
        if not self.path.size:
            return C, x
        return C, self.base + x[0] + (x[1:] if self.n_deltas else 0.0)

    def kernels(self, theta: FloatArray) -> list[FloatArray]:
        """Return the kernel matrix of each binary problem."""
        K = self.path.kernel(theta)
        return [K if rows is None else K[np.ix_(rows, rows)] for rows in self.rows]

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its gradient."""
        C, theta = self.split(x)
        loss, by_cost, by_theta = 0.0, 0.0, np.zeros(self.path.size)
        for i, (K, pair, rows) in enumerate(
            zip(self.kernels(theta), self.pairs, self.rows, strict=True)
        ):
            share = float(pair.weight.sum()) / self.total
            # The last support set is where the solver starts: nearby, it is nearly right.
            part = smooth_loss(K, pair, C, self.supports[i])
            self.supports[i] = part.support
            loss += share * part.loss
            by_cost -= share * float(part.v_gradient @ (0.5 / (C * pair.cost)))
            by_theta += share * self.path.gradient(theta, K, rows, part)
        gradient = [by_cost] * self.tune_cost + [by_theta.sum()] * (self.path.size > 0)
        penalty, slope = self._penalty(x)
        whole = np.concatenate([gradient, by_theta[: self.n_deltas]]) + slope
        self.observe(Point(x.copy(), C, theta, loss, loss + penalty))
        return loss + penalty, whole

    def _penalty(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the prior's part of the objective and of its gradient."""
        common = len(x) - self.n_deltas
        weight = self.prior / effective_rows(self.pairs)
        scaled = x[common:] / CAUCHY_WIDTH
        value = float((x[:common] ** 2).sum()) / (2.0 * WEAK_SD**2) + float(
            np.log1p(scaled**2).sum()
        )
        slope = np.concatenate(
            [x[:common] / WEAK_SD**2, 2.0 * scaled / (1.0 + scaled**2) / CAUCHY_WIDTH]
        )
        return weight * value, weight * slope


def effective_rows(pairs: list[Pair]) -> float:
    """Return how many rows the losses stand for.

    Weights of 1 and more count repetitions. Where they are fractions only their ratios matter.
    """
    weight = np.concatenate([pair.weight for pair in pairs])
    total = float(weight.sum())
    return max(total, total**2 / float(weight @ weight))


def descend(
    landscape: Landscape, start: FloatArray, *, max_iter: int
) -> tuple[FloatArray, float, str]:
    """Minimise by L-BFGS-B; return the best point seen, its objective and why the search ended.

    Parameters
    ----------
    landscape : Landscape
        The objective.
    start : ndarray
        Coordinates to start from.
    max_iter : int
        Largest number of steps.
    """
    landscape.supports = [None] * len(landscape.pairs)  # a start owes nothing to the one before
    best: list[Any] = [start, np.inf]
    least = SMALLEST_NATS / effective_rows(landscape.pairs)
    last = np.inf
    message = ""

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = landscape(x)
        if value < best[1]:
            best[:] = x.copy(), value
        return value, gradient

    def after_step(intermediate_result: Any) -> None:
        nonlocal last, message
        value = float(intermediate_result.fun)
        if last - value <= max(SMALLEST_GAIN * abs(value), least):
            message = "the last step gained too little to go on"
            raise StopIteration
        last = value

    low, high = np.array(landscape.bounds).T
    found = minimize(
        objective,
        np.clip(start, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=landscape.bounds,
        callback=after_step,
        options={"maxiter": max_iter, "maxls": LINE_SEARCH},
    )
    if found.nit >= max_iter:
        message = f"max_iter={max_iter} steps were taken"
    return best[0], float(best[1]), message or "no step along the gradient gained anything"
