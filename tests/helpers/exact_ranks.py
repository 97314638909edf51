"""Truth about OrdinalSVC: all pairs of samples of different rank, one by one.

With queries only samples of the same query are compared. Published models: `coef_` for the linear
kernel, otherwise `dual_coef_` on `support_`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tests.helpers.exact_numbers import ExactKernel, dot, matrix, product, rational, vector
from tests.helpers.exact_quadratic import Merged
from tests.helpers.exact_verdict import Truth, largest

ZERO, ONE = Fraction(0), Fraction(1)
SCALES = (ONE, Fraction(1, 2), Fraction(99, 100), Fraction(101, 100))
WIDTHS = [Fraction(1, 10**k) for k in (0, 1, 2, 4, 6, 9)]


class _Ranking:
    """Exact pairs of the distinct samples, with the costs of their slacks."""

    def __init__(self, model: Any, X: Any, y: Any, weight: Any, qid: Any) -> None:
        query = np.zeros(len(y), dtype=int) if qid is None else np.asarray(qid)
        of_query = (int(y.max()) + 1) * query + y
        self.few = Merged.of(X, of_query, weight, apart=model.kernel == "precomputed")
        rows, own = self.few.rows, self.few.weight
        self.pairs = [
            (i, j, own[i] * own[j])
            for i, a in enumerate(rows)
            for j, b in enumerate(rows)
            if y[a] > y[b] and query[a] == query[b]
        ]
        self.C = rational(model.C)
        if model.C_scale == "total":
            self.C /= sum((s for *_, s in self.pairs), ZERO)
        self.squared = model.loss == "squared_hinge"
        self.nothing = self.loss([ZERO] * len(rows))

    def loss(self, f: list[Fraction]) -> Fraction:
        z = [max(ZERO, 1 - f[i] + f[j]) for i, j, _ in self.pairs]
        return self.C * dot([s for *_, s in self.pairs], [v * v for v in z] if self.squared else z)

    def variables(
        self, f: list[Fraction], mu: Fraction
    ) -> tuple[list[Fraction], Fraction, Fraction]:
        """Return beta, the sum and the quadratic term of the variables that utilities imply."""
        beta, linear, ridges = [ZERO] * len(f), ZERO, ZERO
        for i, j, s in self.pairs:
            z = max(ZERO, 1 - f[i] + f[j])
            a = 2 * self.C * s * z if self.squared else self.C * s * min(z / mu, ONE)
            beta[i], beta[j], linear = beta[i] + a, beta[j] - a, linear + a
            ridges += a * a / (2 * self.C * s) if self.squared else ZERO
        return beta, linear, ridges


def ranks(
    model: Any, references: list[Any], X: Any, y: Any, weight: Any, qid: Any = None
) -> list[Truth]:
    """Return the truth about OrdinalSVC with norm 2."""
    problem, kernel = _Ranking(model, X, y, weight, qid), ExactKernel.of(model)
    rows, place = problem.few.rows, problem.few.place
    K = kernel.matrix(X[np.ix_(rows, rows)] if kernel.name == "precomputed" else X[rows])

    def bound(f: list[Fraction], mu: Fraction) -> Fraction:
        beta, linear, ridges = problem.variables(f, mu)
        square = dot(beta, product(K, beta)) + ridges
        scale = linear / square if square else ONE
        scale = scale if problem.squared else min(ONE, scale)
        return scale * linear - scale * scale * square / 2

    upper, lower = [], []
    for other in [model, *references]:
        if model.kernel == "linear":
            w = vector(other.coef_)
            f, norm2 = product(matrix(X[rows]), w), dot(w, w)
        else:
            beta = [ZERO] * len(rows)
            for i, value in zip(other.support_, other.dual_coef_[0], strict=True):
                beta[place[int(i)]] += rational(value)
            f = product(K, beta)
            norm2 = dot(beta, f)
        upper += [s * s * norm2 / 2 + problem.loss([s * v for v in f]) for s in SCALES]
        lower += [bound(f, mu) for mu in ([ONE] if problem.squared else WIDTHS)]
    nothing = problem.nothing
    return [Truth(upper[0], min([nothing, *upper]), largest(lower), nothing, kernel.noise)]


def sparse_ranks(
    model: Any, references: list[Any], X: Any, y: Any, weight: Any, qid: Any = None
) -> list[Truth]:
    """Return the truth about OrdinalSVC with norm 1."""
    problem = _Ranking(model, X, y, weight, qid)
    samples = matrix(X[problem.few.rows])
    upper, lower = [], []
    for other in [model, *references]:
        w = vector(other.coef_)
        f, norm = product(samples, w), sum(map(abs, w), ZERO)
        upper += [s * norm + problem.loss([s * v for v in f]) for s in SCALES]
        for mu in WIDTHS:
            beta, linear, _ = problem.variables(f, mu)
            pulls = [abs(dot(beta, list(column))) for column in zip(*samples, strict=True)]
            lower.append(linear / max([ONE, *pulls]))
    nothing = problem.nothing
    return [Truth(upper[0], min([nothing, *upper]), largest(lower), nothing)]
