"""Summary of the generalisation bounds that apply to a fitted model (`bounds.summary`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from widemargin._base.bound import Bound, check_constant, check_positive, check_probability
from widemargin._base.tolerances import MARGIN_ROUNDING
from widemargin._base.typing import FloatArray
from widemargin.assess.bounds.applicable import (
    Found,
    linear_bounds,
    mean_bounds,
    promise,
    rows_needed,
    with_unmet,
)
from widemargin.assess.bounds.margin import ordinal_margin
from widemargin.assess.bounds.table import THEOREMS, AppliedBound, BoundSummary, NotApplied
from widemargin.assess.bounds.view import linear_view, longest_row, not_in_advance, plain
from widemargin.assess.margins import margins
from widemargin.assess.planes import class_numbers, last_step, planes_of
from widemargin.estimators._base.inspection import fitted_kernel
from widemargin.fitted.record import machine_of

TWO_CLASSES = "is for two classes; look at two of them at a time"
ABOUT_TWO_CLASSES = (
    "vc", "margin_cover", "linear_margin", "fat_l1", "convex_combination", "margin_distribution",
    "adaptive_margin", "shawe_taylor", "adaboost", "perceptron",
)  # fmt: skip
NO_PLANE = "is for planes in a feature space, with coef_ or dual_coef_"
DEFAULT_WHY = {
    "vc": "needs a class of known VC dimension",
    "vc_lower": "speaks of the worst distribution for any algorithm, not of this model",
    "vc_margin_dimension": "is a dimension: new rows, too, would have to keep the margin",
    "margin_cover": NO_PLANE,
    "regression_cover": "is for regression with values in [0, 1], by a class fixed in advance",
    "linear_margin": NO_PLANE,
    "fat_l1": NO_PLANE,
    "convex_combination": "is for weighted means of hypotheses, as of boosting",
    "margin_distribution": NO_PLANE,
    "adaptive_margin": "is for LOOSVC and AdaptiveMarginSVC with lam > 0",
    "ordinal_margin": "is for utilities that put rows in order, as of OrdinalSVC",
    "shawe_taylor": NO_PLANE,
    "adaboost": "is for AdaBoostClassifier with reg=0",
    "perceptron": "counts the updates of PerceptronClassifier",
}


def summary(
    estimator: Any,
    X: Any,
    y: Any,
    delta: float = 0.05,
    *,
    c: float | None = None,
    R: float | None = None,
) -> BoundSummary:
    r"""Evaluate all generalisation bounds that apply to a fitted model, smallest first.

    The conditions of the theorems are respected. Where a theorem requires a margin that is fixed
    in advance, delta is divided among a grid of margins. A threshold counts as the weight of a
    constant feature, since the theorems are for functions without one. If a quantity that should
    be fixed in advance depends on the samples, such as ``gamma="scale"`` or a scaler in a pipeline,
    the bound is marked as vacuous. Tuning C or gamma on the same samples cannot be detected and is
    not accounted for.

    Parameters
    ----------
    estimator : estimator
        A fitted binary classifier or ordinal model, or a pipeline that ends in one.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The training samples. Most bounds hold for any independent samples, but are intended for
        these; those of AdaBoost and of adaptive margins require them.
    y : array-like of shape (n_samples,)
        Their labels.
    delta : float, default=0.05
        Confidence parameter in (0, 1): each bound fails with probability at most delta.
    c : float, default=None
        The universal constant of theorems 1.2, 1.8, 1.9 and 1.10 of Smola et al. (2000), which do
        not specify its value; these are only evaluated if it is given.
    R : float, default=None
        Upper bound of the norm of all samples in feature space, including future ones. None uses
        the largest norm of X (1 for the Gaussian kernel, which is exact).

    Returns
    -------
    BoundSummary
        `rows` holds the bounds with their inputs and a description, `others` the reasons why the
        remaining theorems do not apply; printing it shows a list.

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from widemargin import SVC, bounds
    >>> X, y = make_blobs(2_000, centers=[[-3, -3], [3, 3]], random_state=0)
    >>> model = SVC(gamma=0.05, fit_intercept=False, tol=1e-4).fit(X, y)
    >>> found = bounds.summary(model, X, y, delta=0.05)
    >>> for row in found:
    ...     print(row.function, repr(row.value))
    margin_cover Bound(26.94, vacuous: not below 1)
    margin_distribution Bound(72.47, vacuous: not below 1)
    shawe_taylor Bound(89.45, vacuous: not below 1)
    """
    check_probability("delta", delta)
    if c is not None:
        check_constant(c)
    if R is not None:
        check_positive(R=R)
    found = _found(estimator, X, y, float(delta), c, R)
    rows = [row for row in found.values() if not isinstance(row, str)]
    others = [
        NotApplied(function, str(found.get(function, DEFAULT_WHY[function])))
        for function in THEOREMS
        if isinstance(found.get(function, ""), str)
    ]
    return BoundSummary(type(machine_of(estimator)).__name__, len(y), delta, rows, others)


def _found(
    est: Any, X: Any, y: Any, delta: float, c: float | None, R: float | None
) -> dict[str, Found]:
    """Evaluate the bounds for this kind of model, by function name."""
    machine, seen = last_step(est, X)
    if not hasattr(machine, "classes_"):
        return {}
    if hasattr(machine, "utility"):
        return {"ordinal_margin": _of_ranks(est, machine, seen, y, delta, R)}
    if len(machine.classes_) > 2:
        class_numbers(machine, y)
        found: dict[str, Found] = dict.fromkeys(ABOUT_TWO_CLASSES, TWO_CLASSES)
        if hasattr(machine, "margin_bound"):
            found["adaboost"] = _by_weighted_errors(machine, margins(machine, seen, y))
        return found
    if hasattr(machine, "margin_bound"):  # a weighted mean of hypotheses: theorems 1.10 and 1.12
        means = margins(machine, seen, y)
        stumps = getattr(machine, "base", None) is None
        h = stump_dimension(int(machine.n_features_in_)) if stumps else None
        by_mean = mean_bounds(len(means), means, h, delta, c)
        return {**by_mean, "adaboost": _by_weighted_errors(machine, means)}
    if not (hasattr(machine, "coef_") or hasattr(machine, "dual_coef_")):
        return {}
    return linear_bounds(linear_view(est, X, y, R), delta, c)


def _by_weighted_errors(machine: Any, found: FloatArray) -> Found:
    if not hasattr(machine, "errors_"):  # LPBoost has no rounds
        return DEFAULT_WHY["adaboost"]
    if getattr(machine, "reg", 0) > 0:
        return "is for AdaBoost without regularisation (reg=0)"
    value = machine.margin_bound(0.0)
    wrong = float((found < 0.0).mean())
    words = (
        "The share of training rows with a margin below rho = 0, that is of misclassified ones, is "
        "at most that, by the weighted errors of the rounds alone (rows count by their weights); "
        f"it is {100 * wrong:.3g} %, all rows alike"
    )
    return AppliedBound("adaboost", value, {"m": len(found), "rho": 0.0}, words)


def stump_dimension(n_features: int) -> int:
    """Return the largest h with 2^h <= 2 n (h - 1) + 2, which bounds the VC dimension of stumps.

    On h points a feature has h - 1 cuts, each with two signs, and there are two constants.
    """
    h = 1
    while 2 ** (h + 1) <= 2 * n_features * h + 2:
        h += 1
    return h


def _of_ranks(est: Any, machine: Any, X: Any, y: Any, delta: float, R: float | None) -> Found:
    """Evaluate theorem 2.2 of Herbrich et al. (2000) on disjoint pairs of samples."""
    if not hasattr(machine, "thresholds_"):
        return "rows of different queries are not compared, so that they form no independent pairs"
    codes, utility = class_numbers(machine, y), machine.utility(X)
    lowest = [utility[codes > k].min(initial=math.inf) for k in range(len(machine.classes_) - 1)]
    highest = [utility[codes <= k].max(initial=-math.inf) for k in range(len(lowest))]
    gap = float(np.min(np.subtract(lowest, highest)))
    if not gap > 0:
        return "some rows are in the wrong order, and the theorem is for utilities without error"
    size = math.sqrt(float(planes_of(machine, X).gram[0, 0]))
    length, assumes = longest_row(machine, X, R)
    even = len(codes) - len(codes) % 2
    pairs = int((codes[0:even:2] != codes[1:even:2]).sum())
    if pairs == 0:
        return "no two neighbouring rows (1 and 2, 3 and 4, ...) have different ranks"
    kernel = fitted_kernel(machine)
    # Gaussian kernel values are positive, so the angle between two samples is below 90 degrees.
    factor = math.sqrt(2.0) if kernel is not None and kernel.name == "rbf" else 2.0
    distance, rho = factor * length, gap / size
    if rho > distance * (1.0 + MARGIN_ROUNDING):
        return "two utilities differ by more than the rows: the kernel is indefinite"

    def at(n: int) -> Bound:
        return ordinal_margin(2 * n, distance, rho, delta)

    bound = with_unmet(at(pairs), not_in_advance(est, machine, plain(X)))
    words = (
        "Pairs (1, 2), (3, 4), ... of rows with different ranks count, by the smallest difference "
        f"of utilities; two rows are at most {factor:.3g} R apart. {assumes}. "
        f"{promise(bound, delta, rows_needed(at))}"
    )
    inputs = {"pairs": pairs, "largest distance": distance, "rho": rho}
    return AppliedBound("ordinal_margin", bound, inputs, words)
