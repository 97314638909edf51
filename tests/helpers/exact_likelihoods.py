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
    DIGITS,
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
from tests.helpers.exact_verdict import Truth, largest

ZERO = Fraction(0)
FIELD_ERROR = 1e-90
STEPS = 40  # each with a Hessian in float64 gains about ten digits


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

DENSITIES = {
    "logit": (
        lambda t: 1 / (2 + mpmath.exp(t) + mpmath.exp(-t)),
        lambda t: (1 - mpmath.exp(t)) / (1 + mpmath.exp(t)),
    ),
    "probit": (mpmath.npdf, lambda t: -t),
    "cloglog": (lambda t: mpmath.exp(t - mpmath.exp(t)), lambda t: 1 - mpmath.exp(t)),
}
"""Density of the noise, and the derivative of its logarithm."""


def log_probability(link: str, low: Any, high: Any) -> Any:
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
                value = log_probability(model.link, low, high) if share else 0
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
    lower = [_proved(model, m, samples, codes, s) for m in [model, *references]]
    return [Truth(primal, min(known), largest(lower), constant, NOISE)]


def _slopes(link: str, low: Any, high: Any) -> tuple[Any, ...]:
    """Return the probability's logarithm, and first and second derivatives of the loss."""
    density, tilt = DENSITIES[link]
    log = log_probability(link, low, high)
    below = mpmath.mpf(0) if low is None else density(low) * mpmath.exp(-log)
    above = mpmath.mpf(0) if high is None else density(high) * mpmath.exp(-log)
    bends = (
        below * (below + (0 if low is None else tilt(low))),
        above * (above - (0 if high is None else tilt(high))),
    )
    return log, below, above, *bends


def _proved(model: Any, other: Any, samples: Any, codes: Any, s: list[Fraction]) -> Any:
    """Return J - |dJ/dw|^2 / (2 alpha) at the best thresholds for the weights of `other`.

    J minimised over the thresholds is strongly convex in the weights with modulus alpha. Newton
    steps with a Hessian in float64 find the thresholds to many digits; None if they do not.
    """
    w = vector(other.coef_)
    utility, alpha = product(samples, w), rational(model.alpha)
    with many_digits():
        theta = [mpmath.mpf(t) for t in np.asarray(other.thresholds_, dtype=np.float64)]
        for _ in range(STEPS):
            value, pull = big(alpha * dot(w, w) / 2), [big(alpha * x) for x in w]
            gradient = [mpmath.mpf(0)] * len(theta)
            hessian = np.zeros((len(theta), len(theta)))
            ends = [None, *theta, None]
            for u, x, code, share in zip(utility, samples, codes, s, strict=True):
                if not share:
                    continue
                low, high = (None if e is None else e - big(u) for e in ends[code : code + 2])
                if low is not None and high is not None and low >= high:
                    return None
                log, p, q, pp, qq = _slopes(model.link, low, high)
                if mpmath.isinf(log):
                    return None
                weight = big(share)
                value -= weight * log
                pull = [v + weight * (q - p) * big(z) for v, z in zip(pull, x, strict=True)]
                if low is not None:
                    gradient[code - 1] += weight * p
                    hessian[code - 1, code - 1] += float(weight * pp)
                if high is not None:
                    gradient[code] -= weight * q
                    hessian[code, code] += float(weight * qq)
                if low is not None and high is not None:
                    hessian[code - 1, code] -= float(weight * p * q)
                    hessian[code, code - 1] -= float(weight * p * q)
            if max(abs(g) for g in gradient) < FIELD_ERROR:
                return rounded(value - sum(v * v for v in pull) / big(2 * alpha))
            size = max(abs(g) for g in gradient)
            try:
                step = np.linalg.solve(hessian, np.array([float(g / size) for g in gradient]))
            except np.linalg.LinAlgError:
                return None
            if not np.isfinite(step).all():
                return None
            theta = [t - size * mpmath.mpf(float(m)) for t, m in zip(theta, step, strict=True)]
    return None


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
    offset = rational(model.mean_variance_)
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
                        energy += s[i] * rounded(psi(big(a / s[i]), big(K[i][i]), big(noise)))
            return energy

        alphas = [vector(np.atleast_2d(m.alpha_)[k]) for m in [model, *references]]
        values = [objective(alpha) for alpha in alphas]
        values += [objective([a * Fraction(99, 100) for a in alphas[0]]), ZERO]
        upper = min(value for value in values if value is not None)
        lower = [_dual(K, label, alpha, s, rational(model.input_noise)) for alpha in alphas]
        found.append(Truth(values[0], upper, largest(lower), ZERO, NOISE))
    return found


def _dual(K: Any, label: Any, alpha: Any, s: Any, noise: Fraction) -> Any:
    """Return -f'inv(K)f / 2 minus the conjugates at -y f, for f = K A; None if not found.

    The conjugate of psi at -z is the value at F(t) = alpha sqrt(c + noise), where
    sqrt(c + noise) t + c alpha = z: the left side increases in t, so Newton steps are safeguarded.
    """
    A = [y * a for y, a in zip(label, alpha, strict=True)]
    f = product(K, A)
    found = -dot(A, f) / 2
    for i, weight in enumerate(s):
        if not weight:
            continue
        with digits_for(K[i][i] + abs(f[i])):
            c, z, v = big(K[i][i]), big(label[i] * f[i]), big(noise)
            scale = mpmath.sqrt(c + v)
            t = maximiser(c, v, scale, z)
            if t is None:
                return None
            F = mpmath.npdf(t) / _normal(t)
            sigma = F / scale
            psi = mpmath.log(_normal(t)) - t * F - c * sigma * sigma / 2
            found -= weight * rounded(-z * sigma - psi)
    return found


def digits_for(size: Fraction) -> Any:
    """Compute with enough digits for the square of a field of this size and its exponential."""
    exponent = max(0, size.numerator.bit_length() - size.denominator.bit_length())
    return mpmath.workdps(DIGITS + 2 * exponent)  # six times its decimal digits


def maximiser(c: Any, v: Any, scale: Any, z: Any) -> Any:
    """Solve scale t + c F(t) / scale = z; None if Newton's method from the left fails.

    The left side is convex: one step from the left is at the right of the root, and then the
    iterates decrease to it.
    """
    t = min(z / scale, mpmath.mpf(0)) if not v else min(z / scale, z * scale / v)
    for _ in range(300):
        F = mpmath.npdf(t) / _normal(t)
        step = (scale * t + c * F / scale - z) / (scale - c * F * (t + F) / scale)
        t -= step
        if abs(step) < FIELD_ERROR * max(1, abs(t)):
            return t
    return None


def psi(alpha: Any, c: Any, noise: Any) -> Any:
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
