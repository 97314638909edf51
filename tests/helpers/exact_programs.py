"""Truth about the machines that are no box-constrained quadratic program with a threshold.

Programs over expansions, l1 and Crammer-Singer planes and margins in l_p. Published
models: `dual_coef_` on `support_` (NuLPSVC: divided by its exact sum, with the best rho), `coef_`
and `intercept_`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from tests.helpers.exact_numbers import (
    NOISE,
    ExactKernel,
    dot,
    matrix,
    product,
    rational,
    root,
    vector,
)
from tests.helpers.exact_quadratic import Merged, plane_costs, sides_of
from tests.helpers.exact_verdict import Truth, largest, least

ZERO, ONE = Fraction(0), Fraction(1)
HUGE, NOTHING = Fraction(10**300), Fraction(1, 10**250)
"""What floats can hold, and kernel values below which a sample has no coefficient (documented)."""
LIMIT = Fraction(10**8)
"""Largest alpha k(x, x), for coefficients that are limited."""
LIMITED = "limited coefficients"
"""End of the name of a problem whose bound holds for limited coefficients only."""
SCALES = (ONE, Fraction(1, 2), Fraction(99, 100), Fraction(101, 100))

# ---------------------------------------------------------------- linear programs


def programs(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about LPSVC, NuLPSVC, LOOSVC or AdaptiveMarginSVC."""
    codes = np.searchsorted(model.classes_, y)
    few = Merged.of(X, codes, weight, apart=model.kernel == "precomputed")
    kernel = ExactKernel.of(model)
    rows = few.rows
    K = kernel.matrix(X[np.ix_(rows, rows)] if kernel.name == "precomputed" else X[rows])
    classes = model.classes_
    label = [int(codes[i]) for i in rows]
    factors = class_factors(model, label, few.weight)
    w = [v * factors[code] for v, code in zip(few.weight, label, strict=True)]
    positives = [1] if len(classes) == 2 else range(len(classes))
    found = []
    for k, positive in enumerate(positives):
        label = [1 if codes[i] == positive else -1 for i in rows]
        program = _Program(model, K, label, w)
        alphas = [_alpha(other, few, label, k) for other in [model, *references]]
        limited = model.certificates_[k].problem.endswith(LIMITED)
        found.append(program.truth(alphas, limited, kernel.noise))
    return found


def class_factors(model: Any, label: list[int], weight: list[Fraction]) -> list[Fraction]:
    """Return the factor of the weights of each class, given its code of each sample."""
    given = getattr(model, "class_weight", None) or {}
    if given != "balanced":
        return [rational(given.get(c, 1.0)) for c in model.classes_.tolist()]
    sides = [
        sum((w for w, code in zip(weight, label, strict=True) if code == k), ZERO)
        for k in range(len(model.classes_))
    ]
    return [sum(weight, ZERO) / (len(sides) * side) for side in sides]


def _alpha(model: Any, few: Merged, label: list[int], k: int) -> list[Fraction]:
    alpha = [ZERO] * len(label)
    for i, value in zip(model.support_, model.dual_coef_[k], strict=True):
        at = few.place[int(i)]
        alpha[at] += label[at] * rational(value)
    return alpha


