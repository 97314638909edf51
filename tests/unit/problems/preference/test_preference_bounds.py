"""Bounds of the ranking problem: each sum encloses that over the pairs, and proves no more."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from widemargin import OrdinalSVC
from widemargin._base.enclosure import Enclosure
from widemargin.estimators.ordinal import fit
from widemargin.kernels import Kernel, Rows
from widemargin.problems.preference import PreferenceModel, bounds, preference_problem
from widemargin.problems.preference.bounds import bracket, dual_terms, loss
from widemargin.problems.preference.pair_sums import DualPoint, Listed
from widemargin.solvers.base import Budget
from widemargin.solvers.preference import solve

LOSSES = ("hinge", "squared_hinge")


def some_problem(seed: int, loss_of_pairs: str, n: int = 30, C: float = 3.7):
    rng = np.random.default_rng(seed)
    codes, group = rng.integers(0, 4, n), rng.integers(0, 2, n)
    codes[:2], group[:2] = (0, 1), 0
    weight = rng.choice([0.1, 1.0, 3.0], n)
    return preference_problem(codes, C=C, loss=loss_of_pairs, group=group, weight=weight), rng


def pairs_of(problem):
    every = itertools.product(range(problem.n_rows), repeat=2)
    codes, group, s = problem.codes, problem.group, [Fraction(w) for w in problem.weight]
    return [(i, j, s[i] * s[j]) for i, j in every if codes[i] > codes[j] and group[i] == group[j]]


def exact_loss(problem, f) -> Fraction:
    total = Fraction(0)
    for i, j, cost in pairs_of(problem):
        z = max(Fraction(0), 1 - f[i] + f[j])
        total += cost * (z * z if problem.squared else z)
    return Fraction(problem.C) * total


def rational(values):
    return [Fraction(float(v)) for v in values]


def encloses(found: Enclosure, exact: Fraction) -> bool:
    return abs(Fraction(float(found.hi)) + Fraction(float(found.lo)) - exact) <= Fraction(
        float(found.error)
    )


@pytest.mark.parametrize("loss_of_pairs", LOSSES)
@pytest.mark.parametrize("spacing", [1.0, 0.1, 1e-9])
@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_above_that_of_all_utilities_within_their_errors(seed, spacing, loss_of_pairs):
    """Differences of 1 up to a multiple of the error: rounding decides which pairs lose."""
    problem, rng = some_problem(seed, loss_of_pairs)
    error = 1e-9
    f = np.round(rng.normal(size=30)) + spacing * rng.integers(-2, 3, 30)
    found = loss(problem, Enclosure.within(f + 1e4, error))
    corners = [np.where(problem.codes < k, error, -error) for k in range(5)]
    moved = [[a + Fraction(float(e)) for a, e in zip(rational(f), c, strict=True)] for c in corners]
    worst = max(exact_loss(problem, m) for m in moved)
    # The means are subtracted in double-double: the errors of f + 1e4 are those of its float64.
    f_exact = rational(f + 1e4)
    worst = max(
        worst if (f_exact[0] - 10000 == rational(f)[0]) else Fraction(0),
        *(
            exact_loss(problem, [a + Fraction(float(e)) for a, e in zip(f_exact, c, strict=True)])
            for c in corners
        ),
    )
    assert Fraction(found.upper()) >= worst
    assert found.upper() <= float(worst) * (1 + 1e-6)


def test_nothing_is_known_of_a_loss_without_utilities():
    problem, _ = some_problem(0, "hinge")
    for f in (Enclosure.within(np.zeros(30), np.inf), Enclosure.exact(np.full(30, np.nan))):
        assert loss(problem, f).upper() == np.inf


def exact_terms(problem, f, variable):
    """Return beta, the sum of the variables and sum alpha^2 / (4 C s s), pair by pair."""
    beta, gain, square = [Fraction(0)] * len(f), Fraction(0), Fraction(0)
    for i, j, cost in pairs_of(problem):
        cap = Fraction(problem.C) * cost
        a = variable(i, j, cap, 1 - f[i] + f[j])
        beta[i], beta[j], gain = beta[i] + a, beta[j] - a, gain + a
        square += a * a / (4 * cap) if problem.squared else 0
    return beta, gain, square


@pytest.mark.parametrize("kind", ["squared", "smoothed", "stepped"])
@pytest.mark.parametrize("seed", range(3))
def test_terms_enclose_the_sums_of_the_variables(seed, kind):
    problem, rng = some_problem(seed, "squared_hinge" if kind == "squared" else "hinge")
    f = np.round(rng.normal(size=30), 1)
    width = 0.0 if kind == "stepped" else 1e-3
    g = rational(problem.centred(f))

    def variable(_i, _j, cap, z):
        z = max(z, Fraction(0))
        if kind == "squared":
            return 2 * cap * z
        return cap * (min(z / Fraction(width), 1) if width else z > 0)

    terms = dual_terms(problem, DualPoint(f, width))
    beta, gain, square = exact_terms(problem, g, variable)
    assert all(encloses(terms.beta[k], value) for k, value in enumerate(beta))
    assert encloses(terms.gain, gain)
    assert encloses(terms.square, square)
    assert terms.beta.error.max() <= 1e-22 * float(gain)


def test_listed_pairs_have_their_values_within_their_boxes():
    problem, rng = some_problem(4, "hinge")
    f = rng.normal(size=30)
    g, width = rational(problem.centred(f)), 0.3
    chosen = {
        (i, j): cost for i, j, cost in pairs_of(problem) if abs(1 - g[i] + g[j]) <= Fraction(width)
    }
    upper, lower = np.array(list(chosen)).T
    caps = [Fraction(problem.C) * cost for cost in chosen.values()]
    share = rng.uniform(-0.5, 1.5, len(caps))
    values = share * [float(c) for c in caps]
    listed = Listed(upper, lower, values)

    def variable(i, j, cap, z):
        if (i, j) in chosen:
            given = Fraction(values[list(chosen).index((i, j))])
            return min(max(given, Fraction(0)), Fraction(float(cap)))
        return cap * (z > Fraction(width))

    terms = dual_terms(problem, DualPoint(f, width, listed))
    beta, gain, _ = exact_terms(problem, g, variable)
    assert all(encloses(terms.beta[k], value) for k, value in enumerate(beta))
    assert encloses(terms.gain, gain)


def fitted(loss_of_pairs: str, kernel: Kernel | None, norm: int = 2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    codes = np.digitize(X[:, 0] + 0.3 * rng.normal(size=40), [-0.5, 0.5])
    problem = preference_problem(codes, C=0.5, loss=loss_of_pairs, norm=norm)
    data = X if kernel is None else Rows(kernel, X)
    return problem, data, solve(problem, data, tol=1e-6, budget=Budget(200))


CASES = [
    ("hinge", None, 2),
    ("squared_hinge", None, 2),
    ("hinge", None, 1),
    ("hinge", Kernel("rbf", gamma=0.5), 2),
    ("squared_hinge", Kernel("rbf", gamma=0.5), 2),
]


@pytest.mark.parametrize(("loss_of_pairs", "kernel", "norm"), CASES)
def test_the_gap_is_that_of_the_model_and_of_its_variables(loss_of_pairs, kernel, norm):
    problem, data, model = fitted(loss_of_pairs, kernel, norm)
    found = bracket(problem, model, data, tol=1e-6)
    assert found.primal == pytest.approx(problem.primal(model.f, model.penalty), rel=1e-9)
    dual = problem.dual(dual_terms(problem, model.point), model.image)
    if norm == 1:
        dual = float(dual_terms(problem, model.point).gain.hi)
        dual /= max(1.0, np.abs(model.image).max())
    # The best multiple of the variables is at least as good.
    assert dual * (1 - 1e-9) <= found.dual <= found.primal
    assert 0 < found.rounding < 1e-9 * found.primal


@pytest.mark.parametrize(("loss_of_pairs", "kernel", "norm"), CASES)
def test_uncertain_costs_widen_the_gap_by_as_much(loss_of_pairs, kernel, norm):
    problem, data, model = fitted(loss_of_pairs, kernel, norm)
    sharp = bracket(problem, model, data)
    blurred = bracket(replace(problem, cost_error=1e-3), model, data)
    lost = problem.primal(model.f, 0.0)
    assert blurred.primal >= sharp.primal + 0.999e-3 * lost
    assert blurred.dual < sharp.dual * (1 - 1e-5)
    assert blurred.rounding > 0.5e-3 * lost


def test_a_matrix_that_is_not_positive_semidefinite_proves_nothing():
    K = -np.eye(2)
    problem = preference_problem(np.array([0, 1]), C=1.0)
    coef = np.array([-1.0, 1.0])
    point = DualPoint(np.zeros(2), 1.0)
    model = PreferenceModel(
        coef=coef, f=K @ coef, penalty=-1.0, point=point, beta=coef, image=K @ coef, n_iter=1
    )
    rows = Rows(Kernel("precomputed"), K)
    assert bracket(problem, model, rows).dual == -np.inf
    rows = Rows(Kernel("precomputed"), -K)
    model = replace(model, f=coef, penalty=1.0, image=coef)
    assert bracket(problem, model, rows).dual == pytest.approx(0.25)
    assert bracket(problem, model, rows, mercer=False).dual == -np.inf
    named = Rows(Kernel("sigmoid", gamma=1.0), np.eye(2))
    assert bracket(problem, model, named).dual == -np.inf


def test_more_digits_are_used_where_rounding_blurs(monkeypatch):
    """Linear kernels of samples far from the origin: f cancels, pair differences do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)) + 1e8
    codes = np.digitize(X[:, 0] - 1e8, [0.0])
    problem = preference_problem(codes, C=0.1)
    rows = Rows(Kernel("linear"), X)
    model = solve(problem, rows, tol=1e-3, budget=Budget(100))
    sharp = bracket(problem, model, rows)
    assert sharp.rounding < 1e-9 * sharp.primal
    plain = bounds.enclosed_sum
    monkeypatch.setattr(
        bounds, "enclosed_sum", lambda *a, precise=False, **k: plain(*a, precise=False, **k)
    )
    assert bracket(problem, model, rows).rounding > 1e-3 * sharp.primal


def test_a_fit_that_is_worse_than_nothing_is_scaled_down(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 3))
    y = np.digitize(X[:, 0], [-0.3, 0.3])
    solved = fit.solve

    def blown_up(*args, **options):
        found = solved(*args, **options)
        return replace(
            found, coef=1024.0 * found.coef, f=1024.0 * found.f, penalty=1024.0**2 * found.penalty
        )

    plain = OrdinalSVC(kernel="linear", C=1e-2).fit(X, y)
    monkeypatch.setattr(fit, "solve", blown_up)
    model = OrdinalSVC(kernel="linear", C=1e-2).fit(X, y)
    np.testing.assert_allclose(model.coef_, plain.coef_)
    monkeypatch.setattr(fit, "solve", lambda *a, **k: replace(blown_up(*a, **k), f=np.ones(40)))
    monkeypatch.setattr(fit, "_best_factor", lambda *_: 1.0)
    with pytest.warns(UserWarning, match="did not converge"):
        model = OrdinalSVC(kernel="linear", C=1e-2).fit(X, y)
    assert not model.coef_.any()
    assert model.certificate_.primal <= 1e-2 * model.n_pairs_ * (1 + 1e-12)
