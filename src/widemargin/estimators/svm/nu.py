"""Validate nu; derive margin, tube width and the equivalent C problem of a nu problem.

A nu problem optimises the margin rho (or the tube width) as well. With rho fixed at its optimal
value, it becomes the problem of :class:`widemargin.SVC` (or :class:`widemargin.SVR`) with the same
solution, for which leave-one-out is computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.messages import warn
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import require_number
from widemargin.estimators.svm.certified import CertifiedModel
from widemargin.estimators.svm.expansion import Expansion
from widemargin.fitted.by_path import Machine
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import reduced_hulls
from widemargin.problems.soft_margin import SoftMargin, c_classification, epsilon_tube
from widemargin.solvers.base import Budget
from widemargin.solvers.reduced_hull import critical_mass

ROUNDED = 1 + 1e-12  # a nu that exceeds the largest feasible one by rounding is accepted
ROUNDED_THRESHOLDS = 32.0 * U  # relative error of b - rho and b + rho, given b and rho
NO_MARGIN = 1e-10  # a rho below this, relative to the intercept, is rounding error
UNDECIDED_ROUNDS = 3  # fits with smaller tolerances to find out whether there is a margin
CLEAR_MARGIN = 1e-3  # an objective below minus this is negative in spite of rounding
NOISE = 10.0  # a lower bound within so many times its rounding errors of zero counts as zero
SEARCHED_ROWS = 500  # number of samples up to which the smallest nu is computed: a linear program


def check_nu(nu: float) -> None:
    """Raise unless nu is in (0, 1]."""
    require_number("nu", nu, "in (0, 1]", most=1.0)


def check_feasible(nu: float, codes: IntArray, weight: FloatArray, weighted: FloatArray) -> None:
    """Raise if nu is infeasible; warn if only class_weight makes it so.

    nu must not exceed twice the share of the smaller class in any pair of classes. The sample
    weights are given without (`weight`) and with (`weighted`) the factors of `class_weight`.
    """
    possible = _largest_of_pairs(codes, weighted)
    if nu <= possible * ROUNDED:
        return
    largest = _largest_of_pairs(codes, weight)
    if nu > largest * ROUNDED:
        raise ValueError(
            f"nu={nu} is infeasible: it must be at most {max(largest, possible):.6g}, twice the "
            "share of the smaller class in its pair"
        )
    warn(
        f"nu={nu} is infeasible with this class_weight and is lowered where necessary, to "
        f"{possible:.6g} at least: twice the weighted share of the smaller class in its pair"
    )


def largest_feasible(y: FloatArray, weight: FloatArray) -> float:
    """Return the largest feasible nu of a binary problem with labels -1 and +1."""
    positive, negative = float(weight[y > 0].sum()), float(weight[y < 0].sum())
    return 2.0 * min(positive, negative) / (positive + negative)


def _largest_of_pairs(codes: IntArray, weight: FloatArray) -> float:
    """Return the largest nu that is feasible for all pairs of classes."""
    counts = np.sort(np.bincount(codes, weights=weight))
    return float(2.0 * counts[0] / (counts[0] + counts[-1]))  # smallest and largest class


def margin(thresholds: FloatArray) -> float:
    """Return the margin rho, in the scale of the nu problem."""
    return float(0.5 * (thresholds[1] - thresholds[0]))


def published_margin(thresholds: FloatArray) -> float:
    """Return the margin rho, or 0 if it is no more than rounding error.

    rho = 0 is the optimum if the reduced convex hulls of the classes meet.
    """
    rho = margin(thresholds)
    return rho if rho > NO_MARGIN * max(1.0, abs(float(thresholds.mean()))) else 0.0


def is_undecided(model: CertifiedModel) -> bool:
    """Return whether the bounds on the optimum admit both w = 0 and a margin.

    The objective is negative if and only if there is a margin: w = 0 has the objective 0.
    """
    bounds = model.bounds
    return bounds.primal >= 0.0 and np.inf > -bounds.dual > NOISE * bounds.rounding


def without_margin(model: CertifiedModel) -> CertifiedModel:
    """Return the solution with the bounds of w = 0, whose objective is 0.

    A rho of zero is published with it; the coefficients are kept for predictions.
    """
    return replace(model, bounds=replace(model.bounds, primal=0.0))


def solution_margin(machine: Expansion) -> float:
    """Return the margin rho of a solution, or 0 if it is not better than w = 0."""
    return published_margin(machine.thresholds) if machine.proof.primal < 0.0 else 0.0


def smallest_nu(problem: SoftMargin, rows: Rows, budget: Budget, seed: int) -> float:
    """Return the smallest nu of a binary problem that leaves a margin.

    At nu the hulls of the classes are reduced to a mass of nu m / 2, m the sum of the weights. They
    are disjoint above the critical mass.
    """
    label, weight = np.where(problem.upper > 0, 1.0, -1.0), problem.upper - problem.lower
    unit = float(weight.mean())
    hulls = reduced_hulls(label, weight / unit)
    with worker_threads() as rows.threads:
        critical = critical_mass(hulls, rows, budget, seed=seed)
    return 2.0 * critical / rows.n


def why_no_margin(nu: float, tol: float, problem: SoftMargin, rows: Rows, how: Any) -> str:
    """Return the warning for a binary problem without margin; `how` are budget and seed."""
    meet = (
        f"nu={nu:g} leaves no margin between two classes (rho_ = 0): their reduced convex hulls "
        "meet, the optimum is w = 0, and decision values are rounding noise. "
    )
    if rows.n > SEARCHED_ROWS:
        return meet + "Raise nu"
    least = smallest_nu(problem, rows, **how)
    label, weight = np.where(problem.upper > 0, 1.0, -1.0), problem.upper - problem.lower
    if least >= largest_feasible(label, weight) / ROUNDED:
        return meet + "No feasible nu leaves one: use another kernel"
    if least < nu:
        return (
            f"nu={nu:g} leaves so small a margin between two classes that the fit with tol={tol:g} "
            "did not find it (rho_ = 0), and decision values are rounding noise. Lower tol or "
            "raise nu"
        )
    return meet + f"Raise nu above {least:.6g}, the smallest value that leaves one"


def published(thresholds: FloatArray) -> dict[str, Any]:
    """Return what is known of the model rho_ * (dual_coef_, intercept_): see `bounds.Point`."""
    if published_margin(thresholds) == 0.0:
        return {"thresholds": np.zeros(2), "scale": 0.0}
    return {
        "thresholds": thresholds,
        "coefficient_error": 8.0 * U,
        "threshold_error": ROUNDED_THRESHOLDS * float(np.abs(thresholds).max()),
    }


def tube_thresholds(thresholds: FloatArray) -> FloatArray:
    """Return the thresholds of a tube of width zero if rounding has made them cross."""
    return np.full(2, thresholds.mean()) if thresholds[0] < thresholds[1] else thresholds


def tube_width(machine: Expansion) -> float:
    """Return the half width of the tube."""
    return float(0.5 * (machine.thresholds[0] - machine.thresholds[1]))


def divided_by_margin(machine: Expansion, nu: float) -> Expansion:
    """Rescale the solution to margin 1, unless rho is zero and there is no margin."""
    rho = solution_margin(machine)
    scale = 1.0 / rho if rho else 1.0
    refusal = "" if rho else (
        f"leave-one-out of NuSVC is at the C that nu amounts to, and nu={nu} amounts to "
        f"none: the classes overlap so much that it leaves no margin (rho_ = 0). "
        "Raise nu"
    )  # fmt: skip
    trained, stated = machine.machine, machine.machine.problem
    label = np.where(stated.upper > 0, 1.0, -1.0)
    # The solution divided by rho is the optimum of the C problem with C = 1 / rho.
    equivalent = Machine(
        trained.rows,
        c_classification(label, scale * (stated.upper - stated.lower)),
        trained.alpha * scale,
        machine.intercept * scale,
        refusal,
        held="C",
    )
    return replace(
        machine,
        beta=machine.beta * scale,
        intercept=machine.intercept * scale,
        machine=equivalent,
        norm2=machine.norm2 * scale * scale if rho else np.inf,
    )


def with_tube_held(machine: Expansion) -> Machine:
    """Return the equivalent SVR problem and optimum, with the tube width fixed."""
    trained, stated = machine.machine, machine.machine.problem
    n = stated.n_rows
    tube = epsilon_tube(stated.target[:n], stated.upper[:n], tube_width(machine))
    return replace(trained, problem=tube, threshold=machine.intercept, held="epsilon")
