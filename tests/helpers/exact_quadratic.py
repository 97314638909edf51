"""Truth about the quadratic machines: what a fitted model publishes, read as exact numbers.

The statement that is judged: samples, `gamma_`, `coef0` and targets are the stored floats; a cost
is the exact product of C, sample weight and class weight; equal samples of a class are one sample
with the exact sum of their costs. Published models: `dual_coef_` on `support_` and `intercept_`;
NuSVC these times `rho_`; NuSVR also `epsilon_`; OneClassSVM `offset_`; ReducedHullSVC `dual_coef_`
times half of `theta_plus_` - `theta_minus_` with these thresholds; TubeSVR `dual_coef_` times
-sigma with sigma = D / `equivalent_C_` and the thresholds that `intercept_` and `tube_width_` imply
there; linear models `coef_` and `intercept_`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from tests.helpers.exact_numbers import ExactKernel, dot, matrix, product, rational, vector
from tests.helpers.exact_soft_margin import (
    SoftProblem,
    Variable,
    classification,
    tube,
    two_groups,
)
from tests.helpers.exact_verdict import Truth, largest, least

ZERO = Fraction(0)
SCALES = (Fraction(1, 2), Fraction(99, 100), Fraction(101, 100))
HARD = 2  # the cap that stands for a hard margin, see `ReducedHullSVC.nu_`


@dataclass
class Merged:
    """Distinct samples of positive weight: places in X, exact weights, place of each given row."""

    rows: list[int]
    weight: list[Fraction]
    place: dict[int, int]

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any, *, apart: bool) -> Merged:
        """Merge equal rows of equal label unless they are to be kept apart."""
        first: dict[Any, int] = {}
        found = cls([], [], {})
        weight = np.ones(len(X)) if weight is None else weight
        for i, row in enumerate(np.asarray(X, dtype=np.float64)):
            if weight[i] <= 0:
                continue
            key = i if apart else (tuple((row + 0.0).tolist()), None if y is None else float(y[i]))
            if key not in first:
                first[key] = len(found.rows)
                found.rows.append(i)
                found.weight.append(ZERO)
            found.place[i] = first[key]
            found.weight[first[key]] += rational(weight[i])
        return found


@dataclass
class Point:
    """A model: values of f on the samples, squared norm, thresholds, coefficients if it has any."""

    f: list[Fraction]
    norm2: Fraction
    thresholds: list[Fraction]
    beta: list[Fraction] | None = None


def expansion(K: list[list[Fraction]], beta: list[Fraction], thresholds: list[Fraction]) -> Point:
    """Return the model with these coefficients."""
    f = product(K, beta)
    return Point(f, dot(beta, f), thresholds, beta)


def truth_of(
    problem: SoftProblem, point: Point, references: list[Point], noise: Fraction, *,
    constant: bool = True,
) -> Truth:  # fmt: skip
    """Return exact objectives of a model and of other feasible points."""
    zeros = [ZERO] * len(problem.K)
    still = Point(zeros, ZERO, problem.best_thresholds(zeros), zeros)
    primal = problem.primal(point.f, point.norm2, point.thresholds)
    upper = [primal, problem.primal(still.f, ZERO, still.thresholds)]
    lower = []
    for other in [point, still, *references]:
        best = replace(other, thresholds=problem.best_thresholds(other.f))
        upper.append(problem.primal(best.f, best.norm2, best.thresholds))
        lower += _lower_bounds(problem, best)
    for scale in SCALES:
        f = [scale * value for value in point.f]
        upper.append(problem.primal(f, scale * scale * point.norm2, problem.best_thresholds(f)))
    return Truth(primal, least(upper), largest(lower), upper[1] if constant else None, noise)


def _lower_bounds(problem: SoftProblem, point: Point) -> list[Fraction]:
    found = []
    try:
        if point.beta is not None:
            found.append(problem.lower_bound(point.beta, point.f))
        if all(v.ridge for v in problem.variables):
            found.append(problem.at_slacks(point.f, point.thresholds))
    except ArithmeticError:  # a reference of which no feasible variables are near
        pass
    return found


def _dense(coefficients: Any) -> Any:
    return coefficients.toarray() if sp.issparse(coefficients) else np.asarray(coefficients)


def _kernel_rows(model: Any, X: Any, rows: list[int]) -> tuple[list[list[Fraction]], Fraction]:
    kernel = ExactKernel.of(model)
    part = X[np.ix_(rows, rows)] if kernel.name == "precomputed" else X[rows]
    return kernel.matrix(part), kernel.noise


def _beta(model: Any, few: Merged, coefficients: Any) -> list[Fraction]:
    beta = [ZERO] * len(few.rows)
    for i, value in zip(model.support_, coefficients, strict=True):
        beta[few.place[int(i)]] += rational(value)
    return beta


# ---------------------------------------------------------------- classification with kernels


def pairs_of(model: Any) -> list[tuple[int, int]]:
    """Return the pairs (positive, negative) of classes: the second one, or i against j > i."""
    n = len(model.classes_)
    return [(1, 0)] if n == 2 else list(itertools.combinations(range(n), 2))


def _pair_coefficients(model: Any, y: Any, pair: tuple[int, int]) -> Any:
    """Return the coefficients of one pair of classes on all support vectors."""
    dual, (i, j) = _dense(model.dual_coef_), pair
    if len(model.classes_) == 2:
        return dual[0]
    owner = np.searchsorted(model.classes_, y[model.support_])
    return np.where(owner == i, dual[j - 1], np.where(owner == j, dual[i], 0.0))


def kernel_pairs(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about SVC, NuSVC or ReducedHullSVC, one per pair of classes."""
    codes = np.searchsorted(model.classes_, y)
    few = Merged.of(X, codes, weight, apart=model.kernel == "precomputed")
    found = []
    for k, pair in enumerate(pairs_of(model)):
        chosen = [r for r, i in enumerate(few.rows) if codes[i] in pair]
        K, noise = _kernel_rows(model, X, [few.rows[r] for r in chosen])
        label = [1 if codes[few.rows[r]] == pair[0] else -1 for r in chosen]
        weights = [few.weight[r] for r in chosen]
        read = _READERS[type(model).__name__]
        models = [model, *references]
        separate = type(model).__name__ == "ReducedHullSVC"
        problem, points = None, []
        for other in models:
            beta = _beta(other, few, _pair_coefficients(other, y, pair))
            problem, point = read(other, k, pair, label, weights, K, [beta[r] for r in chosen])
            if separate and model.kernel == "linear":  # published by its weights
                w = [
                    v * (point.thresholds[1] - point.thresholds[0]) / 2
                    for v in vector(other.coef_[k])
                ]
                samples = [vector(X[few.rows[r]]) for r in chosen]
                point = replace(point, f=[dot(x, w) for x in samples], norm2=dot(w, w))
            points.append(point)
            if other is model:
                own = problem
        found.append(truth_of(own, points[0], points[1:], noise, constant=not separate))
    return found


