r"""Programs over kernel expansions: LOOSVC, AdaptiveMarginSVC, LPSVC and NuLPSVC.

The decision function is :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, (2.1) of Smola et al. (2000),
without intercept. The **primal** is

.. math::

    \min_{\alpha, \xi, \rho}\; c \sum_i \alpha_i + \sum_i w_i \xi_i
    \quad\text{s.t.}\quad
    y_i f(x_i) - d_i \alpha_i + \xi_i \ge 1, \quad 0 \le \alpha \le u,\; \xi \ge 0,

and with the symmetric matrix :math:`G = \mathrm{diag}(y) K \mathrm{diag}(y) - \mathrm{diag}(d)` the
**dual** is

.. math::

    \max_z\; \sum_i z_i - \sum_i u_i \max(0, (G z)_i - c) \quad\text{s.t.}\quad 0 \le z \le w,

where

- :math:`\alpha_i`: coefficient of sample i, z: dual variables;
- :math:`y_i`: label, -1 or +1;
- :math:`w_i`: sample weight, the cost of a unit of slack;
- :math:`\xi_i`: slack;
- c: cost of a unit of the coefficients;
- :math:`d_i`: shift of the diagonal of the kernel matrix;
- :math:`u_i`: upper bound of a coefficient.

===================  ==============================  =============================================
machine              c, d                            reference
===================  ==============================  =============================================
leave-one-out        0, k(x_i, x_i) / w_i            (2.7)-(2.9); k(x_i, x_j) with i != j only
adaptive margin      0, lam k(x_i, x_i) / w_i        (2.10)-(2.12)
LP                   lam, 0                          (2.18)
===================  ==============================  =============================================

A sample of weight w represents w equal samples. Their coefficients sum to alpha_i, and the margin
of each is reduced by its own coefficient alpha_i / w only, hence the w in d.

With **squared slack**, :math:`\delta = 2` in (2.4), the program is quadratic: the primal has
:math:`w_i \xi_i^2` in place of :math:`w_i \xi_i`, and the dual, at :math:`z_i = 2 w_i \xi_i`, is

.. math::

    \max_z\; \sum_i z_i - \sum_i \frac{z_i^2}{4 w_i} - \sum_i u_i \max(0, (G z)_i - c)
    \quad\text{s.t.}\quad z \ge 0 .

If all samples can reach their margin, both losses are 0 and have the same optima. Otherwise the
slacks are unique, and every sample with a slack has a multiplier.

The upper bounds u follow from :data:`LIMIT`: for a sample so far from all others that their kernel
values are zero up to rounding, the optimal coefficient would be unbounded. With u the dual
objective is a lower bound for every z in the box, without further constraints; solvers use it. The
certificate states a bound for the problem without u wherever it proves enough, see `bounds`.

The nu machine (Graepel et al. 1999) optimises the margin rho instead of fixing c:

.. math::

    \min_{\alpha, \xi, \rho}\; -\nu \rho + \frac1m \sum_i w_i \xi_i
    \quad\text{s.t.}\quad y_i f(x_i) + \xi_i \ge \rho,\; \sum_i \alpha_i = 1, \; \alpha, \xi \ge 0,

where m is the sum of the weights; its dual is to maximise -max_i (G z)_i over 0 <= z <= w / m with
sum z = nu. At most a fraction nu of the samples has a margin below rho, and at least a fraction nu
has a margin of at most rho. Divided by rho, the solution is that of the LP machine with
lam = m max_i (G z)_i.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.products import gamma
from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate, gap_scale, rounded_up_gap
from widemargin.kernels import Rows
from widemargin.problems.linear_program.bounds import Evaluation

LIMIT = 1e8
"""Largest alpha_i k(x_i, x_i): far above what any kernel needs whose rows see each other.

