"""Truth about the machines with likelihoods: cumulative links and naive mean field.

Logarithms and distribution functions have `DIGITS` digits. Published models: `coef_` and
`thresholds_`; `alpha_`, with labels -1 and +1 and sample weights.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from tests.helpers.exact_numbers import (
    NOISE,
    ExactKernel,
    big,
    dot,
    many_digits,
    matrix,
    product,
    rational,
    rounded,
    vector,
)
from tests.helpers.exact_verdict import Truth

ZERO = Fraction(0)
FIELD_ERROR = 1e-90


def _normal(t: Any) -> Any:
    return mpmath.erfc(-t / mpmath.sqrt(2)) / 2


DISTRIBUTIONS = {
    "logit": lambda t: 1 / (1 + mpmath.exp(-t)),
    "probit": _normal,
    "cloglog": lambda t: -mpmath.expm1(-mpmath.exp(t)),
}
COMPLEMENTS = {
    "logit": lambda t: 1 / (1 + mpmath.exp(t)),
    "probit": lambda t: _normal(-t),
    "cloglog": lambda t: mpmath.exp(-mpmath.exp(t)),
}
"""1 - P(t), without cancellation."""


def _log_probability(link: str, low: Any, high: Any) -> Any:
    """Return log(P(high) - P(low)); None is an infinite end."""
    P, rest = DISTRIBUTIONS[link], COMPLEMENTS[link]
    if low is None:
        return mpmath.log(P(high))
    if high is None:
        return mpmath.log(rest(low))
    # The side of zero with the smaller probabilities; 140 digits bear the rest.
    difference = rest(low) - rest(high) if low > 0 else P(high) - P(low)
    return mpmath.log(difference) if difference > 0 else mpmath.mpf("-inf")


def cumulative(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about CumulativeLinkClassifier with alpha > 0."""
    samples, codes = matrix(X), np.searchsorted(model.classes_, y)
    s = vector(np.ones(len(X)) if weight is None else weight)

    def objective(w: Any, theta: Any) -> Fraction | None:
        if any(a >= b for a, b in itertools.pairwise(theta)):
            return None
        found = rational(model.alpha) / 2 * dot(w, w)
        ends = [None, *theta, None]
        with many_digits():
            for u, code, share in zip(product(samples, w), codes, s, strict=True):
                low, high = (
                    None if end is None else big(end - u) for end in (ends[code], ends[code + 1])
                )
                value = _log_probability(model.link, low, high) if share else 0
                if mpmath.isinf(value):
                    return None
                found -= share * rounded(value)
        return found

    points = [(vector(m.coef_), vector(m.thresholds_)) for m in [model, *references]]
    primal = objective(*points[0])
    upper = [objective(*point) for point in points]
    constant = _constant_objective(model.link, codes, s)
    upper.append(constant)
    known = [value for value in upper if value is not None]
    return [Truth(primal, min(known), None, constant, NOISE)]


def _constant_objective(link: str, codes: Any, s: list[Fraction]) -> Fraction:
    """Return the objective of w = 0 with the best thresholds: the entropy of the ranks."""
    total, found = sum(s, ZERO), ZERO
    for code in set(codes.tolist()):
        share = sum((v for v, c in zip(s, codes, strict=True) if c == code), ZERO)
        if share:
            with many_digits():
                found -= share * rounded(mpmath.log(big(share / total)))
    return found


# ---------------------------------------------------------------- naive mean field


def mean_field(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about MeanFieldGPClassifier, naive and without flip noise."""
    kernel = ExactKernel.of(model)
    K = kernel.matrix(X)
    offset = rational(model.mean_variance)
    K = [[value + offset for value in row] for row in K]
    s = vector(np.ones(len(X)) if weight is None else weight)
    codes = np.searchsorted(model.classes_, y)
    positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
    found = []
    for k, positive in enumerate(positives):
        label = [1 if code == positive else -1 for code in codes]

        def objective(alpha: Any, label: Any = label) -> Fraction | None:
            if any(a < 0 for a in alpha):
                return None
            A = [y * a for y, a in zip(label, alpha, strict=True)]
            energy = dot(A, product(K, A)) / 2
            with many_digits():
                for i, a in enumerate(alpha):
                    if s[i] and a:
                        noise = rational(model.input_noise)
                        energy += s[i] * rounded(_psi(big(a / s[i]), big(K[i][i]), big(noise)))
            return energy

        alphas = [vector(np.atleast_2d(m.alpha_)[k]) for m in [model, *references]]
        values = [objective(alpha) for alpha in alphas]
        values += [objective([a * Fraction(99, 100) for a in alphas[0]]), ZERO]
        upper = min(value for value in values if value is not None)
        found.append(Truth(values[0], upper, None, ZERO, NOISE))
    return found


def _psi(alpha: Any, c: Any, noise: Any) -> Any:
    """Return log Phi(t) - t F(t) - c alpha^2 / 2 where F(t) = alpha sqrt(c + noise)."""
    strength = alpha * mpmath.sqrt(c + noise)
    t = _field(strength)
    return mpmath.log(_normal(t)) - t * strength - c * alpha * alpha / 2


def _field(strength: Any) -> Any:
    """Solve F(t) = density(t) / distribution(t) = strength by Newton steps for log F, concave."""
    log = mpmath.log(strength)
    t = -strength if strength > 2 else mpmath.sqrt(max(0, -2 * log - mpmath.log(2 * mpmath.pi)))
    for _ in range(200):
        F = mpmath.npdf(t) / _normal(t)
        step = (mpmath.log(F) - log) / (t + F)  # the derivative of log F is -(t + F)
        t += step
        if abs(step) < FIELD_ERROR * max(1, abs(t)):
            return t
    raise ArithmeticError("no field found")