class _Program:
    """One binary linear program with the signed matrix G and the prices of its machine."""

    def __init__(self, model: Any, K: Any, label: list[int], weight: list[Fraction]) -> None:
        n, name = len(label), type(model).__name__
        lam = {"LOOSVC": ONE, "AdaptiveMarginSVC": rational(getattr(model, "lam", 0.0))}
        shift = [lam.get(name, ZERO) * K[i][i] / weight[i] for i in range(n)]
        self.G = [[label[i] * label[j] * K[i][j] for j in range(n)] for i in range(n)]
        for i in range(n):
            self.G[i][i] -= shift[i]
        self.price = rational(model.lam) if name == "LPSVC" else ZERO
        self.squared = getattr(model, "loss", "hinge") == "squared_hinge"
        self.weight, self.nu = weight, None
        if name == "NuLPSVC":
            total = sum(weight, ZERO)
            self.weight = [w / total for w in weight]
            self.nu = max(rational(model.nu), min(self.weight))
        top = max(K[i][i] for i in range(n))
        sizes = [root(max(K[i][i], ZERO) * max(top, ZERO)) for i in range(n)]
        sizes = [max(abs(v) for v in [*K[i], sizes[i]]) for i in range(n)]
        self.limit = [LIMIT / size if size > NOTHING else ZERO for size in sizes]

    def primal(self, alpha: list[Fraction]) -> Fraction:
        """Return the objective of coefficients; for the nu program, of their direction."""
        if self.nu is None:
            margins = product(self.G, alpha)
            slack = [max(ZERO, 1 - m) for m in margins]
            slack = [xi * xi for xi in slack] if self.squared else slack
            return dot(self.weight, slack) + self.price * sum(alpha, ZERO)
        total = sum(alpha, ZERO)
        alpha = [a / total for a in alpha] if total else [Fraction(1, len(alpha))] * len(alpha)
        margins = product(self.G, alpha)
        costs = []
        for rho in margins:
            slack = [max(ZERO, rho - m) for m in margins]
            costs.append(dot(self.weight, slack) - self.nu * rho)
        return min(costs)

    def dual(self, z: list[Fraction]) -> Fraction:
        """Return the lower bound that variables within their boxes prove."""
        image = product(self.G, z)
        if self.nu is not None:
            return -max(image)
        excess = [max(ZERO, g - self.price) for g in image]
        if self.squared:
            gain = (
                sum(z, ZERO)
                - sum((v * v / w for v, w in zip(z, self.weight, strict=True)), ZERO) / 4
            )
            return gain - dot(self.limit, excess)
        bound = sum(z, ZERO) - dot(self.limit, excess)
        shrink = self.price / max([self.price, *image]) if self.price else ZERO
        return max(bound, shrink * sum(z, ZERO))

    def truth(self, alphas: list[list[Fraction]], limited: bool, noise: Fraction) -> Truth:
        """Return exact objectives of the first coefficients and of all others.

        Unless the stated problem limits the coefficients, those beyond the limits count as well.
        """
        primal = self.primal(alphas[0])
        reference = self._by_clarabel if self.squared else self._by_highs
        capped, z = reference(True)
        free, _ = ([], []) if self.nu is not None else reference(False)
        upper = [primal]
        for alpha in [*alphas, *capped, *free]:
            for scale in SCALES:
                trial = [max(ZERO, scale * a) for a in alpha]
                if limited:
                    trial = [min(a, u) for a, u in zip(trial, self.limit, strict=True)]
                upper.append(self.primal(trial if self.nu is None else alpha))
        constant = None
        if self.nu is None:
            constant = self.primal([ZERO] * len(self.weight))
            upper.append(constant)
        return Truth(primal, least(upper), largest([self.dual(v) for v in z]), constant, noise)

    def _by_highs(self, capped: bool) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
        """Return coefficients and dual variables that HiGHS finds in float64, made feasible."""
        n = len(self.weight)
        G = np.array([[float(v) for v in row] for row in self.G])
        w = np.array([float(v) for v in self.weight])
        scale = np.abs(G).max() or 1.0
        caps = [float(min(u * rational(scale), HUGE)) for u in self.limit]
        nu = self.nu is not None
        cost = np.concatenate([np.full(n, 0.0 if nu else float(self.price) / scale), w])
        A = np.hstack([-G / scale, -np.eye(n)])
        bounds = [(0, cap if capped and not nu else None) for cap in caps] + [(0, None)] * n
        options: dict[str, Any] = {"b_ub": -np.ones(n)}
        if nu:
            cost, bounds = np.append(cost, -float(self.nu)), [*bounds, (None, None)]
            A = np.hstack([A, np.ones((n, 1))])
            equal = np.concatenate([np.ones(n), np.zeros(n + 1)])[None, :]
            options = {"b_ub": np.zeros(n), "A_eq": equal, "b_eq": [1.0]}
        found = linprog(cost, A_ub=A, bounds=bounds, method="highs", **options)
        if found.x is None:
            return [], []
        unit = ONE if nu else rational(scale)
        alpha = [a / unit for a in vector(np.maximum(found.x[:n], 0.0))]
        z = vector(np.clip(-found.ineqlin.marginals, 0.0, w))
        z = [min(v, w) for v, w in zip(z, self.weight, strict=True)]
        if nu:
            z = self._with_sum(z)
        return [alpha], [z]

    def _by_clarabel(self, capped: bool) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
        """Return coefficients and dual variables that Clarabel finds for squared slack."""
        n = len(self.weight)
        G = np.array([[float(v) for v in row] for row in self.G])
        scale = np.abs(G).max() or 1.0
        P = sp.diags(np.append(np.zeros(n), [2 * float(v) for v in self.weight]), format="csc")
        A = -np.block([[G / scale, np.eye(n)], [np.eye(2 * n)]])
        side = np.append(-np.ones(n), np.zeros(2 * n))
        if capped:
            A = np.vstack([A, np.eye(n, 2 * n)])
            side = np.append(side, [float(min(u * rational(scale), HUGE)) for u in self.limit])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        cones = [clarabel.NonnegativeConeT(len(side))]
        problem = (P, np.zeros(2 * n), sp.csc_matrix(A), side, cones, settings)
        found = clarabel.DefaultSolver(*problem).solve()
        x, z = np.array(found.x)[:n], np.array(found.z)[:n]
        if not (np.isfinite(x).all() and np.isfinite(z).all()):
            return [], []
        alpha = [a / rational(scale) for a in vector(np.maximum(x, 0.0))]
        slack = [max(ZERO, 1 - m) for m in product(self.G, alpha)]
        of_slack = [2 * w * xi for w, xi in zip(self.weight, slack, strict=True)]
        return [alpha], [vector(np.maximum(z, 0.0)), of_slack]

    def _with_sum(self, z: list[Fraction]) -> list[Fraction]:
        """Return variables within their boxes whose sum is nu, near the given ones."""
        lack = self.nu - sum(z, ZERO)
        for i in sorted(range(len(z)), key=lambda k: -z[k] * (self.weight[k] - z[k])):
            step = min(lack, self.weight[i] - z[i]) if lack > 0 else max(lack, -z[i])
            z[i] += step
            lack -= step
        return z


