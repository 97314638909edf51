"""Sums of a read enclose the exact ones, whatever the arithmetic, the order and the centre."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from widemargin._base.enclosure import Enclosure
from widemargin.problems.linear_reads import (
    FloatSums,
    Plane,
    ReadSums,
    added,
    best_constant,
    constant_loss,
    precise_sums,
)
from widemargin.problems.linear_scan import LinearProblem


def _data(seed: int, scale: float = 1.0, shift: float = 0.0):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((700, 3)) * [1.0, 1e-3, 1e3] + shift
    y = rng.choice([-1.0, 1.0], 700)
    return X, y, rng.choice([0.0, 0.1, 2.0], 700), rng.standard_normal(3) / scale


def _exact(X, y, weight, w, b, alpha, squared):
    """Return loss, charges, squares and pulls of both classes as rational numbers."""
    loss, zero = Fraction(0), Fraction(0)
    sums = [[zero, zero, [zero] * X.shape[1]] for _ in range(2)]
    w, b = [Fraction(v) for v in w], Fraction(b)
    for x, label, c, a in zip(X, y, weight, alpha, strict=True):
        x, label, c, a = [Fraction(v) for v in x], int(label), Fraction(c), Fraction(a)
        f = sum(p * q for p, q in zip(x, w, strict=True))
        loss += c * max(zero, 1 - label * (f + b)) ** (2 if squared else 1)
        mine = sums[0 if label > 0 else 1]
        mine[0] += a
        mine[1] += a * a / (4 * c) if c and squared else zero
        mine[2] = [p + label * a * q for p, q in zip(mine[2], x, strict=True)]
    return loss, sums


def _holds(found: Enclosure, exact) -> bool:
    """Check that every entry encloses its exact value."""
    arrays = (np.ravel(part) for part in (found.hi, found.lo, found.error))
    return all(
        abs(Fraction(hi) + Fraction(lo) - value) <= Fraction(error)
        for hi, lo, error, value in zip(*arrays, np.ravel(exact), strict=True)
    )


@pytest.mark.parametrize("precise", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1e8, 0.0), (1e-8, 0.0), (1.0, 1e6)])
def test_the_sums_enclose_the_exact_ones(precise, squared, scale, shift) -> None:
    X, y, weight, w = _data(1, scale, shift)
    plane = Plane(w, 1.0, -0.3)
    slack = np.maximum(plane.slack(X @ w, y), 0.0)
    alpha = weight * slack if squared else np.where(slack > 0, weight, 0.0)
    if precise:
        found = precise_sums(X, y, weight, plane, None if squared else alpha)
    else:
        sums = FloatSums(plane, squared=squared, centred=False)
        for part in (slice(0, 100), slice(100, None)):
            slacks = plane.slack(X[part] @ w, y[part])
            sums.add(X[part], y[part], weight[part], slacks, alpha[part])
        found = sums.result()
    loss, exact = _exact(X, y, weight, w, 0.3, alpha, squared)
    assert _holds(found.loss, loss)
    if not (precise and squared):
        assert _holds(found.dual.charge, [s[0] for s in exact])
        assert _holds(found.dual.pull, [s[2] for s in exact])
    if squared and not precise:
        # The variables are floats near weight * slack: one rounding, charged to the costs.
        wrong = [abs(Fraction(h) - s[1]) for h, s in zip(found.dual.square.hi, exact, strict=True)]
        assert all(e <= Fraction(1, 10**12) * s[1] for e, s in zip(wrong, exact, strict=True))
    if scale == 1.0 and not precise and not shift:
        assert found.loss.error < 1e-10 * found.loss.hi


def test_a_centre_changes_neither_losses_nor_balanced_sums() -> None:
    X, y, weight, w = _data(2, 1.0, 1e4)
    centre = X.mean(axis=0)
    problem = LinearProblem("hinge", 1.0)
    plane, thresholds = problem.published(w, np.array([0.2]), centre)
    Z = X - centre
    slack = plane.slack(Z @ plane.w, y)
    alpha = np.where(slack > 0, weight, 0.0)
    sums = FloatSums(plane, squared=False, centred=True)
    sums.add(Z, y, weight, slack, alpha)
    loss, exact = _exact(X, y, weight, w, thresholds[0], alpha, False)
    found = sums.result()
    assert _holds(found.loss, loss)
    (plus, _, of_plus), (minus, _, of_minus) = exact
    share = [min(plus, minus) / plus, min(plus, minus) / minus]
    balanced = [share[0] * p + share[1] * m for p, m in zip(of_plus, of_minus, strict=True)]
    gain, _, pull = found.dual.balanced(True)
    assert _holds(pull, balanced)
    assert _holds(gain, 2 * min(plus, minus))


def test_sums_of_parts_are_added_in_their_order_with_the_same_bits() -> None:
    X, y, weight, w = _data(3)
    plane = Plane(w, 1.0, 0.0)
    pieces = []
    for part in np.array_split(np.arange(700), 5):
        sums = FloatSums(plane, squared=True, centred=False)
        slack = plane.slack(X[part] @ w, y[part])
        sums.add(X[part], y[part], weight[part], slack, weight[part] * np.maximum(slack, 0.0))
        pieces.append(sums.result())
    first, again = (ReadSums.total(pieces, 3) for _ in range(2))
    assert (first.loss.hi, first.loss.lo) == (again.loss.hi, again.loss.lo)
    loss, _ = _exact(X, y, weight, w, 0.0, weight, True)
    assert _holds(first.loss, loss)
    assert _holds(first.weight, [sum(map(Fraction, weight[y == s])) for s in (1.0, -1.0)])
    assert ReadSums.total([], 3).dual.pull.hi.shape == (2, 3)
    assert _holds(added([Enclosure.exact(v) for v in (0.1, 0.2, 0.3)]),
                  sum(map(Fraction, (0.1, 0.2, 0.3))))  # fmt: skip


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("intercept", "constant"), [(True, None), (False, None), (False, 0.5)])
def test_no_constant_is_better_than_the_best_one(squared, intercept, constant) -> None:
    kind = "squared_hinge" if squared else "hinge"
    problem = LinearProblem(kind, 0.7, intercept, constant)
    weight = Enclosure.exact(np.array([3.0, 2.0]))
    w, t, found = problem.best_constant(weight, 2)

    def objective(b: float) -> float:
        loss = 0.7 * float(constant_loss(weight, b, squared=squared).hi)
        return loss + (0.5 * (b / constant) ** 2 if constant else 0.0)

    free = intercept or constant is not None
    least = min(objective(b) for b in (np.linspace(-1, 1, 2001) if free else [0.0]))
    assert found.primal == pytest.approx(least, rel=1e-5)
    assert found.primal >= objective(float(t[0]))
    assert w.any() == (constant is not None)
    assert best_constant(np.zeros(2), squared=squared, intercept=True, constant=None) == 0.0
