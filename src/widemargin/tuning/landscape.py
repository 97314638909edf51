r"""Objective of gradient tuning: leave-one-out loss plus prior, as a function of log-parameters.

The coordinates x are relative to a natural scale of the data, so that 0 is a sensible guess:

* log C - log C_0, where C_0 times the mean of k(x, x) and of the weights is 1;
* log v - log v_0 for the input noise of a Gaussian process, v_0 the mean of k(x, x);
* log(1 + kappa / 0.01) for its flip noise, so that kappa = 0 (no flips) can be reached;
* log gamma - log gamma_0, gamma_0 = 1 / (n_features variance);
* for one gamma per feature, delta_d = log(gamma_d / gamma), gamma_d in units of 1 / variance_d.

With m samples (counted by weight) the objective is

.. math::

    J(x) + \frac{\lambda}{m} \Bigl[ \sum_{C, v, \kappa, \gamma} \frac{x^2}{2 \cdot 3^2}
    + \sum_d \log\bigl(1 + (\delta_d / \omega)^2\bigr) \Bigr] .

m J is a negative log-likelihood, so the bracket is minus the logarithm of a prior density. The
first term is a weak Gaussian prior: half a unit at a factor of 20. It prevents a descent from
following flat valleys to their ends (a small gamma with a large C is a linear model). The second
term is a Cauchy prior. It keeps the scales of features together that the data do not tell apart,
since free scales overfit, and has heavy tails, so that removing a noise feature, delta = -4, costs
only 5.6 units at the width omega = 0.25 of margin classifiers, and 2.8 at the width 1 of Gaussian
processes. Their evidence and leave-one-out log-loss overfit less, and at a quarter of that width
the natural scales of two features would outweigh a factor of 7 for which the evidence has proof.

J of a margin classifier has small jumps where the set of support vectors changes, about one percent
in total. So the descent stops when an iteration gains less than a thousandth, and returns its best
point instead of the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.tuning.kernel_paths import KernelPath
from widemargin.tuning.smooth_loss import Pair, smooth_loss

WEAK_SD = 3.0
CAUCHY_WIDTH = 0.25
COST_RANGE = (-7.0, 10.0)  # bounds of the coordinates, in natural logarithms
GAMMA_RANGE = (-7.0, 5.0)
DELTA_RANGE = (-8.0, 4.0)
SMALLEST_GAIN = 1e-3  # of an iteration, relative to the objective; the descent stops below it
SMALLEST_NATS = 0.05  # the same in units of m J: a smaller log-likelihood ratio is negligible
LINE_SEARCH = 8  # maximum number of evaluations; a line search that needs more is at a jump
WORSE = 1.0  # nats per sample that an infinite objective is set above the best one


@dataclass(frozen=True)
class Point:
    """Evaluation of the objective: parameters, loss and objective (loss plus prior)."""

    x: FloatArray
    values: dict[str, float]
    theta: FloatArray
    loss: float
    objective: float


@dataclass(frozen=True)
class Scale:
    """Scalar parameter with its log-coordinate x: value = unit (exp(x) - shift).

    Attributes
    ----------
    name : str
        Name of the parameter.
    unit : float
        Its natural scale.
    bounds : tuple of float
        Bounds of the coordinate.
    shift : float
        0, or 1 for a parameter that may be 0.
    start : float
        Coordinate at which a descent starts.
    """

    name: str
    unit: float
    bounds: tuple[float, float]
    shift: float = 0.0
    start: float = 0.0

    def value(self, x: float) -> float:
        """Return the value of the parameter at x."""
        return self.unit * (float(np.exp(x)) - self.shift)

    def rate(self, x: float) -> float:
        """Return the derivative of the value with respect to x."""
        return self.unit * float(np.exp(x))

    def coordinate(self, value: float) -> float:
        """Return the coordinate x of a value."""
        return float(np.log(value / self.unit + self.shift))


@dataclass(frozen=True)
class Slope:
    """Loss with its derivatives with respect to the parameters, by name, and to log gamma."""

    loss: float
    by_value: dict[str, float]
    by_theta: FloatArray


@dataclass
class Surface:
    """Base class of tuning objectives on a fixed set of samples.

    Attributes
    ----------
    path : KernelPath
        The kernel matrix as a function of log gamma.
    base : ndarray of shape (path.size,)
        Log gamma at x = 0.
    scales : list of Scale
        The scalar parameters, which are the first coordinates.
    fixed : dict
        Values of the parameters that are not coordinates.
    prior : float
        Weight lambda of the prior.
    observe : callable
        Called with every Point.
    n_rows : float
        m, summed over the binary problems.
    cauchy_width : float
        Width omega of the prior of the deltas.
    """

    path: KernelPath
    base: FloatArray
    scales: list[Scale]
    fixed: dict[str, float]
    prior: float
    observe: Callable[[Point], None]
    n_rows: float = field(init=False)
    cauchy_width: ClassVar[float] = CAUCHY_WIDTH

    def evaluate(self, values: dict[str, float], theta: FloatArray) -> Slope:
        """Return the loss and its derivatives; the loss is infinite if a problem is not solved."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop warm starts, so that each descent is independent of those before."""

    @property
    def n_deltas(self) -> int:
        """Number of coordinates delta: one per feature, or 0 with a single gamma."""
        return self.path.size if self.path.size > 1 and not self.path.separate else 0

    @property
    def n_widths(self) -> int:
        """Number of coordinates of the kernel without the deltas."""
        return self.path.size if self.path.separate else min(1, self.path.size)

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Bounds of the coordinates."""
        gamma = [GAMMA_RANGE] * self.n_widths
        return [scale.bounds for scale in self.scales] + gamma + [DELTA_RANGE] * self.n_deltas

    def split(self, x: FloatArray) -> tuple[dict[str, float], FloatArray]:
        """Return the parameters by name and log gamma, given the coordinates x."""
        values = self.fixed | {s.name: s.value(c) for s, c in zip(self.scales, x, strict=False)}
        x = x[len(self.scales) :]
        if not self.path.size or self.path.separate:
            return values, self.base + x
        return values, self.base + x[0] + (x[1:] if self.n_deltas else 0.0)

    def __call__(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Compute the objective and its gradient."""
        values, theta = self.split(x)
        here = self.evaluate(values, theta)
        pairs = zip(self.scales, x, strict=False)
        gradient = [here.by_value[scale.name] * scale.rate(c) for scale, c in pairs]
        common = [here.by_theta.sum()] * self.n_widths
        gradient += [*here.by_theta] if self.path.separate else common
        penalty, slope = self._penalty(x)
        whole = np.concatenate([gradient, here.by_theta[: self.n_deltas]]) + slope
        self.observe(Point(x.copy(), values, theta, here.loss, here.loss + penalty))
        return here.loss + penalty, whole

    def _penalty(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Return the prior term of the objective and its gradient."""
        common = len(x) - self.n_deltas
        weight = self.prior / self.n_rows
        scaled = x[common:] / self.cauchy_width
        value = float((x[:common] ** 2).sum()) / (2.0 * WEAK_SD**2) + float(
            np.log1p(scaled**2).sum()
        )
        slope = np.concatenate(
            [x[:common] / WEAK_SD**2, 2.0 * scaled / (1.0 + scaled**2) / self.cauchy_width]
        )
        return weight * value, weight * slope


@dataclass
class Landscape(Surface):
    """Tuning objective of margin classifiers.

    Attributes
    ----------
    rows : list of ndarray or None
        Indices of the samples of each binary problem, None for all.
    pairs : list of Pair
        The binary problems.
    """

    rows: list[IntArray | None]
    pairs: list[Pair]

    def __post_init__(self) -> None:
        self.total = sum(float(pair.weight.sum()) for pair in self.pairs)
        self.n_rows = effective_rows([pair.weight for pair in self.pairs])
        self.forget()

    def forget(self) -> None:
        """Drop the sets of support vectors, which serve as warm starts."""
        self.supports: list[BoolArray | None] = [None] * len(self.pairs)

    def kernels(self, theta: FloatArray) -> list[FloatArray]:
        """Return the kernel matrix of each binary problem."""
        K = self.path.kernel(theta)
        return [K if rows is None else K[np.ix_(rows, rows)] for rows in self.rows]

    def evaluate(self, values: dict[str, float], theta: FloatArray) -> Slope:
        """Return the weighted mean of the leave-one-out losses of the binary problems."""
        C = values["C"]
        loss, by_cost, by_theta = 0.0, 0.0, np.zeros(self.path.size)
        for i, (K, pair, rows) in enumerate(
            zip(self.kernels(theta), self.pairs, self.rows, strict=True)
        ):
            share = float(pair.weight.sum()) / self.total
            # Support vectors change little between nearby points: a good warm start.
            part = smooth_loss(K, pair, C, self.supports[i])
            self.supports[i] = part.support
            loss += share * part.loss
            by_cost -= share * float(part.v_gradient @ (0.5 / (C * pair.cost)))
            by_theta += share * self.path.gradient(theta, K, rows, part)
        return Slope(loss, {"C": by_cost / C}, by_theta)


def effective_rows(weights: list[FloatArray]) -> float:
    """Return the effective number of samples.

    Weights of 1 and more count as copies. If weights are fractions, only their ratios matter.
    """
    weight = np.concatenate(weights)
    total = float(weight.sum())
    return max(total, total**2 / float(weight @ weight))


def descend(
    landscape: Surface, start: FloatArray, *, max_iter: int
) -> tuple[FloatArray, float, str]:
    """Minimise by L-BFGS-B; return the best point, its objective and the reason of termination.

    Parameters
    ----------
    landscape : Surface
        The objective.
    start : ndarray
        Initial coordinates.
    max_iter : int
        Maximum number of iterations.
    """
    landscape.forget()
    low, high = np.array(landscape.bounds).T
    best: list[Any] = [start, np.inf]
    least = SMALLEST_NATS / landscape.n_rows
    last = np.inf
    message = ""

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = landscape(x)
        if not np.isfinite(value):  # the line search requires finite values
            return (best[1] if np.isfinite(best[1]) else 0.0) + WORSE, np.zeros_like(x)
        if value < best[1]:
            best[:] = x.copy(), value
        # Clip derivatives that point out of the box: only their sign matters, but their size would
        # determine the step length. That for a flip noise of 0 can be 1e6 times the others.
        outward = ((x <= low) & (gradient > 0)) | ((x >= high) & (gradient < 0))
        most = np.abs(gradient[~outward]).max(initial=0.0)
        return value, np.where(outward, np.clip(gradient, -most, most), gradient)

    def after_step(intermediate_result: Any) -> None:
        nonlocal last, message
        value = float(intermediate_result.fun)
        if last - value <= max(SMALLEST_GAIN * abs(value), least):
            message = "the last step gained too little to go on"
            raise StopIteration
        last = value

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
