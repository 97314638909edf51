r"""Bounds on the optimum of a margin program that hold in exact arithmetic.

Given are the published coefficients :math:`\alpha`, multipliers z, and enclosures of
:math:`G \alpha` and :math:`G z` (:mod:`widemargin.kernels.sums`). The **primal** is evaluated at
:math:`\alpha`, each slack at the upper end of its error bound; a sample that surely has its margin
contributes exactly zero. Any z in its box gives a **lower bound**, since
:math:`c'\alpha + w'\xi \ge z'1 + (c - G z)'\alpha` for all feasible :math:`(\alpha, \xi)`. With
:math:`t = \max_i (G z)_i`,

=============  ============================================  =====================================
program        bound                                         reason
=============  ============================================  =====================================
c > 0          :math:`\min(1, c / t) \sum_i z_i`             z scaled until :math:`G z \le c`
c = 0          :math:`\sum_i z_i` if :math:`t \le 0`         z is feasible
any c          :math:`\sum_i z_i - \sum_i u_i                :math:`\alpha \le u`; Neumaier and
               \max(0, (G z)_i - c)`                         Shcherbina (2004)
nu             :math:`-t`                                    z has the sum :math:`\nu`
=============  ============================================  =====================================

With squared slack :math:`\sum_i z_i` stands for :math:`\sum_i z_i - z_i^2 / (4 w_i)`, at the
scaled z.

t is the largest upper end of the error bounds. Only the third bound uses the limits u. It is stated
if the others do not reach the tolerance and it is the better one; the certificate then names the
problem with limited coefficients.

The nu machine is treated in the scale of the weights, :math:`0 \le z \le w` with the sum
:math:`\nu m`, as w is exact in most fits and w / m is not. What a sum of floating-point numbers
lacks of this total is moved, as a real number :math:`r`, onto a variable k with room for it, which
changes :math:`(G z)_i` by at most :math:`|r| q_i q_k`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure, Operand
from widemargin._base.typing import FloatArray, IntArray
from widemargin.certificate import Bracket, gap_scale, tightest
from widemargin.kernels import Rows
from widemargin.kernels.sums import enclosed_diagonal, enclosed_sum, majorants

if TYPE_CHECKING:
    from widemargin.problems.linear_program import MarginProgram

LIMIT_ERROR = 1e-9  # relative error of the limits: far above the rounding of kernel values
SMALLEST_MAJORANT = 1e-125  # root of the kernel values that count as zero
FEW = 16.0 * U


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Published coefficients and multipliers of a linear program, evaluated on its samples.

    Attributes
    ----------
    problem : MarginProgram
        The program.
    rows : Rows
        Its samples and their kernel.
    alpha, z : ndarray of shape (n_rows,)
        Coefficients, not negative, and multipliers in their boxes. For the nu machine any positive
        multiple of alpha is the same model.
    weight_error : float
        Relative error of the weights.
    limited : dict
        For each lower bound that was returned, whether it uses the limits of the coefficients.
    """

    problem: MarginProgram
    rows: Rows
    alpha: FloatArray
    z: FloatArray
    weight_error: float = 0.0
    limited: dict[float, bool] = field(default_factory=dict)

    @cached_property
    def size(self) -> FloatArray:
        """Majorants q of the kernel values."""
        if self.rows.kernel.function is None:
            return majorants(self.rows)
        # A function need not be positive semi-definite: its largest value per row is known.
        return np.sqrt(self.problem.kernel_sizes()) * (1.0 + FEW) + SMALLEST_MAJORANT

    @cached_property
    def multipliers(self) -> FloatArray:
        """Multipliers in the scale of the weights."""
        w = self.problem.weight
        if self.problem.nu is None:
            return np.clip(self.z, 0.0, self.problem.cap)
        return np.where(self.z >= self.problem.cost, w, np.clip(self.z * w.sum(), 0.0, w))

    @cached_property
    def values(self) -> tuple[FloatArray, FloatArray]:
        """K (y alpha) and K (y z), recomputed in float64."""
        both = self.problem.y[:, None] * np.column_stack([self.alpha, self.multipliers])
        used, everyone = np.flatnonzero(both.any(axis=1)), np.arange(self.rows.n)
        if not len(used):
            return np.zeros(self.rows.n), np.zeros(self.rows.n)
        found = self.rows.weighted_sum(everyone, self.rows, used, both[used])
        return found[:, 0].copy(), found[:, 1].copy()

    @cached_property
    def margins(self) -> Enclosure:
        """G alpha, from float64 sums."""
        return self._product(np.arange(self.rows.n), self.alpha, self.values[0])

    @cached_property
    def pulls(self) -> Enclosure:
        """G z, from float64 sums."""
        return self._product(np.arange(self.rows.n), self.multipliers, self.values[1])

    def _product(self, at: IntArray, v: FloatArray, values: FloatArray | None) -> Enclosure:
        """Return (G v)_i for i in `at`, in double-double arithmetic if no values are given."""
        problem, precise = self.problem, values is None
        # The float64 sums run over the samples with a coefficient or a multiplier.
        of = np.flatnonzero(v if precise else (self.alpha != 0) | (self.multipliers != 0))
        beta = problem.y[of] * v[of]
        found = enclosed_sum(self.rows, at, of, beta, values, size=self.size, precise=precise)
        found = found * problem.y[at]
        if problem.lam == 0.0:
            return found
        own = enclosed_diagonal(self.rows, at, size=self.size, precise=precise) * problem.lam
        return found - (own * v[at] / problem.weight[at]).blurred(self.weight_error)

    def bracket(self, tol: float) -> Bracket:
        """Return bounds on the optimum, from more precise sums where rounding matters.

        `tol` is the tolerance of the gap in units of the objective.
        """
        plain = self._bracket(self.margins, self.pulls, tol)
        # More digits cannot close a gap that is larger without its rounding errors, but they may
        # spare a bound the limits.
        asked = tol if plain.primal - plain.dual - plain.rounding <= tol else np.inf
        if self.limited[plain.dual] and self._free_bounds(self.pulls)[0] >= plain.primal - tol:
            asked = 0.0
        return tightest(
            lambda precise: self._precise(tol) if precise else plain,
            asked / gap_scale(plain.primal),
        )

    def _precise(self, tol: float) -> Bracket:
        """Return the bounds with more precise sums on the samples that matter."""
        margins, pulls, price = self.margins, self.pulls, self.problem.price
        rho = self.problem.demand(margins.hi)
        lacking = np.flatnonzero(~(margins.lower() >= rho))
        margins = margins.replaced(lacking, self._product(lacking, self.alpha, None))
        top = price if self.problem.nu is None else np.max(pulls.lower())
        over = np.flatnonzero(~(pulls.upper() < top))
        pulls = pulls.replaced(over, self._product(over, self.multipliers, None))
        return self._bracket(margins, pulls, tol)

    def _bracket(self, margins: Enclosure, pulls: Enclosure, tol: float) -> Bracket:
        primal = self._primal(margins)
        certain = not primal.error
        above = float(primal.hi) if certain else primal.upper()
        if self.problem.nu is None:
            dual, limited = self._dual(pulls, above - tol)
            trivial = 0.0
        else:
            dual, limited = self._nu_dual(pulls), False
            most = float(np.max(self.size))
            trivial = -self.problem.nu * most * most * (1.0 + 1e-9)
        estimate, lower = dual
        below = max(lower, trivial)
        self.limited[below] = limited
        rounding = (above - float(primal.hi)) + max(0.0, estimate - lower)
        return Bracket(above, below, rounding if rounding >= 0.0 else np.inf)

    def _primal(self, margins: Enclosure) -> Enclosure:
        """Return the objective of the coefficients."""
        problem, blur = self.problem, self.weight_error
        total_weight = float(problem.weight.sum())
        whole = not blur and (problem.weight == np.floor(problem.weight)).all()
        if problem.nu is None and not self.alpha.any() and whole and total_weight < 2.0**53:
            return Enclosure.exact(total_weight)  # alpha = 0: sums of whole numbers are exact
        rho = problem.demand(margins.hi)
        slack = (rho - margins).positive_part()
        total = Enclosure.exact(self.alpha).sum()
        if problem.nu is not None:
            loss = slack.dot(problem.weight).blurred(blur)
            return (loss - self._required * rho) / (self._mass * total)
        loss = Enclosure.exact(0.0)
        if slack.hi.any() or slack.error.any():
            loss = (slack * slack if problem.squared else slack).dot(problem.weight).blurred(blur)
        return loss + total * problem.price if problem.price and self.alpha.any() else loss

    # -- lower bounds ------------------------------------------------------------------------

    def _dual(self, pulls: Enclosure, enough: float) -> tuple[tuple[float, float], bool]:
        """Return a lower bound without and with rounding, and whether it uses the limits.

        The limits are used only if the bound without them is below `enough`.
        """
        problem, free = self.problem, self._free_bounds(pulls)
        if free[1] >= enough:
            return free, False
        over = (pulls - problem.price).positive_part() * (problem.limit * (1.0 + LIMIT_ERROR))
        capped = self._gain(1.0) - over.sum()
        if capped.lower() <= free[1]:
            return free, False
        return (float(capped.hi), capped.lower()), True

    @cached_property
    def _total(self) -> Enclosure:
        """The sum of the multipliers, scaled into boxes known up to the error of the weights."""
        total = Enclosure.exact(self.multipliers).sum()
        return total if self.problem.squared else total * (1.0 - 2.0 * self.weight_error)

    @cached_property
    def _bend(self) -> Enclosure:
        """The quadratic part of the dual objective, for squared slack."""
        z = Enclosure.exact(self.multipliers)
        return (z / (4.0 * self.problem.weight)).dot(z).blurred(2.0 * self.weight_error)

    def _gain(self, scale: Operand) -> Enclosure:
        """Return the dual objective of `scale` times the multipliers, without their excess."""
        gain = self._total * scale
        return gain - self._bend * scale * scale if self.problem.squared else gain

    def _free_bounds(self, pulls: Enclosure) -> tuple[float, float]:
        """Return the lower bound that needs no limits, without and with rounding."""
        seen = self.problem.limit > 0
        tops = (np.max(p[seen], initial=-np.inf) for p in (pulls.hi, pulls.upper()))
        estimate, lower = (self._scaled(float(top)) for top in tops)
        return estimate, lower

    def _scaled(self, top: float) -> float:
        """Return the bound from z scaled until the largest (G z)_i is at most c."""
        price = self.problem.price
        if top <= price:
            return float(self._gain(1.0).lower())
        if price == 0.0 or not np.isfinite(top):
            return 0.0
        return float(self._gain(Enclosure.exact(price) / top).lower())

    @cached_property
    def _mass(self) -> Enclosure:
        """The sum of the weights m."""
        return Enclosure.exact(self.problem.weight).sum().blurred(self.weight_error)

    @cached_property
    def _required(self) -> Enclosure:
        """The sum of the multipliers of the nu machine, nu m or the smallest weight."""
        assert self.problem.nu is not None
        weight, nu = self.problem.weight, self.problem.nu
        found = self._mass * nu
        # nu may be the rounded share of the lightest sample.
        return found.blurred(FEW) if nu * weight.sum() <= weight.min() * (1.0 + FEW) else found

    def _nu_dual(self, pulls: Enclosure) -> tuple[float, float]:
        """Return the lower bound of the nu machine without and with rounding."""
        z, w, size = self.multipliers, self.problem.weight, self.size
        full = z > w * (1.0 - 4.0 * self.weight_error)
        clipped = np.where(full, 4.0 * self.weight_error * w, 0.0)
        with np.errstate(all="ignore"):
            residual = (self._required - Enclosure.exact(z).sum()).size() + float(clipped.sum())
            free = np.minimum(z, w - z) >= 2.0 * residual + 4.0 * self.weight_error * w
            # Some feasible point is within the distance `residual` in any case.
            place = float(np.min(size[free]) if free.any() else np.max(size))
            moved = (residual * place + float(clipped @ size)) * (1.0 + len(z) * U)
            top = float(np.max(pulls.widened(moved * size * (1.0 + FEW)).upper()))
            bound = -(Enclosure.exact(top) / self._mass)
        return float(-np.max(pulls.hi) / self._mass.hi), bound.lower()
