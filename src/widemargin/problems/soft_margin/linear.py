"""Certificates of linear soft margins and tubes in memory, recomputed from model and data."""

from __future__ import annotations

from functools import partial
from typing import Protocol

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.products import row_norms, times
from widemargin._base.typing import FloatArray, Matrix
from widemargin.certificate import Bracket, Certificate, gap_scale, relative_gap, tightest
from widemargin.problems.linear_bounds import (
    NOTHING,
    PLAIN_COST_ERROR,
    dual_sums,
    halves,
    loss_sum,
    positive_and_negative,
    ridge_bracket,
    squared_norm,
)
from widemargin.problems.soft_margin import SoftMargin


class Products(Protocol):
    """Products with a matrix of samples in memory, in float64."""

    X: Matrix
    threads: int

    def dot(self, w: FloatArray) -> FloatArray:
        """Return Xw."""
        ...

    def combine(self, coef: FloatArray) -> FloatArray:
        """Return X'coef."""
        ...


def linear_certificate(
    problem: SoftMargin,
    rows: Products,
    coef: FloatArray,
    intercept: float,
    alpha: FloatArray,
    *,
    tol: float,
    n_iter: int,
    constant: float | None = None,
    blur: float = PLAIN_COST_ERROR,
) -> Certificate:
    """Return the certificate of a linear model in memory, recomputed from model and data.

    Parameters
    ----------
    problem : SoftMargin
        Problem with at most one threshold.
    rows : Products
        Samples; with `constant`, their last feature has this value.
    coef, intercept
        The model: weights of the features, without the constant one, and intercept.
    alpha : ndarray of shape (n_variables,)
        Dual variables, with the signs of the labels.
    tol : float
        Relative gap up to which the fit has converged.
    n_iter : int
        Number of steps of the solver.
    constant : float or None
        Value of the constant feature of which `intercept` is the penalised product.
    blur : float
        Relative error of the costs, see `TrainingSet.cost_error`.
    """
    alpha = np.clip(alpha, problem.lower, problem.upper)
    bracket = tightest(
        partial(_bracket, problem, rows, coef, intercept, alpha, constant, blur), tol
    )
    expansion = rows.combine(problem.coefficients(alpha))
    return Certificate.from_objectives(
        problem.name,
        primal=bracket.primal,
        dual=bracket.dual,
        kkt_violation=problem.kkt_violation(alpha, rows.dot(expansion)),
        converged=relative_gap(bracket.primal, bracket.dual) <= tol,
        n_iter=n_iter,
        rounding=bracket.rounding,
    )


def surely_within(
    problem: SoftMargin,
    rows: Products,
    coef: FloatArray,
    intercept: float,
    alpha: FloatArray,
    objectives: tuple[float, float],
    tol: float,
) -> bool:
    """Return whether the certificate of a linear model surely has a relative gap of at most tol.

    `objectives` are the primal and the dual objective in float64. An error of a decision value
    changes the primal by at most alpha times itself, up to second order, and the errors of the
    other terms are no larger.
    """
    primal, dual = objectives
    mass, longest = float(np.abs(alpha).sum()), float(row_norms(rows.X).max(initial=0.0))
    largest = longest * float(np.sqrt(coef @ coef)) + abs(intercept)
    largest += float(np.abs(problem.target).max(initial=0.0))
    steps = 10.0 * (rows.X.shape[0] + rows.X.shape[1] + 100.0) * U
    rounding = steps * (mass * largest + abs(primal))
    return primal - dual + rounding <= tol * gap_scale(primal)


def _bracket(
    problem: SoftMargin,
    rows: Products,
    coef: FloatArray,
    intercept: float,
    alpha: FloatArray,
    constant: float | None,
    blur: float,
    precise: bool,
) -> Bracket:
    """Return the bounds of a linear soft margin or tube, in float64 or in more digits."""
    squared, tube = bool(problem.ridge.any()), problem.n_variables > problem.n_rows
    cost = 0.5 / problem.ridge if squared else problem.upper - problem.lower
    weights = coef if constant is None else np.append(coef, 0.0)
    f = times(rows.X, weights, precise=precise, threads=rows.threads)
    if tube:  # the targets y - eps and y + eps are rounded
        error, targets, costs, signed = U, halves(problem.target), halves(cost), halves(alpha)
        signs: list[FloatArray] = [np.ones(problem.n_rows), -np.ones(problem.n_rows)]
    else:
        error, targets, costs = 0.0, (problem.target,) * 2, (cost,) * 2
        signs, signed = [problem.target], positive_and_negative(alpha)
    loss = NOTHING
    for k, sign in enumerate(signs):
        loss = loss + loss_sum(
            targets[k], f, intercept, sign, costs[k], squared=squared, target_error=error
        )
    sums = dual_sums(
        rows.X, signed, targets, costs, squared=squared, target_error=error, precise=precise,
        threads=rows.threads,
    )  # fmt: skip
    return ridge_bracket(
        squared_norm(coef, intercept, constant), loss, sums,
        intercept=problem.n_groups > 0, capped=not squared, blur=blur,
    )  # fmt: skip
