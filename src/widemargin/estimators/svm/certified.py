"""Certified models of a soft-margin problem, and the choice of the one to publish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.certificate import USEFUL_GAP, Bracket, relative_gap
from widemargin.problems.soft_margin import SoftMargin

GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)
NARROWINGS = 40


@dataclass(frozen=True, eq=False)
class CertifiedModel:
    """Dual variables, and the model with coefficients scale * beta that is made from them.

    Attributes
    ----------
    alpha : ndarray of shape (n_variables,)
        Feasible dual variables.
    f : ndarray of shape (n_rows,)
        K beta at alpha, in float64.
    scale : float
        Factor of the coefficients; 1 unless the fit ran out of budget and alpha cannot be scaled.
    thresholds : ndarray of shape (n_groups,)
        Thresholds of the model.
    bounds : Bracket
        Bounds on the optimum; `primal` is that of the model.
    """

    alpha: FloatArray
    f: FloatArray
    scale: float
    thresholds: FloatArray
    bounds: Bracket

    @cached_property
    def relative_gap(self) -> float:
        """Relative gap of the bounds."""
        return relative_gap(self.bounds.primal, self.bounds.dual)

    @property
    def can_be_improved(self) -> bool:
        """Whether the gap is too large, and not mainly due to rounding errors."""
        gap, rounding = self.bounds.primal - self.bounds.dual, self.bounds.rounding
        return bool(self.relative_gap > USEFUL_GAP and np.isfinite(gap) and rounding < 0.5 * gap)


Certify: TypeAlias = Callable[[FloatArray, FloatArray, float], CertifiedModel]
"""Returns the certified model of alpha, f and a scale."""


def not_worse_than_constant(
    problem: SoftMargin,
    model: CertifiedModel,
    certify: Certify,
    values: Callable[[FloatArray], FloatArray],
    *,
    converged: bool,
) -> CertifiedModel:
    """Return the model, or a multiple of it whose proved objective is lower.

    A fit that ran out of steps, or whose sums suffer from rounding, can be worse than the best
    constant. Then the best multiple of its coefficients is taken, or zero. `values` returns
    f = K beta of dual variables in float64. A fit that has converged is within its gap of the
    optimum, and is returned as it is.
    """
    if converged or model.bounds.dual == -np.inf:
        return model
    if model.bounds.primal <= primal_of_constant(problem):
        return model
    found = [model]
    for factor in (best_factor(problem, model), 0.0):
        if problem.totals.any():
            found.append(certify(model.alpha, model.f, power_of_two(factor)))
        else:
            alpha = factor * model.alpha
            found.append(certify(alpha, values(alpha), 1.0))
    best = min(found, key=lambda m: m.bounds.primal)
    dual = max(m.bounds.dual for m in found)
    return replace(best, bounds=replace(best.bounds, dual=dual))


def primal_of_constant(problem: SoftMargin) -> float:
    """Return the objective of w = 0 with the best thresholds."""
    if not problem.target.any() and problem.totals.any():
        return 0.0
    nothing = np.zeros(problem.n_rows)
    return problem.primal(nothing, 0.0, problem.thresholds(nothing))


def power_of_two(factor: float) -> float:
    """Return the largest power of two that does not exceed a factor; products with it are exact."""
    return float(2.0 ** np.floor(np.log2(factor))) if factor > 1e-300 else 0.0


def best_factor(problem: SoftMargin, model: CertifiedModel) -> float:
    """Return the factor in [0, 1] of the coefficients that minimises the primal objective."""
    norm2 = float(problem.coefficients(model.alpha) @ model.f)

    def primal(factor: float) -> float:
        f = factor * model.f
        value = problem.primal(f, factor * factor * norm2, problem.thresholds(f))
        return value if np.isfinite(value) else np.inf

    low, high = 0.0, 1.0
    with np.errstate(all="ignore"):
        for _ in range(NARROWINGS):  # the objective is convex in the factor
            left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
            low, high = (low, right) if primal(left) <= primal(right) else (left, high)
    return 0.5 * (low + high)