Equal samples are one row, of which alpha_i is the sum of their coefficients: the limit holds for
the sum, whatever the number of copies or their weights.
"""

LIMITED = ", limited coefficients"
"""End of the name of a problem whose optimum is bounded with the limits of the coefficients."""

NOTHING = 1e-250
"""Kernel values below are what underflow has left of a row: it counts as a row of zeros."""


@dataclass(frozen=True, eq=False)
class MarginProgram:
    """Linear or quadratic program of the family stated in the module docstring.

    Attributes
    ----------
    name : str
        Name of the formulation, for certificates.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    weight : ndarray of shape (n_rows,)
        w, positive.
    shift : ndarray of shape (n_rows,)
        d, subtracted from the diagonal of the kernel matrix.
    price : float
        c, the cost of a unit of the coefficients.
    limit : ndarray of shape (n_rows,)
        u, the upper bounds; 0 for samples whose kernel values are all zero. The nu machine uses
        them for rounding errors only.
    nu : float or None
        nu > 0 of the nu machine, None for the others.
    lam : float
        Factor of k(x_i, x_i) / w_i in the shift d.
    squared : bool
        Whether the slacks are squared.
    """

    name: str
    y: FloatArray
    weight: FloatArray
    shift: FloatArray
    price: float
    limit: FloatArray
    nu: float | None = None
    lam: float = 0.0
    squared: bool = False

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return len(self.y)

    @property
    def cost(self) -> FloatArray:
        """Cost of slack: w, or w / m for the nu machine; upper bound of z if slack is linear."""
        return self.weight if self.nu is None else self.weight / self.weight.sum()

    @property
    def cap(self) -> FloatArray:
        """Upper bound of z: the cost of slack; infinite if slack is squared."""
        return np.full(self.n_rows, np.inf) if self.squared else self.cost

    def loss(self, slack: FloatArray) -> float:
        """Return the cost of slacks."""
        return float(self.cost @ (slack * slack if self.squared else slack))

    @property
    def linear(self) -> MarginProgram:
        """The program with linear slack."""
        return replace(self, squared=False)

    @property
    def steepness(self) -> float:
        """Derivative of the loss per weight at a slack of 1: alpha = 0 has multipliers of it."""
        return 2.0 if self.squared else 1.0

    def product(self, v: FloatArray, values: FloatArray) -> FloatArray:
        """Return G v, given values = K (y v)."""
        return np.asarray(self.y * values - self.shift * v)

    def demand(self, margins: FloatArray) -> float:
        """Return the required margin: 1, or the optimal rho of the nu machine.

        The optimal rho is a quantile of the margins; if it is not unique, the smallest one is
        returned, so that it is attained by a sample.
        """
        if self.nu is None:
            return 1.0
        order = np.argsort(margins, kind="stable")
        below = np.cumsum(self.cost[order])
        place = int(np.searchsorted(below, self.nu * (1 - 1e-12)))
        return float(margins[order[min(place, len(order) - 1)]])

    def slack(self, alpha: FloatArray, f: FloatArray) -> FloatArray:
        """Return the slacks xi at the coefficients alpha, given f = K (y alpha)."""
        margins = self.product(alpha, f)
        return np.maximum(0.0, self.demand(margins) - margins)

    def primal(self, alpha: FloatArray, f: FloatArray) -> float:
        """Return the primal objective at alpha, given f = K (y alpha).

        alpha is non-negative, and sums to 1 for the nu machine.
        """
        margins = self.product(alpha, f)
        rho = self.demand(margins)
        return self.objective(alpha, np.maximum(0.0, rho - margins), rho)

    def objective(self, alpha: FloatArray, slack: FloatArray, rho: float = 1.0) -> float:
        """Return the primal objective of coefficients, slacks and margin rho (nu machine)."""
        loss = self.loss(slack)
        return loss + self.price * float(alpha.sum()) if self.nu is None else loss - self.nu * rho

    def dual(self, z: FloatArray, g: FloatArray) -> float:
        """Return the dual objective, a lower bound for any z in its box, given g = K (y z).

        For the nu machine z sums to nu.
        """
        return self.lower_bound(self.gain(z), self.product(z, g) - self.price)

    def gain(self, z: FloatArray) -> float:
        """Return the dual objective of multipliers z without the cost of their excess."""
        total = float(z.sum())
        return total - 0.25 * float(z @ (z / self.weight)) if self.squared else total

    def lower_bound(self, gain: float, excess: FloatArray) -> float:
        """Return the dual objective at z, given its `gain` and excess = G z - c."""
        if self.nu is not None:
            return -float(excess.max())
        return gain - float(self.limit @ np.maximum(0.0, excess))

    def kernel_sizes(self) -> FloatArray:
        """Return the bound on each sample's kernel values from which `limit` was computed."""
        return np.divide(LIMIT, self.limit, out=np.zeros(self.n_rows), where=self.limit > 0)

    def rounding(self, total: float, largest: FloatArray, count: float) -> FloatArray:
        """Return a bound on the rounding error of (G v)_i, for 0 <= v <= largest of sum `total`.

        `count` is the number of rounding errors in a sum of kernel values, see
        :func:`widemargin.kernels.sums.roundings`.
        """
        return gamma(count) * (total * self.kernel_sizes() + self.shift * largest)

    def scale(self, alpha: FloatArray, f: FloatArray) -> float:
        """Return the scale to which the tolerance of the gap is relative, given f = K (y alpha).

        For the LP machines this is max(1, objective); 1 is the cost of one sample with slack 1. The
        objective of the nu machine scales with the kernel: divided by nu rho, its gap is the
        relative gap of the equivalent LP machine. If rho is zero or tiny, the scale is a millionth
        of the mean absolute margin, but not so small that 1e-6 times the scale is below the
        rounding error of the margins.
        """
        if self.nu is None:
            return gap_scale(self.primal(alpha, f))
        margins = self.product(alpha, f)
        typical = float(self.cost @ np.abs(margins))
        sums = 1e-9 * np.sqrt(max(1.0, self.n_rows / 20))  # eps sqrt(n) / 1e-6, from 20 rows on
        rounding = sums * float(self.kernel_sizes() @ alpha)
        return self.nu * max(abs(self.demand(margins)), 1e-6 * typical, rounding)

    def is_optimal(
        self, alpha: FloatArray, f: FloatArray, z: FloatArray, g: FloatArray, tol: float
    ) -> bool:
        """Check that gap <= tol * scale at alpha and z, given f = K (y alpha), g = K (y z)."""
        return self.primal(alpha, f) - self.dual(z, g) <= tol * self.scale(alpha, f)

    def certificate(
        self,
        rows: Rows,
        alpha: FloatArray,
        z: FloatArray,
        *,
        tol: float,
        n_iter: int,
        kernel_evaluations: int = 0,
        weight_error: float = 0.0,
    ) -> Certificate:
        """Return the certificate of published coefficients alpha and of multipliers z.

        Both are evaluated again with the exact kernel. A positive multiple of alpha is the same
        model of the nu machine. `weight_error` is the relative error of the weights. If the lower
        bound uses the limits of the coefficients, the name of the problem says so.
        """
        point = Evaluation(self, rows, alpha, z, weight_error)
        unit = 1.0 if self.nu is None else float(alpha.sum())
        scale = self.scale(alpha / unit, point.values[0] / unit)
        bracket = point.bracket(tol * scale)
        top = self.price if self.nu is None else np.inf
        return Certificate.from_objectives(
            self.name + (LIMITED if point.limited[bracket.dual] else ""),
            primal=bracket.primal,
            dual=bracket.dual,
            kkt_violation=float(np.maximum(0.0, point.pulls.hi - top).max()),
            converged=rounded_up_gap(bracket.primal, bracket.dual) <= tol * scale,
            n_iter=n_iter,
            kernel_evaluations=kernel_evaluations,
            rounding=bracket.rounding,
        )


