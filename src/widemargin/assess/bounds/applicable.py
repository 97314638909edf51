"""Select and evaluate the generalisation bounds that apply to a fitted model.

A margin that depends on the samples requires a theorem that holds uniformly over all margins (1.8,
1.10, 2.1 of Smola et al. 2000; 2.3 of Herbrich et al. 2000). Theorem 1.5 does not; for it, delta is
divided among the margins B, B/2, B/4, ... (union bound).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from widemargin._base.bound import Bound
from widemargin._base.tolerances import MARGIN_ROUNDING
from widemargin._base.typing import FloatArray
from widemargin.assess.bounds.capacity import fat_l1, fat_linear
from widemargin.assess.bounds.constant import convex_combination, linear_margin, vc
from widemargin.assess.bounds.cover import cover_bound, margin_cover
from widemargin.assess.bounds.margin import adaptive_margin, margin_distribution, shawe_taylor
from widemargin.assess.bounds.table import AppliedBound
from widemargin.assess.bounds.view import LinearView
from widemargin.fitted.record import find_model
from widemargin.problems.training_bounds import perceptron

CANDIDATES = 200  # maximum number of margins to minimise over, for theorems uniform in the margin
MOST_ROWS = 10**15
ONE = 1e-6  # tolerance of a margin of 1, for rounding
NEEDS_C = "needs c, a constant that the theorem does not name: summary(..., c=...)"

ABOUT_PLANES = (
    "margin_distribution", "shawe_taylor", "margin_cover", "linear_margin", "vc", "fat_l1",
    "perceptron",
)  # fmt: skip
LIMITED_MARGINS = ("margin_distribution", "margin_cover", "linear_margin")
TOO_WIDE = "a margin exceeds the longest row: the kernel is indefinite, or rounding dominates"

Found = AppliedBound | str
"""A theorem that applies, or why it does not."""


def linear_bounds(view: LinearView, delta: float, c: float | None) -> dict[str, Found]:
    """Evaluate the bounds for linear functions on a model."""
    if not 0.0 < view.radius < math.inf:
        why = f"needs rows whose length is a positive number; the longest one's is {view.radius:g}"
        return dict.fromkeys(ABOUT_PLANES, why)
    if view.margins.max(initial=0.0) > view.radius * (1.0 + MARGIN_ROUNDING):
        by_margins: dict[str, Found] = dict.fromkeys(LIMITED_MARGINS, TOO_WIDE)
    else:
        by_margins = {
            "margin_distribution": _by_distribution(view, delta),
            "margin_cover": _by_cover(view, delta),
            "linear_margin": _by_linear_margin(view, delta, c) if c is not None else NEEDS_C,
        }
    found: dict[str, Found] = {
        "margin_distribution": by_margins["margin_distribution"],
        "shawe_taylor": _by_smallest_margin(view, delta),
        "margin_cover": by_margins["margin_cover"],
        "linear_margin": by_margins["linear_margin"],
        "vc": _by_dimension(view, delta, c),
        "fat_l1": _by_sum_of_weights(view, delta, c),
        "perceptron": _by_updates(view),
    }
    adaptive = _by_adaptive_margin(view, delta)
    return found if adaptive is None else {**found, "adaptive_margin": adaptive}


def _by_distribution(view: LinearView, delta: float) -> Found:
    candidates = some_margins(view.margins)
    if not len(candidates):
        return "no row is on the right side of the boundary"
    ordered = np.sort(view.margins)
    below = np.searchsorted(ordered, candidates)
    first, second = (np.append(0.0, np.cumsum(ordered**power)) for power in (1, 2))
    squares = below * candidates**2 - 2.0 * candidates * first[below] + second[below]
    lacking = np.sqrt(np.maximum(0.0, squares))
    R = view.radius
    best = int(np.argmin(((R + lacking) ** 2 + 2.25 * R * lacking) / candidates**2))
    rho, D = float(candidates[best]), float(lacking[best])

    def at(m: int) -> Bound:
        # D^2 is a sum over samples and hence proportional to m.
        return margin_distribution(m, R, D * math.sqrt(m / view.m), rho, delta)

    how = (
        "All margins count, the small ones by what they lack; rho is the best, which is allowed, "
        f"as the theorem holds for all of them at once. {view.assumes}"
    )
    inputs = {"m": view.m, "R": R, "rho": rho, "D": D}
    return applied(view, "margin_distribution", at, inputs, how, delta)


def _by_smallest_margin(view: LinearView, delta: float) -> Found:
    rho = float(view.margins.min())
    if not rho > 0:
        wrong = int((view.margins <= 0).sum())
        return f"all rows have to be on the right side, and {wrong} of {view.m} are not"
    k = fat_linear(view.radius, rho / 8.0)
    how = "All rows are on the right side, and the smallest margin alone counts. " + view.assumes
    inputs = {"m": view.m, "R": view.radius, "rho": rho, "k": k}
    return applied(view, "shawe_taylor", lambda m: shawe_taylor(m, k, delta), inputs, how, delta)


def _by_cover(view: LinearView, delta: float) -> Found:
    def at(m: int, rho: float, share: float, error: float) -> Bound:
        return margin_cover(m, rho, view.radius, share, error)

    rho, share, error = _best_in_advance(view.m, view.margins, view.radius, delta, at)
    how = (
        "The share of margins below rho counts; delta is shared out over rho = R, R/2, R/4 and so "
        f"on. {view.assumes}"
    )
    inputs = {
        "m": view.m, "R": view.radius, "rho": rho, "margin_error": error, "share of delta": share
    }  # fmt: skip
    return applied(view, "margin_cover", lambda m: at(m, rho, share, error), inputs, how, delta)


def _by_linear_margin(view: LinearView, delta: float, c: float) -> Found:
    candidates = some_margins(view.margins)
    if not len(candidates):
        return "no row is on the right side of the boundary"

    def at(m: int, rho: float) -> Bound:
        # Half of delta for each of (1.45) and (1.46), as the samples decide which one is used.
        error = float((view.margins < rho).mean())
        return linear_margin(m, view.radius, rho, delta / 2.0, error, c)

    rho = min((float(rho) for rho in candidates), key=lambda rho: float(at(view.m, rho)))
    error = float((view.margins < rho).mean())
    inputs = {"m": view.m, "R": view.radius, "rho": rho, "margin_error": error, "c": c}
    how = (
        "The share of margins below rho counts; rho is the best, which is allowed, as the theorem "
        f"holds for all of them at once; as good as c. {view.assumes}"
    )
    return applied(view, "linear_margin", lambda m: at(m, rho), inputs, how, delta)


def _by_dimension(view: LinearView, delta: float, c: float | None) -> Found:
    if not math.isfinite(view.dimension):
        return "the VC dimension of planes in this feature space is not finite, or not known"
    if c is None:
        return NEEDS_C
    h = view.dimension + (view.threshold != 0)
    error = view.training_error
    inputs = {"m": view.m, "h": h, "empirical_risk": error, "c": c}
    how = "Margins do not count, only the training error and the number of features; as good as c"
    return applied(view, "vc", lambda m: vc(m, h, delta, error, c), inputs, how, delta)


def _by_sum_of_weights(view: LinearView, delta: float, c: float | None) -> Found:
    coef = view.planes.coef
    if coef is None:
        return "is for weights of the features themselves"
    if c is None:
        return NEEDS_C
    longest, n_features = view.longest_entry, coef.shape[1] + 1
    size = float(np.abs(coef).sum()) * longest + abs(view.threshold)
    if not size > 0:
        return "all weights are zero"
    margins = view.signed / size

    def at(m: int, rho: float, share: float, error: float) -> Bound:
        fat = fat_l1(1.0, rho / 8.0, n_features, c)
        return cover_bound("sum of weights, theorems 1.9 and 1.5", m, rho, 2.0, fat, share, error)

    rho, share, error = _best_in_advance(view.m, margins, 1.0, delta, at)
    inputs = {
        "m": view.m, "largest entry": longest, "rho": rho, "margin_error": error,
        "share of delta": share, "c": c,
    }  # fmt: skip
    how = "Weights count by their sum, rows by their largest entry, which no new row may exceed"
    return applied(view, "fat_l1", lambda m: at(m, rho, share, error), inputs, how, delta)


def _by_updates(view: LinearView) -> Found:
    if not hasattr(view.machine, "n_updates_"):
        return "counts the updates of PerceptronClassifier"
    if any("inner product" in condition for condition in view.unmet):
        return "the kernel is no inner product, or not for all rows"
    length = math.sqrt(max(0.0, view.planes.gram[0, 0]))
    if not (length > 0 and view.signed.min() > 0):
        return "the perceptron has found no plane that separates these rows"
    rho, b = float(view.signed.min()) / length, view.threshold / length
    value = perceptron(view.row_length, rho, b)
    made = int(np.max(view.machine.n_updates_))
    words = (
        "The perceptron makes at most so many updates on these rows, in any order, as follows from "
        f"the plane that it has found. It has made {made}"
    )
    return AppliedBound("perceptron", value, {"R": view.row_length, "rho": rho, "b": b}, words)


def _by_adaptive_margin(view: LinearView, delta: float) -> Found | None:
    """Evaluate theorem 2.2 of Smola et al. (2000); return None for fixed-margin models."""
    model = find_model(view.machine)
    deficits = None if model is None else model.margin_deficits()
    if model is None or deficits is None:
        return None
    if len(deficits) != view.m or not (model.data.given_weight == 1.0).all():
        return "X, y have to be the rows of the fit, and without sample_weight"
    W, R, D = view.size, view.radius, float(np.linalg.norm(deficits))

    reached = bool((view.signed >= 1.0 - ONE).any())
    unmet = () if reached else ("a row with a margin of 1 (there is none)",)

    def at(m: int) -> Bound:
        return with_unmet(adaptive_margin(m, R, W, D * math.sqrt(m / view.m), delta), unmet)

    how = "The norm of f counts, and the slack beyond what margins adapt. " + view.assumes
    return applied(view, "adaptive_margin", at, {"m": view.m, "R": R, "W": W, "D": D}, how, delta)


def mean_bounds(
    m: int, margins: FloatArray, h: float | None, delta: float, c: float | None
) -> dict[str, Found]:
    """Evaluate theorem 1.10 on a convex combination of hypotheses of VC dimension h."""
    if h is None:
        return {"convex_combination": "the VC dimension of the base hypotheses is not known"}
    if c is None:
        return {"convex_combination": NEEDS_C}
    candidates = some_margins(margins)
    if not len(candidates):
        return {"convex_combination": "no row is on the right side of the boundary"}

    def at(rows: int, rho: float) -> Bound:
        return convex_combination(rows, h, rho, delta, float((margins < rho).mean()), c)

    rho = min((float(rho) for rho in candidates), key=lambda rho: float(at(m, rho)))
    error = float((margins < rho).mean())
    inputs = {"m": m, "h": h, "rho": rho, "margin_error": error, "c": c}
    how = "The share of margins below rho counts, not the number of rounds; as good as c"
    bound = at(m, rho)
    words = f"{how}. {promise(bound, delta, rows_needed(lambda n: at(n, rho)))}"
    return {"convex_combination": AppliedBound("convex_combination", bound, inputs, words)}


def applied(
    view: LinearView,
    function: str,
    at: Callable[[int], Bound],
    inputs: dict[str, float],
    how: str,
    delta: float,
) -> AppliedBound:
    """Return a bound with its value for the given samples, its inputs and a description."""
    bound = with_unmet(at(view.m), view.unmet)
    return AppliedBound(function, bound, inputs, f"{how}. {promise(bound, delta, rows_needed(at))}")


def some_margins(margins: FloatArray) -> FloatArray:
    """Return the distinct positive margins, at most CANDIDATES of them."""
    positive = np.unique(margins[margins > 0])
    if len(positive) <= CANDIDATES:
        return positive
    return positive[np.linspace(0, len(positive) - 1, CANDIDATES).astype(np.intp)]


def with_unmet(bound: Bound, more: tuple[str, ...]) -> Bound:
    """Return a bound with additional unmet conditions."""
    unmet = (*bound.unmet, *more)
    return Bound(float(bound), bound.name, unmet, bound.dimension, bound.of, bound.lower)


def rows_needed(at: Callable[[int], Bound]) -> int | None:
    """Return the number of samples, all else equal, for which a bound is below 1, or None."""
    high = 1
    while not at(high) < 1.0:
        high *= 2
        if high > MOST_ROWS:
            return None
    low = high // 2  # bisect to three digits, enough for display
    while high - low > max(1, high // 1000):
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle) < 1.0 else (middle, high)
    return high


def promise(bound: Bound, delta: float, needed: int | None) -> str:
    """Describe in one sentence what a bound guarantees."""
    if bound < 1.0:
        what = "pairs are in the wrong order" if "risk" in bound.of else "rows are misclassified"
        said = f"At most {100 * bound:.3g} % of new {what}, with probability {1 - delta:g}"
        unmet = f"; but not met is: {'; '.join(bound.unmet)}" if bound.unmet else ""
        return said + unmet
    rows = "" if needed is None else f"; about {needed:.2g} rows like these would be needed"
    missing = f". Not met is: {'; '.join(bound.unmet)}" if bound.unmet else ""
    return f"It says nothing, being above 1{rows}{missing}"


def _best_in_advance(
    m: int,
    margins: FloatArray,
    largest: float,
    delta: float,
    at: Callable[[int, float, float, float], Bound],
) -> tuple[float, float, float]:
    """Return the best margin of a grid fixed in advance, its share of delta and margin error.

    The shares delta / ((j + 1)(j + 2)) of the margins largest / 2^j sum to delta; each is halved
    for (1.40) and (1.41). Margins that no sample attains are skipped, and the grid ends where the
    class is too rich for m samples.
    """
    best, found = math.inf, (largest, delta / 4.0, 1.0)
    for j in range(max(1, math.ceil(math.log2(m)) + 1)):
        rho, share = largest / 2.0**j, delta / ((j + 1) * (j + 2) * 2)
        error = float((margins < rho).mean())
        if error == 1:
            continue
        value = float(at(m, rho, share, error))
        if value < best or found[2] == 1:
            best, found = value, (rho, share, error)
    return found
