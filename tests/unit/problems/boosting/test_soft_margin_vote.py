"""SoftMarginVote: rounding to exact sums, feasibility, the choice of rho."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from widemargin.problems.boosting.soft_margin import UNIT, SoftMarginVote, rounded_vote


def drawn(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 300))
    weight = 10.0 ** rng.uniform(-3, 3, n) if seed % 2 else np.ones(n)
    nu = float(rng.choice([1e-9, 0.01, 0.3, 0.999, 1.0]))
    return SoftMarginVote(np.arange(n) % 2 == 0, weight, nu), rng


@pytest.mark.parametrize("seed", range(20))
def test_rounded_distributions_are_feasible_in_exact_arithmetic(seed) -> None:
    problem, rng = drawn(seed)
    u = problem.rounded_distribution(problem.feasible(rng.random(len(problem.weight)) ** 8))
    exact = [Fraction(v) for v in u]
    total = sum(Fraction(w) for w in problem.weight)
    assert all((v / Fraction(UNIT)).denominator == 1 for v in exact)
    caps = [Fraction(w) / total / Fraction(problem.nu) for w in problem.weight]
    assert all(0 <= v <= cap for v, cap in zip(exact, caps, strict=True))
    assert sum(exact) <= 1
    if problem.nu < 0.9:
        assert sum(exact) == 1
    assert float(1 - sum(exact)) <= 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_rounded_votes_have_exact_sums(seed) -> None:
    rng = np.random.default_rng(seed)
    alpha = rounded_vote(rng.random(200) ** 20)
    assert sum(map(Fraction, alpha.tolist())) == 1
    signs = rng.choice([-1.0, 1.0], (50, 200))
    exact = [sum(int(s) * Fraction(a) for s, a in zip(row, alpha, strict=True)) for row in signs]
    assert [Fraction(v) for v in (signs @ alpha).tolist()] == exact


@pytest.mark.parametrize("seed", range(10))
def test_rho_is_the_best_one(seed) -> None:
    problem, rng = drawn(seed)
    margins = rng.uniform(-1.0, 1.0, len(problem.weight)).round(1)
    cost = problem.share / problem.nu

    def at(rho):
        return cost @ np.maximum(rho - margins, 0.0) - rho

    best = min(map(at, margins))
    assert at(problem.demand(margins)) == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert problem.objective(margins) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_a_useless_distribution_becomes_nothing() -> None:
    problem, _ = drawn(1)
    assert not problem.rounded_distribution(np.full(len(problem.weight), np.nan)).any()