def limits(diagonal: FloatArray, largest: FloatArray) -> FloatArray:
    """Return the upper bounds u of the coefficients, or 0 for samples without kernel values.

    `diagonal` is k(x_i, x_i), `largest` a bound on the kernel values of each sample.
    """
    size = np.maximum(diagonal, largest)
    return np.divide(LIMIT, size, out=np.zeros(len(size)), where=size > NOTHING)


def adaptive_margin(
    y: FloatArray,
    weight: FloatArray,
    diagonal: FloatArray,
    limit: FloatArray,
    lam: float,
    name: str = "adaptive margin",
    *,
    squared: bool = False,
) -> MarginProgram:
    """Return the adaptive margin problem, (2.10)-(2.12); lam = 1 is the leave-one-out machine."""
    name += ", squared slack" * squared
    shift = lam * diagonal / weight
    return MarginProgram(name, y, weight, shift, 0.0, limit, lam=lam, squared=squared)


def lp_machine(y: FloatArray, weight: FloatArray, limit: FloatArray, lam: float) -> MarginProgram:
    """Return the LP machine, (2.18)."""
    return MarginProgram("LP", y, weight, np.zeros(len(y)), float(lam), limit)


def nu_lp_machine(y: FloatArray, weight: FloatArray, limit: FloatArray, nu: float) -> MarginProgram:
    """Return the nu machine; nu = 0, or any nu below the smallest w / m, is the hard margin."""
    smallest = float(weight.min() / weight.sum())
    return MarginProgram("nu-LP", y, weight, np.zeros(len(y)), 0.0, limit, max(nu, smallest))


def largest_lam(pull: FloatArray, unit: FloatArray) -> float:
    """Return the smallest lam for which alpha = 0 is optimal, given pull = Q w.

    There z = w satisfies the dual constraint Q w <= lam unit. The unit is k(x_i, x_i) for adaptive
    margins and 1 for the LP machines.
    """
    never = np.where(pull > 0, np.inf, 0.0)  # no lam suffices where the unit is zero
    return float(max(0.0, np.divide(pull, unit, out=never, where=unit > 0).max()))