# ---------------------------------------------------------------- planes


def _slacks(samples: Any, label: list[int], w: list[Fraction], b: Fraction) -> list[Fraction]:
    return [1 - y * (v + b) for y, v in zip(label, product(samples, w), strict=True)]


def _best_scaled(objective: Any, planes: list[Any], thresholds: Any) -> list[Any]:
    """Return the objectives of planes, of multiples of them and with other intercepts."""
    found = []
    for w, b in planes:
        for scale in SCALES:
            scaled = [scale * v for v in w]
            found += [objective(scaled, scale * b)]
            found += [objective(scaled, other) for other in thresholds(scaled)]
    return found


def _binary(model: Any, X: Any, y: Any, weight: Any) -> Any:
    """Yield index, pair, exact samples, labels and costs of each hyperplane."""
    codes = np.searchsorted(model.classes_, y)
    few = Merged.of(X, codes, weight, apart=False)
    for k, pair in enumerate(sides_of(model)):
        rows = [r for r, i in enumerate(few.rows) if pair[1] is None or codes[i] in pair]
        at = [few.rows[r] for r in rows]
        label = [1 if codes[i] == pair[0] else -1 for i in at]
        hard = np.isinf(model.C)
        cost = None if hard else plane_costs(model, pair, codes[at], [few.weight[r] for r in rows])
        yield k, matrix(X[at]), label, cost


