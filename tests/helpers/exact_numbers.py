"""Exact numbers of the judge of certificates, and exact kernels of stored floats.

All numbers are rationals. Values of functions that are not rational (exponentials, logarithms,
roots) are computed with `DIGITS` digits and rounded to multiples of `UNIT`, which is far below
anything that a float64 certificate can state; `NOISE` is granted for it in comparisons.

Nothing here or in the other exact_* modules imports the library's certificates: what a model
publishes is evaluated again, by other code and in other arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

DIGITS = 140
UNIT = Fraction(1, 2**420)
NOISE = Fraction(1, 10**60)


@contextmanager
def many_digits() -> Iterator[None]:
    """Compute with `DIGITS` digits in mpmath."""
    with mpmath.workdps(DIGITS):
        yield


def rational(value: Any) -> Fraction:
    """Return a float as the rational number that it is."""
    return Fraction(float(value))


def big(value: Fraction) -> Any:
    """Return a rational number as a number of mpmath."""
    return mpmath.mpf(value.numerator) / mpmath.mpf(value.denominator)


def rounded(value: Any) -> Fraction:
    """Return a number of mpmath as a multiple of `UNIT`."""
    return int(mpmath.nint(value * UNIT.denominator)) * UNIT


def root(value: Fraction, power: Fraction = Fraction(1, 2)) -> Fraction:
    """Return a power of a number that is not negative."""
    with many_digits():
        return rounded(mpmath.power(big(value), big(power))) if value > 0 else Fraction(0)


def vector(values: Any) -> list[Fraction]:
    """Return an array of floats as rationals."""
    return [rational(value) for value in np.asarray(values, dtype=np.float64).ravel()]


def matrix(values: Any) -> list[list[Fraction]]:
    """Return a two-dimensional array of floats as rationals."""
    return [vector(row) for row in np.asarray(values, dtype=np.float64)]


def dot(a: list[Fraction], b: list[Fraction]) -> Fraction:
    """Return the sum of products."""
    return sum((x * y for x, y in zip(a, b, strict=True) if x and y), Fraction(0))


def product(K: list[list[Fraction]], v: list[Fraction]) -> list[Fraction]:
    """Return K v."""
    return [dot(row, v) for row in K]


@dataclass(frozen=True)
class ExactKernel:
    """Kernel of a fitted estimator as a function of the stored floats.

    Attributes
    ----------
    name : str or callable
        Name as in the estimators; the floats that a callable returns are exact.
    gamma, coef0 : Fraction
        Parameters as stored.
    degree : int
        Degree of "poly".
    """

    name: Any
    gamma: Fraction = Fraction(1)
    coef0: Fraction = Fraction(0)
    degree: int = 1

    @classmethod
    def of(cls, model: Any) -> ExactKernel:
        """Return the kernel of a fitted model, from its public attributes."""
        name = getattr(model, "kernel", "linear")
        if name in ("rbf", "poly", "sigmoid"):
            gamma, coef0 = rational(model.gamma_), rational(model.coef0)
            return cls(name, gamma, coef0, int(model.degree))
        return cls(name)

    @property
    def noise(self) -> Fraction:
        """What is granted in comparisons: nothing if kernel values are rational numbers."""
        return NOISE if self.name in ("rbf", "sigmoid") else Fraction(0)

    def matrix(self, X: Any) -> list[list[Fraction]]:
        """Return the kernel matrix of samples (or the given one)."""
        if self.name == "precomputed":
            return matrix(X)
        if callable(self.name):
            return matrix(self.name(X, X))
        rows, n = matrix(X), len(X)
        upper = [[self._value(a, b) for b in rows[i:]] for i, a in enumerate(rows)]
        return [[upper[min(i, j)][abs(j - i)] for j in range(n)] for i in range(n)]

    def _value(self, a: list[Fraction], b: list[Fraction]) -> Fraction:
        if self.name == "linear":
            return dot(a, b)
        if self.name == "poly":
            return (self.gamma * dot(a, b) + self.coef0) ** self.degree
        if self.name == "sigmoid":
            with many_digits():
                return rounded(mpmath.tanh(big(self.gamma * dot(a, b) + self.coef0)))
        away = sum(((x - z) ** 2 for x, z in zip(a, b, strict=True)), Fraction(0))
        with many_digits():
            return rounded(mpmath.exp(-big(self.gamma * away))) if away else Fraction(1)
