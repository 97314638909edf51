r"""Linear programs over kernel expansions with coefficients alpha >= 0 and no threshold.

With :math:`f(x) = \sum_j \alpha_j y_j k(x_j, x)`, (2.1) of Smola et al. (2000), every machine here
is one linear program:

.. math::

    \min_{\alpha, \xi, \rho}\; c \sum_i \alpha_i + \sum_i w_i \xi_i
    \quad\text{s.t.}\quad
    y_i f(x_i) - d_i \alpha_i + \xi_i \ge 1, \quad 0 \le \alpha \le u,\; \xi \ge 0,

with the symmetric :math:`G = \mathrm{diag}(y) K \mathrm{diag}(y) - \mathrm{diag}(d)`. Its dual is

.. math::

    \max_z\; \sum_i z_i - \sum_i u_i \max(0, (G z)_i - c) \quad\text{s.t.}\quad 0 \le z \le w.

===================  ==============================  =============================================
machine              c, d                            where
===================  ==============================  =============================================
leave-one-out        0, k(x_i, x_i) / w_i            (2.7)-(2.9); only k(x_i, x_j), i != j, counts
adaptive margin      0, lam k(x_i, x_i) / w_i        (2.10)-(2.12)
LP                   lam, 0                          (2.18)
===================  ==============================  =============================================

A row of weight w stands for w equal rows. The sum of their coefficients is alpha_i; each of them
demands a margin for its own share alpha_i / w, hence the w in d.

The limits u are those of :data:`LIMIT`: where a row is so far from all others that the kernel is
zero but for rounding, the optimum would take coefficients without bound. They are part of the
problem, so the dual above is a bound for every z in the box: nothing has to be feasible.

The nu machine (Graepel et al. 1999) has a margin rho to choose instead of c:

.. math::

    \min_{\alpha, \xi, \rho}\; -\nu \rho + \frac1m \sum_i w_i \xi_i
    \quad\text{s.t.}\quad y_i f(x_i) + \xi_i \ge \rho,\; \sum_i \alpha_i = 1, \; \alpha, \xi \ge 0,

m the sum of the weights; its dual is to maximise -max_i (G z)_i over 0 <= z <= w / m with
sum z = nu. At most a fraction nu of the rows has a margin below rho, and at least nu one of rho or
less. Divided by rho it is the LP machine with lam = m max_i (G z)_i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.certificate import Certificate, gap_scale

LIMIT = 1e8
"""Largest alpha_i k(x_i, x_i): far above what any kernel needs whose rows see each other."""

NOTHING = 1e-250
"""Kernel values below are what underflow has left of a row: it counts as a row of zeros."""


@dataclass(frozen=True, eq=False)
class MarginProgram:
    """One of the linear programs above.

    Attributes
    ----------
    name : str
        The machine, for certificates.
    y : ndarray of shape (n_rows,)
        Labels -1 and +1.
    weight : ndarray of shape (n_rows,)
        w, positive.
    shift : ndarray of shape (n_rows,)
        d: what the diagonal of G has less than k(x_i, x_i).
    price : float
        c.
    limit : ndarray of shape (n_rows,)
        u; 0 for rows without influence (all kernel values zero). Not used by the nu machine.
    nu : float or None
        nu > 0 of the nu machine, None for the others.
    """

    name: str
    y: FloatArray
    weight: FloatArray
    shift: FloatArray
    price: float
    limit: FloatArray
    nu: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def cost(self) -> FloatArray:
        """What a unit of slack costs: w, or w / m for the nu machine. Also the upper limit of z."""
        return self.weight if self.nu is None else self.weight / self.weight.sum()

    def product(self, v: FloatArray, values: FloatArray) -> FloatArray:
        """Return G v, given values = K (y v)."""
        return np.asarray(self.y * values - self.shift * v)

    def demand(self, margins: FloatArray) -> float:
        """Return the margin that is asked for: 1, or the best rho of the nu machine.

        That is a quantile of the margins; of several the smallest, so that it is attained.
        """
        if self.nu is None:
            return 1.0
        order = np.argsort(margins, kind="stable")
        below = np.cumsum(self.cost[order])
        place = int(np.searchsorted(below, self.nu * (1 - 1e-12)))
        return float(margins[order[min(place, len(order) - 1)]])

    def slack(self, alpha: FloatArray, f: FloatArray) -> FloatArray:
        """Return xi at the coefficients alpha, given f = K (y alpha)."""
        margins = self.product(alpha, f)
        return np.maximum(0.0, self.demand(margins) - margins)

    def primal(self, alpha: FloatArray, f: FloatArray) -> float:
        """Return the objective at alpha >= 0 (of sum 1 for the nu machine), f = K (y alpha)."""
        margins = self.product(alpha, f)
        rho = self.demand(margins)
        return self.objective(alpha, np.maximum(0.0, rho - margins), rho)

    def objective(self, alpha: FloatArray, slack: FloatArray, rho: float = 1.0) -> float:
        """Return the objective of coefficients, slacks and the margin rho of the nu machine."""
        loss = float(self.cost @ slack)
        return loss + self.price * float(alpha.sum()) if self.nu is None else loss - self.nu * rho

    def dual(self, z: FloatArray, g: FloatArray) -> float:
        """Return the lower bound that z in the box (of sum nu) gives, g = K (y z)."""
        return self.lower_bound(float(z.sum()), self.product(z, g) - self.price)

    def lower_bound(self, total: float, excess: FloatArray) -> float:
        """Return the lower bound of multipliers z of the sum `total`, given excess = G z - c."""
        if self.nu is not None:
            return -float(excess.max())
        return total - float(self.limit @ np.maximum(0.0, excess))

    def kernel_sizes(self) -> FloatArray:
        """Return the largest kernel value of each row, as the limits know it."""
        return np.divide(LIMIT, self.limit, out=np.zeros(self.n_rows), where=self.limit > 0)

    def rounding(self, total: float) -> FloatArray:
        """Return how far a computed (G v)_i may be from the exact one, for v of the sum `total`.

        A sum of n products has a rounding error of about sqrt(n) units in the last place of the
        sum of their sizes (Higham and Mary, 2019).
        """
        unit = np.finfo(float).eps * np.sqrt(self.n_rows)
        return np.asarray(unit * total * self.kernel_sizes())

    def scale(self, alpha: FloatArray, f: FloatArray) -> float:
        """Return what the tolerance of the gap is relative to, f = K (y alpha).

        The objective, but at least 1, which is what a row costs. The objective of the nu machine
        is as large as the kernel happens to be; in units of nu rho its gap is the relative gap of
        the equivalent LP machine. Without a margin the units are a millionth of the others, but so
        large that a millionth of them is the rounding error of the margins.
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
        """Tell whether the gap between alpha and z is within tol, f = K (y alpha), g = K (y z)."""
        return self.primal(alpha, f) - self.dual(z, g) <= tol * self.scale(alpha, f)

    def certificate(
        self,
        alpha: FloatArray,
        f: FloatArray,
        z: FloatArray,
        g: FloatArray,
        *,
        tol: float,
        n_iter: int,
        kernel_evaluations: int,
    ) -> Certificate:
        """Return the certificate of alpha with the bound by z, f = K (y alpha), g = K (y z)."""
        primal, dual = self.primal(alpha, f), self.dual(z, g)
        top = self.product(z, g).max() if self.nu is not None else self.price
        return Certificate.from_objectives(
            self.name,
            primal=primal,
            dual=dual,
            kkt_violation=float(np.maximum(0.0, self.product(z, g) - top).max()),
            converged=self.is_optimal(alpha, f, z, g, tol),
            n_iter=n_iter,
            kernel_evaluations=kernel_evaluations,
        )