def l1_planes(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about LinearSVC with the l1 penalty and a free intercept."""
    found = []
    for k, samples, label, cost in _binary(model, X, y, weight):
        sums = [sum((c for c, s in zip(cost, label, strict=True) if s == e), ZERO) for e in (1, -1)]

        def objective(w: Any, b: Any, samples: Any = samples, label: Any = label, cost: Any = cost):
            xi = [max(ZERO, v) for v in _slacks(samples, label, w, b)]
            return sum(map(abs, w), ZERO) + dot(cost, [v * v for v in xi])

        def bound(w: Any, b: Any, samples: Any = samples, label: Any = label, cost: Any = cost):
            xi = [max(ZERO, v) for v in _slacks(samples, label, w, b)]
            a = [2 * c * v for c, v in zip(cost, xi, strict=True)]
            sides = [
                sum((v for v, s in zip(a, label, strict=True) if s == e), ZERO) for e in (1, -1)
            ]
            if not all(sides):
                return ZERO
            a = [v * min(sides) / sides[0 if s > 0 else 1] for v, s in zip(a, label, strict=True)]
            pull = [
                abs(dot([s * v for s, v in zip(label, a, strict=True)], list(column)))
                for column in zip(*samples, strict=True)
            ]
            square = dot([1 / (2 * c) for c in cost], [v * v for v in a])
            scale = min(sum(a, ZERO) / square, 1 / max([*pull, Fraction(1, 10**300)]))
            return scale * sum(a, ZERO) - scale * scale * square / 2

        planes = [
            (vector(np.atleast_2d(m.coef_)[k]), rational(m.intercept_[k]))
            for m in [model, *references]
        ]
        zeros = [ZERO] * len(planes[0][0])
        best = (sums[0] - sums[1]) / (sums[0] + sums[1])
        constant = objective(zeros, best)
        upper = _best_scaled(objective, planes, lambda w: [])
        lower = largest([bound(*plane) for plane in planes])
        found.append(Truth(upper[0], min([constant, *upper]), lower, constant))
    return found


def norm_margins(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about MaxMarginClassifier, hard or soft, unless it is soft with p = 2."""
    p, hard, found = float(model.norm), bool(np.isinf(model.C)), []
    for k, samples, label, cost in _binary(model, X, y, weight):

        def objective(w: Any, b: Any, samples: Any = samples, label: Any = label, cost: Any = cost):
            xi = _slacks(samples, label, w, b)
            if hard:
                least_margin = 1 - max(xi)
                return length(w, p) / least_margin if least_margin > 0 else None
            return length(w, p) + dot(cost, [max(ZERO, v) for v in xi])

        def thresholds(w: Any, samples: Any = samples, label: Any = label):
            values = product(samples, w)
            if hard:
                low = min(v for v, s in zip(values, label, strict=True) if s > 0)
                high = max(v for v, s in zip(values, label, strict=True) if s < 0)
                return [-(low + high) / 2]
            return [s - v for v, s in zip(values, label, strict=True)]

        planes = [
            (vector(np.atleast_2d(m.coef_)[k]), rational(m.intercept_[k]))
            for m in [model, *references]
        ]
        upper = _best_scaled(objective, planes, thresholds)
        constant = None
        if not hard:
            zeros = [ZERO] * len(planes[0][0])
            constant = min(objective(zeros, ONE), objective(zeros, -ONE))
            upper.append(constant)
        noise = ZERO if p in (1.0, np.inf) else NOISE * max(ONE, abs(upper[0] or ONE))
        found.append(Truth(upper[0], least(upper), None, constant, noise))
    return found


def length(w: list[Fraction], p: float) -> Fraction:
    """Return the l_p norm."""
    size = [abs(v) for v in w]
    if p == 1 or np.isinf(p):
        return sum(size, ZERO) if p == 1 else max(size)
    top = max(size)
    if not top:
        return ZERO
    power = rational(p)
    terms = [(v / top) ** 2 if p == 2 else root(v / top, power) for v in size]
    return top * root(sum(terms, ZERO), 1 / power)


def crammer_singer(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    """Return the truth about LinearSVC with the loss of Crammer and Singer."""
    codes = np.searchsorted(model.classes_, y)
    few = Merged.of(X, codes, weight, apart=False)
    label = [int(codes[i]) for i in few.rows]
    samples = matrix(X[few.rows])
    factors = getattr(model, "class_weight", None) or {}
    cost = [
        rational(model.C) * w * rational(factors.get(model.classes_[c], 1.0))
        for w, c in zip(few.weight, label, strict=True)
    ]

    def objective(W: Any, b: Any) -> Fraction:
        total = sum((dot(w, w) for w in W), ZERO) / 2
        values = [product(samples, w) for w in W]
        for i, (c, own) in enumerate(zip(cost, label, strict=True)):
            g = [values[k][i] + b[k] + (k != own) for k in range(len(W))]
            total += c * (max(g) - g[own])
        return total

    d = X.shape[1]
    models = [(matrix(m.coef_), vector(m.intercept_)) for m in [model, *references]]
    upper = [objective(W, b) for W, b in models]
    for W, b in models:
        for scale in SCALES[1:]:
            upper.append(objective([[scale * v for v in w] for w in W], [scale * v for v in b]))
    n = len(models[0][0])
    constants = [
        objective([[ZERO] * d] * n, [Fraction(int(j == k)) for j in range(n)]) for k in range(n)
    ]
    constants.append(objective([[ZERO] * d] * n, [ZERO] * n))
    return [
        Truth(
            upper[0],
            min(upper + constants),
            None,
            min(constants) if model.fit_intercept else constants[-1],
        )
    ]
