"""Exact objectives of the quadratic problems with boxes: hinges, nu, one class, tubes, hulls.

With one or two variables alpha_v per sample, a target t_v, a box [l_v, u_v], a ridge r_v and a
group g with threshold b_g and total d_g, the primal objective of a function f of norm |w| is

    |w|^2 / 2 + sum_v max_{l <= a <= u} (a (t_v - f_v - b_g) - r_v a^2 / 2) + sum_g b_g d_g,

and the dual objective of feasible alpha t'alpha - beta'K beta / 2 - sum_v r_v alpha_v^2 / 2. All
numbers are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.helpers.exact_numbers import dot, product

ZERO = Fraction(0)
INFINITE = float("inf")


@dataclass
class Variable:
    """One dual variable; `upper` or `lower` None is unbounded."""

    row: int
    target: Fraction
    lower: Fraction | None
    upper: Fraction | None
    ridge: Fraction = ZERO
    group: int = 0

    def clip(self, value: Any) -> Any:
        """Return the nearest value in the box."""
        if self.lower is not None and value < self.lower:
            return self.lower
        return self.upper if self.upper is not None and value > self.upper else value

    def loss(self, s: Any) -> Any:
        """Return the largest a s - ridge a^2 / 2 over the box."""
        if not self.ridge:
            end = self.upper if s > 0 else self.lower
            return s * end if end is not None else INFINITE if s else ZERO
        a = self.clip(s / self.ridge)
        return a * s - self.ridge * a * a / 2

    def room(self, value: Any, wanted: Any) -> Any:
        """Return how far a variable can move towards a change, with its sign."""
        end = self.upper if wanted > 0 else self.lower
        return wanted if end is None else min(max(end - value, -abs(wanted)), abs(wanted))


@dataclass
class SoftProblem:
    """Variables and group totals; no groups is a problem without intercept.

    Attributes
    ----------
    variables : list of Variable
        All variables.
    totals : list of Fraction
        d_g.
    K : list of list
        Exact kernel matrix.
    """

    variables: list[Variable]
    totals: list[Fraction]
    K: list[list[Any]]
    mates: list[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Find the pairs of variables at one place whose common move leaves f as it is."""
        up = [k for k, v in enumerate(self.variables) if v.upper != 0]
        down = [k for k, v in enumerate(self.variables) if v.upper == 0]
        rows = [self.variables[k].row for k in range(len(self.variables))]
        same = {(i, j): self.K[i] == self.K[j] for i in set(rows) for j in set(rows)}
        self.mates = [(i, j) for i in up for j in down if same[rows[i], rows[j]]]

    def primal(self, f: list[Any], norm2: Any, thresholds: list[Any]) -> Any:
        """Return the primal objective; None is infinite."""
        found = norm2 / 2
        for v in self.variables:
            shift = thresholds[v.group] if self.totals else 0
            found += v.loss(v.target - f[v.row] - shift)
        return None if found == INFINITE else found + dot(thresholds, self.totals)

    def best_thresholds(self, f: list[Any]) -> list[Any]:
        """Return thresholds that minimise the primal objective at f."""
        found = []
        for g, total in enumerate(self.totals):
            members = [v for v in self.variables if v.group == g]
            kinks = sorted(v.target - f[v.row] for v in members)
            trials = kinks + self._between(members, f, kinks, total)
            costs = [
                sum((v.loss(v.target - f[v.row] - x) for v in members), ZERO) + total * x
                for x in trials
            ]
            found.append(trials[costs.index(min(costs))])
        return found

    def _between(self, members: list[Variable], f: list[Any], kinks: list[Any], d: Any) -> list:
        """Return the stationary thresholds between kinks, for squared losses."""
        if not any(v.ridge for v in members):
            return []
        found = []
        for left, right in zip([kinks[0] - 1, *kinks], [*kinks, kinks[-1] + 1], strict=True):
            middle = (left + right) / 2
            active = [v for v in members if v.clip(v.target - f[v.row] - middle) != 0]
            slope = sum((1 / v.ridge for v in active), ZERO)
            if slope:
                height = sum(((v.target - f[v.row]) / v.ridge for v in active), ZERO)
                found.append((height - d) / slope)
        return found

    def dual(self, alpha: list[Any]) -> Any:
        """Return the dual objective at the best multiple of feasible variables."""
        beta: list[Any] = [ZERO] * len(self.K)
        for v, a in zip(self.variables, alpha, strict=True):
            beta[v.row] += a
        linear = sum((v.target * a for v, a in zip(self.variables, alpha, strict=True)), ZERO)
        ridges = sum((v.ridge * a * a for v, a in zip(self.variables, alpha, strict=True)), ZERO)
        square = dot(beta, product(self.K, beta)) + ridges
        if any(self.totals) or square <= 0:
            return linear - square / 2
        scale = linear / square
        boxed = any(v.upper is not None and v.lower is not None for v in self.variables)
        scale = max(ZERO, min(scale, 1) if boxed else scale)
        return scale * linear - scale * scale * square / 2

    def lower_bound(self, beta: list[Any], f: list[Any]) -> Any:
        """Return the dual objective of feasible variables near expansion coefficients beta."""
        return self.dual(self._feasible(self._split(beta), f))

    def at_slacks(self, f: list[Any], thresholds: list[Any]) -> Any:
        """Return the dual objective near the variables that a squared loss implies."""
        alpha = []
        for v in self.variables:
            s = v.target - f[v.row] - (thresholds[v.group] if self.totals else 0)
            alpha.append(v.clip(s / v.ridge))
        return self.dual(self._feasible(alpha, f))

    def _split(self, beta: list[Any]) -> list[Any]:
        """Return variables within their boxes with the sums beta where possible."""
        left, alpha = list(beta), []
        for v in self.variables:
            a = v.clip(left[v.row])
            left[v.row] -= a
            alpha.append(a)
        return alpha

    def _lacks(self, alpha: list[Any]) -> list[Any]:
        found = list(self.totals)
        for v, a in zip(self.variables, alpha, strict=True):
            if found:
                found[v.group] -= a
        return found

    def _feasible(self, alpha: list[Any], f: list[Any]) -> list[Any]:
        """Move what is missing from the totals onto variables near the threshold."""
        for i, j in self.mates:
            self._move_mates(alpha, i, j)
        best = self.best_thresholds(f)
        for g, lack in enumerate(self._lacks(alpha)):
            order = [k for k, v in enumerate(self.variables) if v.group == g]
            order.sort(key=lambda k, b=best[g]: abs(self._score(k, alpha, f) - b))
            for k in order:
                if lack == 0:
                    break
                step = self.variables[k].room(alpha[k], lack)
                alpha[k] += step
                lack -= step
            if lack != 0:
                raise ArithmeticError("no feasible variables")
        return alpha

    def _score(self, k: int, alpha: list[Any], f: list[Any]) -> Any:
        v = self.variables[k]
        return v.target - f[v.row] - v.ridge * alpha[k]

    def _move_mates(self, alpha: list[Any], i: int, j: int) -> None:
        """Raise variable i and lower j by the best amount; f does not change."""
        a, b = self.variables[i], self.variables[j]
        gain = a.target - b.target - a.ridge * alpha[i] + b.ridge * alpha[j]
        if self.totals and a.group != b.group:
            lacks = self._lacks(alpha)
            wanted = min(lacks[a.group], -lacks[b.group])
        elif gain > 0:
            ridge = a.ridge + b.ridge
            if not ridge and a.upper is None:
                return  # labels that contradict each other: there is no hard margin
            wanted = gain / ridge if ridge else a.upper - alpha[i]
        else:
            return
        if wanted > 0:
            step = min(a.room(alpha[i], wanted), -b.room(alpha[j], -wanted))
            alpha[i] += step
            alpha[j] -= step