def _factors(model: Any, pair: tuple[int, int], label: list[int]) -> list[Fraction]:
    of_class = vector(model.class_weight_)
    return [of_class[pair[0] if sign > 0 else pair[1]] for sign in label]


def costs(model: Any, weight: list[Fraction]) -> list[Any]:
    """Return C times each weight; None is infinite."""
    return [None if np.isinf(model.C) else rational(model.C) * w for w in weight]


def _svc(model: Any, k: int, pair: Any, label: Any, weight: Any, K: Any, beta: Any) -> Any:
    factor = _factors(model, pair, label)
    cost = costs(model, [w * c for w, c in zip(weight, factor, strict=True)])
    squared, intercept = model.loss == "squared_hinge", model.fit_intercept
    problem = classification(label, cost, K, squared=squared, intercept=intercept)
    return problem, expansion(K, beta, [rational(model.intercept_[k])] * intercept)


def _nu_svc(model: Any, k: int, pair: Any, label: Any, weight: Any, K: Any, beta: Any) -> Any:
    factor = _factors(model, pair, label)
    cap = [w * c for w, c in zip(weight, factor, strict=True)]
    sides = [
        sum((c for c, s in zip(cap, label, strict=True) if s == sign), ZERO) for sign in (1, -1)
    ]
    total = min(rational(model.nu) * sum(cap, ZERO) / 2, *sides)
    rho = rational(model.rho_[k])  # zero without a margin: the certified model is w = 0
    b = rho * rational(model.intercept_[k])
    return two_groups(label, cap, K, total), expansion(
        K, [rho * value for value in beta], [b - rho, b + rho]
    )


