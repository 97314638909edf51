r"""Primal-dual interior-point steps for LPBoost on a growing set of hypotheses.

With the rows :math:`a_t = (y_i g_t(x_i))_i` of the hypotheses the optimality conditions are

.. math::

    \sum_t \alpha_t a_t - \rho + \xi - s = 0, \quad \sum_t \alpha_t = 1, \qquad
    \beta - a_t \cdot u - z_t = 0, \quad \sum_i u_i = 1, \quad c - u - v = 0, \\
    u_i s_i = v_i \xi_i = \alpha_t z_t = 0, \qquad \alpha, z, u, v, s, \xi \ge 0.

A step is Newton's method for these equations with a small number in place of the zeros of the last
line (Mehrotra's predictor and corrector). Eliminating all but the coefficients leaves a matrix of
one row per hypothesis, :math:`A D^{-1} A' + \mathrm{diag}(z / \alpha)` with
:math:`D = \mathrm{diag}(s/u + \xi/v)`. Iterates need not satisfy the equations, so that new
hypotheses can be added at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.problems.boosting.soft_margin import SoftMarginVote

NEW = 0.05  # total of the coefficients that new hypotheses start with
BACK = 0.99  # fraction of the way to the boundary
LEAST_CENTRING = 1e-3
CENTRED = 0.6  # part of the gap that the products add up to, or more
RIDGE = 1e-13  # relative to the diagonal, if the matrix is numerically singular
SHORT = 1e-9  # steps below this fraction are no progress


@dataclass(eq=False)
class InteriorPoint:
    """Iterate; see the module docstring. The caps c of u are `cap`."""

    cap: FloatArray
    alpha: FloatArray
    z: FloatArray
    u: FloatArray
    v: FloatArray
    s: FloatArray
    xi: FloatArray
    rho: float
    beta: float

    @classmethod
    def start(cls, problem: SoftMarginVote, agrees: FloatArray, edge: float) -> InteriorPoint:
        """Return the start: uniform distribution and coefficients."""
        cap, u = problem.cap, problem.share
        alpha = np.full(len(agrees), 1.0 / len(agrees))
        margins = alpha @ agrees
        rho, beta = problem.demand(margins), 1.1 * edge + 1e-3
        s, xi = np.maximum(margins - rho, 0.0) + 0.1, np.maximum(rho - margins, 0.0) + 0.1
        z = np.maximum(beta - agrees @ u, 1e-2)
        return cls(cap, alpha, z, u, cap - u, s, xi, rho, beta)

    def largest(self, count: int) -> BoolArray:
        """Return a mask of the hypotheses with the largest coefficients."""
        mask = np.zeros(len(self.alpha), dtype=bool)
        mask[np.argsort(-self.alpha, kind="stable")[:count]] = True
        return mask

    def keep(self, chosen: BoolArray) -> None:
        """Forget all hypotheses but the chosen ones."""
        self.alpha, self.z = self.alpha[chosen], self.z[chosen]

    def extend(self, agrees: FloatArray) -> None:
        """Add the hypotheses of the rows beyond those known so far."""
        known = len(self.alpha)
        new = np.full(len(agrees) - known, NEW / (len(agrees) - known))
        mu = self._mean_product()
        self.alpha = np.concatenate([self.alpha, new])
        excess = self.beta - agrees[known:] @ self.u
        self.z = np.concatenate([self.z, np.maximum(excess, mu / new)])

    def step(self, agrees: FloatArray, gap: float) -> bool:
        """Make a step; return False if there is no progress.

        The products are kept above a part of the gap, that of all hypotheses: an iterate close to
        the boundary could not follow the hypotheses to come.
        """
        with np.errstate(all="ignore"):
            system = _System.of(self, agrees)
            if system is None:
                return False
            mu = self._mean_product()
            guess = system.direction(0.0, 0.0, 0.0)
            after = self._moved(guess, *self._lengths(guess, 1.0))._mean_product()
            least = CENTRED * gap / (2 * len(self.u) + len(self.alpha))
            target = max(max((after / mu) ** 3, LEAST_CENTRING) * mu, least)
            found = system.direction(
                target - guess.u * guess.s, target - guess.v * guess.xi,
                target - guess.alpha * guess.z,
            )  # fmt: skip
            lengths = self._lengths(found, BACK)
            moved = self._moved(found, *lengths)
        if not (max(lengths) > SHORT and moved._is_finite()):
            return False
        vars(self).update(vars(moved))
        return True

    def _mean_product(self) -> float:
        """Return mu, the mean of the products that vanish at the optimum."""
        total = self.u @ self.s + self.v @ self.xi + self.alpha @ self.z
        return float(total) / (2 * len(self.u) + len(self.alpha))

    def _lengths(self, d: InteriorPoint, back: float) -> tuple[float, float]:
        """Return the step lengths in the primal and the dual space."""
        primal = ((self.alpha, d.alpha), (self.s, d.s), (self.xi, d.xi))
        dual = ((self.u, d.u), (self.v, d.v), (self.z, d.z))
        first, second = (
            min(1.0, back * min(_to_boundary(x, dx) for x, dx in pairs)) for pairs in (primal, dual)
        )
        return first, second

    def _moved(self, d: InteriorPoint, primal: float, dual: float) -> InteriorPoint:
        return InteriorPoint(
            cap=self.cap,
            alpha=self.alpha + primal * d.alpha,
            z=self.z + dual * d.z,
            u=self.u + dual * d.u,
            v=self.v + dual * d.v,
            s=self.s + primal * d.s,
            xi=self.xi + primal * d.xi,
            rho=self.rho + primal * d.rho,
            beta=self.beta + dual * d.beta,
        )

    def _is_finite(self) -> bool:
        arrays = (self.alpha, self.z, self.u, self.v, self.s, self.xi)
        return all(bool(np.isfinite(x).all() and (x > 0.0).all()) for x in arrays)


def _to_boundary(x: FloatArray, dx: FloatArray) -> float:
    """Return the length at which the first entry of x + length dx vanishes."""
    ratio = float((-dx / x).max())
    return 1.0 / ratio if ratio > 0.0 else np.inf


@dataclass(frozen=True, eq=False)
class _System:
    """Equations of a step at a point, with the factor of their matrix."""

    point: InteriorPoint
    agrees: FloatArray
    factor: Any
    inverse: FloatArray  # of the diagonal of D
    border: FloatArray  # A D^-1 1
    solved: FloatArray  # factor^-1 of the border and of ones

    @classmethod
    def of(cls, point: InteriorPoint, agrees: FloatArray) -> _System | None:
        """Return the equations, or None if their matrix has no factor."""
        inverse = 1.0 / (point.s / point.u + point.xi / point.v)
        scaled = agrees * np.sqrt(inverse)
        matrix = scaled @ scaled.T
        diagonal = np.diag(matrix) + point.z / point.alpha
        for ridge in (0.0, RIDGE, 1e4 * RIDGE):
            np.fill_diagonal(matrix, diagonal + ridge * diagonal.max())
            try:
                factor = cho_factor(matrix, lower=True, check_finite=True)
            except (LinAlgError, ValueError):
                continue
            border = agrees @ inverse
            both = np.column_stack([border, np.ones(len(border))])
            solved = cho_solve(factor, both, check_finite=False)
            return cls(point, agrees, factor, inverse, border, solved)
        return None

    def direction(self, us: Any, vxi: Any, az: Any) -> InteriorPoint:
        """Return the step to the point whose products are u s, v xi and alpha z."""
        p, A, inverse = self.point, self.agrees, self.inverse
        ones = 1.0 - p.alpha.sum(), 1.0 - p.u.sum()
        above = p.cap - p.u - p.v
        rest = p.rho - p.alpha @ A + us / p.u - vxi / p.v + p.xi * above / p.v
        right = az / p.alpha - p.beta + A @ (p.u + inverse * rest)
        x = cho_solve(self.factor, right, check_finite=False)
        first, second = self.solved.T
        matrix = [
            [first.sum(), -second.sum()],
            [inverse.sum() - self.border @ first, self.border @ second],
        ]
        sides = [ones[0] - x.sum(), ones[1] - inverse @ rest + self.border @ x]
        rho, beta = _solved_2x2(matrix, sides)
        alpha = x + first * rho - second * beta
        u = inverse * (rest - alpha @ A + rho)
        v = above - u
        return InteriorPoint(
            cap=p.cap,
            alpha=alpha,
            z=az / p.alpha - p.z - p.z * alpha / p.alpha,
            u=u,
            v=v,
            s=us / p.u - p.s - p.s * u / p.u,
            xi=vxi / p.v - p.xi - p.xi * v / p.v,
            rho=rho,
            beta=beta,
        )


def _solved_2x2(matrix: Any, right: Any) -> tuple[float, float]:
    (a, b), (c, d) = matrix
    determinant = a * d - b * c
    return (
        float((d * right[0] - b * right[1]) / determinant),
        float((a * right[1] - c * right[0]) / determinant),
    )