def limits(diagonal: FloatArray, largest: FloatArray) -> FloatArray:
    """Return u, given k(x_i, x_i) and a bound on each row's kernel values (0: a row of zeros)."""
    size = np.maximum(diagonal, largest)
    return np.divide(LIMIT, size, out=np.zeros(len(size)), where=size > NOTHING)


def adaptive_margin(
    y: FloatArray,
    weight: FloatArray,
    diagonal: FloatArray,
    limit: FloatArray,
    lam: float,
    name: str = "adaptive margin",
) -> MarginProgram:
    """State (2.10)-(2.12); lam = 1 is the leave-one-out machine."""
    return MarginProgram(name, y, weight, lam * diagonal / weight, 0.0, limit)


def lp_machine(y: FloatArray, weight: FloatArray, limit: FloatArray, lam: float) -> MarginProgram:
    """State (2.18)."""
    return MarginProgram("LP", y, weight, np.zeros(len(y)), float(lam), limit)


def nu_lp_machine(y: FloatArray, weight: FloatArray, limit: FloatArray, nu: float) -> MarginProgram:
    """State the nu machine; nu = 0 is the hard margin, as is every nu below the least w / m."""
    smallest = float(weight.min() / weight.sum())
    return MarginProgram("nu-LP", y, weight, np.zeros(len(y)), 0.0, limit, max(nu, smallest))


def largest_lam(pull: FloatArray, unit: FloatArray) -> float:
    """Return the lam from which on alpha = 0 is optimal, given pull = Q w.

    The machine learns nothing there: z = w is feasible for the dual, Q w <= lam unit. The unit is
    k(x_i, x_i) for adaptive margins, and 1 for the LP machines.
    """
    never = np.where(pull > 0, np.inf, 0.0)  # lam does nothing to a row without a unit
    return float(max(0.0, np.divide(pull, unit, out=never, where=unit > 0).max()))