def caps(weight: list[Fraction], k: Fraction) -> list[Fraction]:
    """Return weight / k; for k = 1, caps of at least 1 are those of the hard margin."""
    found = [w / k for w in weight]
    return [max(cap, Fraction(HARD)) if k <= 1 and cap >= 1 else cap for cap in found]


def _hull(model: Any, k: int, pair: Any, label: Any, weight: Any, K: Any, beta: Any) -> Any:
    one = len(model.classes_) == 2
    size = vector(np.broadcast_to(model.k_ if one else model.k_[k], 2))
    of_plus, of_minus = caps(weight, size[0]), caps(weight, size[1])
    both = zip(of_plus, of_minus, label, strict=True)
    cap = [plus if sign > 0 else minus for plus, minus, sign in both]
    plus = rational(model.theta_plus_ if one else model.theta_plus_[k])
    minus = rational(model.theta_minus_ if one else model.theta_minus_[k])
    scaled = [value * (plus - minus) / 2 for value in beta]
    return two_groups(label, cap, K, Fraction(1)), expansion(K, scaled, [-plus, -minus])


_READERS = {"SVC": _svc, "NuSVC": _nu_svc, "ReducedHullSVC": _hull}


# ---------------------------------------------------------------- one class, regression


def _single(model: Any, references: list[Any], X: Any, y: Any, weight: Any, read: Any) -> Truth:
    few = Merged.of(X, y, weight, apart=model.kernel == "precomputed")
    K, noise = _kernel_rows(model, X, few.rows)
    t = None if y is None else [rational(y[i]) for i in few.rows]
    results = []
    for other in [model, *references]:
        beta = _beta(other, few, _dense(other.dual_coef_)[0])
        results.append(read(other, t, few.weight, K, beta))
    constant = type(model).__name__ != "TubeSVR"
    points = [point for _, point in results]
    return truth_of(results[0][0], points[0], points[1:], noise, constant=constant)