def classification(
    y: list[int], cost: list[Any], K: list[list[Any]], *, squared: bool, intercept: bool
) -> SoftProblem:
    """Return the C problem with labels -1 and +1; costs of None are infinite."""
    variables = []
    for i, (label, c) in enumerate(zip(y, cost, strict=True)):
        cap = None if squared or c is None else c * label
        ends = (ZERO, cap) if label > 0 else (cap, ZERO)
        ridge = 1 / (2 * c) if squared and c is not None else ZERO
        variables.append(Variable(i, Fraction(label), *ends, ridge))
    return SoftProblem(variables, [ZERO] if intercept else [], K)


def two_groups(y: list[int], cap: list[Any], K: list[list[Any]], total: Any) -> SoftProblem:
    """Return a problem with a threshold per class and zero targets: nu machines and hulls."""
    variables = []
    for i, (label, c) in enumerate(zip(y, cap, strict=True)):
        ends = (ZERO, c) if label > 0 else (-c, ZERO)
        variables.append(Variable(i, ZERO, *ends, group=0 if label > 0 else 1))
    return SoftProblem(variables, [total, -total], K)


def tube(
    t: list[Any], cost: list[Any], K: list[list[Any]], epsilon: Any, *, squared: bool = False,
    intercept: bool = True, nu: Any = None,
) -> SoftProblem:  # fmt: skip
    """Return the epsilon-tube, or the nu-tube if nu is given; costs of None are infinite."""
    above, below = [], []
    for i, (target, c) in enumerate(zip(t, cost, strict=True)):
        cap, ridge = (None, 1 / (2 * c)) if squared else (c, ZERO)
        above.append(Variable(i, target - epsilon, ZERO, cap, ridge))
        group = 0 if nu is None else 1
        below.append(
            Variable(i, target + epsilon, None if cap is None else -cap, ZERO, ridge, group=group)
        )
    half = ZERO if nu is None else nu * sum(cost, ZERO) / 2
    totals = [half, -half] if nu is not None else [ZERO] * intercept
    return SoftProblem(above + below, totals, K)
