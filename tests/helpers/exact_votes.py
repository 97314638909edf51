"""Truth about LPBoost: votes of decision stumps, over all dichotomies of the samples by stumps.

Published models: `alphas_`, `estimators_` (feature, threshold, sign) and `rho_`. All stumps are
listed by this module; the linear program over them is solved by HiGHS, and its two points are made
feasible in rational numbers, so that their objectives enclose the optimum exactly.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from tests.helpers.exact_numbers import rational, vector
from tests.helpers.exact_quadratic import Merged
from tests.helpers.exact_verdict import Truth, largest, least

ZERO, ONE = Fraction(0), Fraction(1)


def dichotomies(X: Any) -> Any:
    """Return the values -1 and +1 of all stumps on the samples, one row per distinct stump."""
    X = np.asarray(X, dtype=np.float64)
    found = [np.ones(len(X))]
    for column in X.T:
        found += [np.where(column > cut, 1.0, -1.0) for cut in np.unique(column)[:-1]]
    one_sided = np.unique(np.array(found), axis=0)
    return np.unique(np.vstack([one_sided, -one_sided]), axis=0)


def votes(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about LPBoostClassifier, one per binary problem."""
    codes = np.searchsorted(model.classes_, y)
    few = Merged.of(X, codes, weight, apart=False)
    rows, classes = few.rows, model.classes_
    X = np.asarray(X, dtype=np.float64)[rows]
    stumps = dichotomies(X)
    positives = [1] if len(classes) == 2 else range(len(classes))
    found = []
    for k, positive in enumerate(positives):
        label = [1 if codes[i] == positive else -1 for i in rows]
        machine = _Vote(rational(model.nu), few.weight, label)
        margins = [
            machine.margins(*_published(m, k, len(classes)), X) for m in [model, *references]
        ]
        rho = rational(np.atleast_1d(model.rho_)[k])
        found.append(machine.truth(margins, rho, stumps))
    return found


def _published(model: Any, k: int, n_classes: int) -> tuple[Any, Any]:
    if n_classes == 2:
        return model.alphas_, model.estimators_
    return model.alphas_[k], model.estimators_[k]


class _Vote:
    """One binary program: exact costs, objectives, bounds."""

    def __init__(self, nu: Fraction, weight: list[Fraction], label: list[int]) -> None:
        total = sum(weight, ZERO)
        self.cost = [w / (nu * total) for w in weight]
        self.label = label

    def margins(self, alphas: Any, stumps: Any, X: Any) -> list[Fraction]:
        """Return y f of the published vote divided by the exact sum of its coefficients."""
        alpha = vector(alphas)
        assert min(alpha) >= 0
        f = [ZERO] * len(X)
        for a, stump in zip(alpha, stumps, strict=True):
            for i, x in enumerate(X):
                f[i] += a if (x[stump.feature] > stump.threshold) == (stump.sign > 0) else -a
        total = sum(alpha, ZERO)
        return [c * v / total for c, v in zip(self.label, f, strict=True)]

    def objective(self, margins: list[Fraction], rho: Fraction) -> Fraction:
        """Return -rho plus the cost of the slacks."""
        slacks = (max(ZERO, rho - m) for m in margins)
        return sum((c * s for c, s in zip(self.cost, slacks, strict=True)), ZERO) - rho

    def best(self, margins: list[Fraction]) -> Fraction:
        """Return the objective at the best rho, one of the margins."""
        return min(self.objective(margins, rho) for rho in set(margins))

    def bound(self, u: list[Fraction], stumps: Any) -> Fraction | None:
        """Return minus the largest edge of a distribution that is made feasible, if it can be."""
        u = [min(max(v, ZERO), c) for v, c in zip(u, self.cost, strict=True)]
        total, room = sum(u, ZERO), sum(self.cost, ZERO) - sum(u, ZERO)
        if total > 1:
            u = [v / total for v in u]
        elif total < 1:
            if room < 1 - total:
                return None
            part = (1 - total) / room if room else ZERO
            u = [v + part * (c - v) for v, c in zip(u, self.cost, strict=True)]
        signed = [c * v for c, v in zip(self.label, u, strict=True)]
        return -max(
            sum((v if h > 0 else -v for v, h in zip(signed, g, strict=True)), ZERO) for g in stumps
        )

    def truth(self, published: list[Any], rho: Fraction, stumps: Any) -> Truth:
        """Return the exact objectives: published, best known, bound, constants."""
        signs = stumps * np.array(self.label, dtype=np.float64)
        n, T = len(self.label), len(stumps)
        cost = np.array([float(min(c, Fraction(10))) for c in self.cost])
        # Variables: alpha (T), rho, xi (n).
        objective = np.concatenate([np.zeros(T), [-1.0], cost])
        program = linprog(
            objective,
            A_ub=np.hstack([-signs.T, np.ones((n, 1)), -np.eye(n)]),
            b_ub=np.zeros(n),
            A_eq=np.concatenate([np.ones(T), np.zeros(1 + n)])[None],
            b_eq=[1.0],
            bounds=[(0, None)] * T + [(-1, 1)] + [(0, None)] * n,
        )
        uppers = [self.best(m) for m in published]
        lowers = [self.bound([c / sum(self.cost, ZERO) for c in self.cost], stumps)]
        if program.x is not None:
            alpha = [max(ZERO, a) for a in vector(program.x[:T])]
            used = [t for t in range(T) if alpha[t]]
            total = sum(alpha, ZERO)
            own = [sum((alpha[t] * int(signs[t, i]) for t in used), ZERO) / total for i in range(n)]
            uppers.append(self.best(own))
            lowers.append(self.bound(vector(-program.ineqlin.marginals), stumps))
        constants = [self.best([Fraction(s * c) for c in self.label]) for s in (-1, 0, 1)]
        return Truth(
            self.objective(published[0], rho),
            least([*uppers, *constants]),
            largest(lowers),
            min(constants),
        )