def one_class(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about OneClassSVM."""

    def read(other: Any, t: Any, weight: Any, K: Any, beta: Any) -> Any:
        variables = [Variable(i, ZERO, ZERO, w) for i, w in enumerate(weight)]
        total = rational(other.nu) * sum(weight, ZERO)
        point = expansion(K, beta, [-rational(other.offset_[0])])
        return SoftProblem(variables, [total], K), point

    return [_single(model, references, X, None, weight, read)]


def regression(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about SVR and NuSVR."""

    def read(other: Any, t: Any, weight: Any, K: Any, beta: Any) -> Any:
        cost = costs(other, weight)
        b = rational(other.intercept_[0])
        if hasattr(other, "epsilon_"):
            e = rational(other.epsilon_)
            problem = tube(t, cost, K, ZERO, nu=rational(other.nu))
            return problem, expansion(K, beta, [b + e, b - e])
        problem = tube(t, cost, K, rational(other.epsilon), intercept=other.fit_intercept)
        return problem, expansion(K, beta, [b] * other.fit_intercept)

    return [_single(model, references, X, y, weight, read)]


def tube_hulls(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about TubeSVR: reduced hulls of the shifted samples."""
    epsilon = rational(model.epsilon_)
    places = Merged.of(X, y, weight, apart=model.kernel == "precomputed").rows

    def read(other: Any, t: Any, weight: Any, K: Any, beta: Any) -> Any:
        k, n = rational(other.k_), len(t)
        cap = caps(weight, k)
        z = [v + epsilon for v in t] + [v - epsilon for v in t]
        lifted = [[K[i % n][j % n] + z[i] * z[j] for j in range(2 * n)] for i in range(2 * n)]
        problem = two_groups([1] * n + [-1] * n, cap + cap, lifted, Fraction(1))
        sigma = caps([Fraction(1)], k)[0] / rational(other.equivalent_C_)
        values, norm2 = product(K, beta), None
        if other.kernel == "linear":  # published by its weights
            w = vector(other.coef_[0])
            values, norm2 = [dot(vector(X[i]), w) for i in places], dot(w, w)
        f = [sigma * (z[i] - values[i % n]) for i in range(2 * n)]
        norm2 = sigma * sigma * ((dot(beta, values) if norm2 is None else norm2) + 1)
        middle = sigma * rational(other.intercept_[0])
        half = sigma * (epsilon - rational(other.tube_width_))
        return problem, Point(f, norm2, [-(middle + half), -(middle - half)])

    # The masses of the shifted samples are not published: there is no lower bound to compare.
    return [replace(_single(model, references, X, y, weight, read), lower=None)]


# ---------------------------------------------------------------- linear models


def planes(
    model: Any, references: list[Any], X: Any, y: Any, weight: Any, betas: Any = None
) -> list[Truth]:
    """Return the truth about LinearSVC (l2), LinearSVR and MaxMarginClassifier with p = 2."""
    regress = not hasattr(model, "classes_")
    codes = y if regress else np.searchsorted(model.classes_, y)
    few = Merged.of(X, codes, weight, apart=False)
    found = []
    for k, pair in enumerate([None] if regress else sides_of(model)):
        rows = [r for r, i in enumerate(few.rows) if _takes_part(codes[i], pair)]
        samples = [few.rows[r] for r in rows]
        scaling = getattr(model, "intercept_scaling", None)
        free = getattr(model, "fit_intercept", True) and scaling is None
        penalised = getattr(model, "fit_intercept", True) and scaling is not None
        s = rational(scaling) if penalised else None
        K = ExactKernel("linear").matrix(X[samples])
        if s is not None:
            K = [[value + s * s for value in row] for row in K]
        problem = _plane_problem(
            model, pair, codes[samples], [few.weight[r] for r in rows], K, free
        )
        points = []
        for other in [model, *references]:
            w = vector(np.atleast_2d(other.coef_)[k])
            b = rational(np.ravel(other.intercept_)[k])
            norm2, values = dot(w, w), product(matrix(X[samples]), w)
            if s is not None:
                norm2, values = norm2 + (b / s) ** 2, [v + b for v in values]
            points.append(Point(values, norm2, [b] * free))
        if betas is not None:
            beta = betas(problem, K)
            points += [] if beta is None else [expansion(K, beta, [ZERO] * free)]
        found.append(truth_of(problem, points[0], points[1:], ZERO))
    return found


def sides_of(model: Any) -> list[tuple[int, int | None]]:
    """Return positive and negative class of each hyperplane; None: all others."""
    n = len(model.classes_)
    if n == 2 or getattr(model, "multi_class", "ovo") == "ovo":
        return pairs_of(model)  # type: ignore[return-value]
    return [(k, None) for k in range(n)]


def _takes_part(code: Any, pair: Any) -> bool:
    return pair is None or pair[1] is None or code in pair


def plane_costs(model: Any, pair: Any, codes: Any, weight: list[Fraction]) -> list[Fraction]:
    """Return the exact cost of each sample of one hyperplane; one against all weights that one."""
    factors = getattr(model, "class_weight", None) or {}
    cost = []
    for code, w in zip(codes, weight, strict=True):
        mine = pair is not None and (pair[1] is not None or code == pair[0])
        factor = factors.get(model.classes_[code], 1.0) if mine else 1.0
        cost.append(rational(model.C) * w * rational(factor))
    return cost


def _plane_problem(model: Any, pair: Any, codes: Any, weight: Any, K: Any, free: bool) -> Any:
    cost = plane_costs(model, pair, codes, weight)
    squared = str(getattr(model, "loss", "hinge")).startswith("squared")
    if pair is None:
        epsilon = rational(model.epsilon)
        return tube(vector(codes), cost, K, epsilon, squared=squared, intercept=free)
    label = [1 if code == pair[0] else -1 for code in codes]
    return classification(label, cost, K, squared=squared, intercept=free)
