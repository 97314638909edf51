"""The mean-field equations and their solvers against independent formulas and each other."""

from __future__ import annotations

import dataclasses
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons
from sklearn.preprocessing import StandardScaler

from tests.helpers.byhand import gram
from tests.helpers.mean_field import solved
from widemargin.problems.mean_field import Likelihood, naive
from widemargin.problems.mean_field.bounds import Covariance
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field import (
    factorise,
    fit_scale,
    leave_out,
    matrices_needed,
    solve,
)
from widemargin.solvers.mean_field.cavities import CavityStep, RoughInverse
from widemargin.solvers.mean_field.newton import dense_direction, solve_newton
from widemargin.solvers.mean_field.tap import implied_cavity

FLIPS = (0.0, 0.05, 0.2, 0.4)
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")


def _strength_to_50_digits(z):
    """Return F(z) without flips: a continued fraction on the left, a power series elsewhere."""
    z = Decimal(z)
    if z <= -2:
        tail = Decimal(0)
        for k in range(6_000, 1, -1):
            tail = k / (-z + tail)
        return -z + 1 / (-z + tail)
    density = (-z * z / 2).exp() / (2 * PI).sqrt()
    total, term, k = Decimal(0), z, 1
    while k < 4_000 and (abs(term) > Decimal("1e-60") or k < 50):
        total += term
        term *= z * z / (2 * k + 1)
        k += 1
    return density / (Decimal("0.5") + density * total)


# Sweeps of expectation propagation are another algorithm for the solution of TAP.
THEORIES = {
    "naive": {},
    "tap": {"inference": "tap"},
    "sweeps": {"inference": "ep", "method": "sweeps"},
}


def _problem(seed=0, n=40, gamma=0.5, noise=0.3, flips=0.0, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    K = gram(X, X, gamma=gamma)
    return naive(y, weight, np.diagonal(K).copy(), noise, flips), K


def _repeated(problem, K):
    """The same problem with every row written out as often as its weight says."""
    rows = np.repeat(np.arange(problem.n_rows), problem.weight.astype(int))
    copies = naive(
        problem.label[rows],
        np.ones(len(rows)),
        problem.cavity[rows],
        problem.input_noise,
        problem.likelihood.flip_noise,
    )
    return copies, K[np.ix_(rows, rows)], rows


# -- the likelihood --------------------------------------------------------------------------


@pytest.mark.parametrize("z", [-1e8, -1e3, -38.0, -10.0, -4.001, -4.0, -2.5, 0.0, 1.0, 6.0, 30.0])
def test_strength_and_slope_have_all_their_digits(z) -> None:
    likelihood = Likelihood()
    strength = likelihood.strength(np.array([z]))[0]
    slope, rest = (values[0] for values in likelihood.slope(np.array([z])))
    with localcontext() as context:
        context.prec = 55
        exact = _strength_to_50_digits(z)
        exact_slope = exact * (Decimal(z) + exact)
        references = (exact, exact_slope, 1 - exact_slope)
        for ours, reference in zip((strength, slope, rest), references, strict=True):
            assert abs(Decimal(float(ours)) / reference - 1) < Decimal("2e-13")


@pytest.mark.parametrize("flips", FLIPS)
def test_slope_and_log_probability_are_the_derivatives(flips) -> None:
    likelihood = Likelihood(flips)
    z, step = np.linspace(-6, 6, 41), 1e-5
    finite = (likelihood.log_probability(z + step) - likelihood.log_probability(z - step)) / 2e-5
    np.testing.assert_allclose(likelihood.strength(z), finite, rtol=1e-7, atol=1e-9)
    finite = -(likelihood.strength(z + step) - likelihood.strength(z - step)) / 2e-5
    slope, rest = likelihood.slope(z)
    np.testing.assert_allclose(slope, finite, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(slope + rest, 1.0, rtol=1e-14)


EXTREMES = np.concatenate([-np.logspace(8, -3, 200), [0.0], np.logspace(-3, 3, 200)])


@pytest.mark.parametrize("noise", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize("flips", FLIPS)
def test_extreme_fields_give_numbers(flips, noise) -> None:
    """From -1e8 to 1e3. Warnings are errors here."""
    z, n = EXTREMES, len(EXTREMES)
    likelihood = Likelihood(flips)
    problem = naive(np.ones(n), np.ones(n), np.ones(n), noise, flips)
    A = problem.coefficients(z)
    slope, rest = likelihood.slope(z)
    for values in (
        likelihood.strength(z),
        slope,
        rest,
        likelihood.probability(z),
        likelihood.log_probability(z),
        problem.precision(z),
        A,
        problem.reached(A, A),
    ):
        assert np.isfinite(values).all()
    assert np.isfinite(problem.residual(z, problem.reached(A, A)))
    assert np.isfinite(problem.objective(z, A))
    assert not np.isnan(problem.omega(z)).any()
    if flips == 0:
        assert (slope >= 0).all()
        assert (rest > 0).all()
        assert (np.diff(likelihood.strength(z)) <= 0).all()
        certificate = problem.certificate("x", A, Covariance(np.eye(n)), tol=1e-10, n_iter=1)
        assert certificate.dual <= certificate.primal
        assert not np.isnan(certificate.dual)


# -- the convex problem ----------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
def test_the_solution_satisfies_the_printed_equations(weighted) -> None:
    """(8.40) written out with scipy's normal density and distribution, copies and all."""
    problem, K = _problem(weighted=weighted)
    result = solved(problem, K)
    copies, K_copies, rows = _repeated(problem, K)
    noisy = K_copies + problem.input_noise * np.eye(len(rows))
    k = np.diagonal(noisy)
    alpha = np.abs(result.coefficients / problem.weight)[rows]
    y = copies.label
    z = y * (noisy @ (y * alpha) - k * y * alpha) / np.sqrt(k)
    np.testing.assert_allclose(alpha, norm.pdf(z) / norm.cdf(z) / np.sqrt(k), rtol=1e-9)
    # the identity d = y alpha f, hence (8.42)
    omega = k * (1 / (y * alpha * (noisy @ (y * alpha))) - 1)
    np.testing.assert_allclose(problem.omega(result.z)[rows], omega, rtol=1e-7)


def test_the_certificate_bounds_the_objective_from_both_sides() -> None:
    problem, K = _problem(weighted=True)
    result = solved(problem, K)
    A = result.coefficients
    at = problem.certificate("naive", A, Covariance(K), tol=1e-10, n_iter=1)
    assert at.converged
    assert abs(at.gap) <= 1e-9
    assert at.primal == pytest.approx(result.log_evidence, abs=1e-9)
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0, 5.0):
        away = problem.coefficients(result.z + size * rng.normal(size=problem.n_rows))
        other = problem.certificate("x", away, Covariance(K), tol=1e-10, n_iter=1)
        assert other.dual <= at.primal + 1e-10
        assert at.primal < other.primal
        assert not other.converged


def test_a_corrupted_coefficient_spoils_the_certificate() -> None:
    """The certificate has nothing but the coefficients to go by."""
    problem, K = _problem(weighted=True)
    A = solved(problem, K).coefficients
    good = problem.certificate("x", A, Covariance(K), tol=1e-10, n_iter=1)
    for row, factor in ((0, 1 + 1e-6), (3, 1.1), (7, 0.0)):
        spoiled = A.copy()
        spoiled[row] *= factor
        found = problem.certificate("x", spoiled, Covariance(K), tol=1e-10, n_iter=1)
        assert not found.converged
        assert found.kkt_violation > 1e3 * good.kkt_violation
        assert found.primal > good.dual >= found.dual
    spoiled = A.copy()
    spoiled[5] *= -1  # the label's sign is the other one
    outside = problem.certificate("x", spoiled, Covariance(K), tol=1e-10, n_iter=1)
    assert outside.primal == outside.gap == outside.relative_gap == np.inf
    assert outside.dual <= good.primal
    assert not outside.converged


@pytest.mark.parametrize("method", ["newton", "newton_cg", "table"])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_early_stop_is_not_worse_than_the_prior(method, steps) -> None:
    """E is 0 for coefficients of zero; a start in the left tail is far above that."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    K, y = 1e3 * (X @ X.T) ** 2, np.where(rng.random(40) < 0.5, 1.0, -1.0)
    problem = naive(y, np.ones(40), np.diagonal(K).copy(), 1.0)
    result = solve(problem, K, tol=1e-10, budget=Budget(steps), method=method)
    assert result.status == "max_iter"
    assert problem.objective(result.z, result.field) <= 0.0
    assert problem.objective(problem.at(K, np.full(40, -3.0)).z, K @ problem.coefficients(
        np.full(40, -3.0))) > 0.0  # fmt: skip


def test_coefficients_tell_their_fields() -> None:
    """Where F underflows, the field is as far out as it can be told."""
    z = np.array([-1e8, -1e3, -4.0, -0.7, 0.0, 1.0, 8.0, 37.0, 1e3])
    problem = naive(np.ones(9), np.full(9, 2.0), np.ones(9), 0.5)
    found = problem.fields_of(problem.coefficients(z))
    np.testing.assert_allclose(found[:-1], z[:-1], rtol=1e-14, atol=1e-14)
    assert 37 < found[-1] < 38


def test_the_objective_has_the_gradient_and_hessian_of_the_docstring() -> None:
    problem, K = _problem(n=8, weighted=True)
    z = np.linspace(-2, 2, 8)
    A = problem.coefficients(z)
    strengths = problem.weight * problem.likelihood.strength(z)
    curvature = -problem.weight * problem.likelihood.slope(z)[0]

    def objective(direction, step):
        moved = z + step * direction
        return problem.objective(moved, K @ problem.coefficients(moved))

    rng = np.random.default_rng(0)
    for _ in range(5):
        direction, step = rng.normal(size=8), 1e-4
        dA = problem.label * curvature / problem.scale * direction  # dA/dz
        gradient = problem.label * problem.scale * (problem.reached(A, K @ A) - z)
        slope = (objective(direction, step) - objective(direction, -step)) / (2 * step)
        assert slope == pytest.approx(float(gradient @ dA), rel=1e-6)
    assert strengths.all()


DATA = {
    "moons": lambda: make_moons(200, noise=0.3, random_state=0),
    "breast_cancer": lambda: load_breast_cancer(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "iris": lambda: tuple(part[50:] for part in load_iris(return_X_y=True)),
}


def _standardised(name, n):
    """Return the first n different rows of a data set and labels: the first class or not."""
    X, y = DATA[name]()
    X, y = StandardScaler().fit_transform(X)[:n], np.where(y == y[0], 1.0, -1.0)[:n]
    X, first = np.unique(X, axis=0, return_index=True)
    return X, y[first]


@pytest.mark.parametrize("name", DATA)
def test_newton_needs_ten_steps_at_most(name) -> None:
    """From gamma and input_noise 1e-3 to 10, on up to 200 rows."""
    X, y = _standardised(name, 200)
    for gamma in np.logspace(-3, 1, 5):
        K = gram(X, X, gamma=gamma)
        for noise in np.logspace(-3, 1, 5):
            problem = naive(y, np.ones(len(X)), np.ones(len(X)), noise)
            for method in ("newton", "auto"):
                result = solved(problem, K, method=method)
                assert result.residual <= 1e-10, (gamma, noise)
                assert result.n_iter <= 10, (gamma, noise)


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("name", DATA)
def test_all_solvers_agree_on_data_sets(name, noise) -> None:
    X, y = _standardised(name, 100)
    for gamma in (0.01, 0.3):
        K = gram(X, X, gamma=gamma)
        problem = naive(y, np.ones(len(X)), np.ones(len(X)), noise)
        newton = solved(problem, K, method="newton")
        for method in ("newton_cg", "table"):
            other = solved(problem, K, method=method)
            assert newton.status == other.status == "converged"
            np.testing.assert_allclose(other.coefficients, newton.coefficients, atol=1e-6)
            np.testing.assert_allclose(other.z, newton.z, atol=1e-6)


@pytest.mark.parametrize("flips", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(3))
def test_all_solvers_find_the_same_solution(seed, flips) -> None:
    problem, K = _problem(seed, flips=flips, weighted=True)
    newton = solved(problem, K, method="newton")
    assert newton.status == "converged"
    for method in ("newton_cg", "table"):
        other = solved(problem, K, method=method)
        assert other.status == "converged"
        np.testing.assert_allclose(other.coefficients, newton.coefficients, atol=1e-8)
        assert other.log_evidence == pytest.approx(newton.log_evidence, abs=1e-8)


def test_a_budget_that_runs_out_is_reported() -> None:
    problem, K = _problem()
    for options in ({"method": "newton"}, {"method": "table"}, THEORIES["sweeps"]):
        result = solved(problem, K, max_iter=2, **options)
        assert result.status == "max_iter"
        assert result.residual > 1e-10
        assert result.n_iter == 2
    stopped = solved(problem, K, monitor=lambda steps, residual: steps < 1)
    assert stopped.status == "stopped"


@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_a_solution_is_where_the_next_run_can_start(inference) -> None:
    problem, K = _problem()
    near = naive(problem.label, problem.weight, problem.cavity, 1.01 * problem.input_noise, 0.02)
    first = solved(problem.with_flip_noise(0.02), K, inference=inference)
    cold = solved(near, K, inference=inference)
    warm = solved(near, K, inference=inference, start=first)
    assert warm.status == cold.status == "converged"
    assert warm.n_iter < cold.n_iter
    np.testing.assert_allclose(warm.coefficients, cold.coefficients, rtol=1e-7, atol=1e-9)


def test_the_last_step_allowed_may_be_the_one_that_suffices() -> None:
    problem, K = _problem()
    needed = solved(problem, K, method="newton").n_iter
    assert solved(problem, K, method="newton", max_iter=needed).status == "converged"


@pytest.mark.parametrize("inference", ["naive", "tap"])
def test_no_input_noise_on_classes_that_meet_is_refused(inference) -> None:
    """Equal rows with different labels; and a linear kernel whose classes overlap."""
    K = np.ones((2, 2))
    clash = naive(np.array([1.0, -1.0]), np.ones(2), np.ones(2), 0.0)
    with pytest.raises(ValueError, match="input_noise=0 needs classes"):
        solved(clash, K, inference=inference)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), rng.choice([-1.0, 1.0], 30)
    K = X @ X.T
    overlap = naive(y, np.ones(30), np.diagonal(K).copy(), 0.0)
    with pytest.raises(ValueError, match="give a positive input_noise"):
        solved(overlap, K, inference=inference, method="newton")


def test_no_input_noise_on_separable_classes_works() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    K = gram(X, X, gamma=1.0)
    result = solved(naive(y, np.ones(30), np.ones(30), 0.0), K)
    assert result.residual <= 1e-10
    assert (y * result.field > 0).all()


# -- TAP and expectation propagation ---------------------------------------------------------


@pytest.mark.parametrize("flips", [0.0, 0.05, 0.2])
@pytest.mark.parametrize(("gamma", "noise"), [(0.1, 0.01), (0.1, 1.0), (1.0, 0.1), (1.0, 1.0)])
def test_tap_and_expectation_propagation_agree(gamma, noise, flips) -> None:
    problem, K = _problem(3, n=80, gamma=gamma, noise=noise, flips=flips, weighted=True)
    tap = solved(problem, K, inference="tap")
    ep = solved(problem, K, tol=1e-11, **THEORIES["sweeps"])
    assert tap.status == ep.status == "converged"
    np.testing.assert_allclose(tap.field, ep.field, atol=1e-8)
    np.testing.assert_allclose(tap.z, ep.z, atol=1e-8)
    np.testing.assert_allclose(tap.problem.cavity, ep.problem.cavity, atol=1e-8)
    np.testing.assert_allclose(tap.coefficients, ep.coefficients, atol=1e-8)
    assert tap.log_evidence == pytest.approx(ep.log_evidence, abs=1e-8)


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize(("gamma", "noise"), [(0.01, 0.1), (0.3, 0.01), (1.0, 1.0), (30.0, 0.1)])
def test_rounds_in_single_precision_lead_to_the_same_solution(gamma, noise, offset) -> None:
    """With many samples, whose first rounds are rough."""
    problem, K = _problem(4, n=230, gamma=gamma, noise=noise, weighted=True)
    K = K + offset
    problem = dataclasses.replace(problem, cavity=np.diagonal(K).copy())
    tap = solved(problem, K, inference="tap", tol=1e-9)
    ep = solved(problem, K, tol=1e-9, **THEORIES["sweeps"])
    assert tap.status == "converged"
    assert tap.n_iter < 60
    # Sweeps lose digits to a large constant, as they compute means of it.
    near = 1e-7 if offset == 0 else 1e-4
    np.testing.assert_allclose(tap.field, ep.field, atol=near)
    np.testing.assert_allclose(tap.problem.cavity, ep.problem.cavity, atol=near)
    assert tap.log_evidence == pytest.approx(ep.log_evidence, abs=1e-6)


def test_a_linearised_round_predicts_the_cavities_of_the_next() -> None:
    problem, K = _problem(4, n=230, weighted=True)
    here = solved(problem, K, inference="tap", tol=1e-3)
    problem, step = here.problem, 1e-4 * np.random.default_rng(0).normal(size=230)

    def implied(cavity):
        moved = dataclasses.replace(problem, cavity=cavity)
        newton = solve_newton(
            moved, K, dense_direction(K), tol=1e-12, budget=Budget(50), start=here.z
        )
        posterior = factorise(K, moved.precision(newton.z))
        return implied_cavity(moved, posterior, K), newton.z

    c = problem.cavity
    (ahead, z_ahead), (behind, z_behind) = implied(c + c * step), implied(c - c * step)
    z = implied(c)[1]
    inverse = RoughInverse(K.astype(np.float32), problem.precision(z))
    response = CavityStep(problem, z, inverse, *inverse.diagonals(K))
    np.testing.assert_allclose(response.fields(c * step), 0.5 * (z_ahead - z_behind), atol=1e-8)
    moved = response.moved(problem, c + c * step - 0.5 * (ahead - behind), z)[0]
    np.testing.assert_allclose(moved, c + c * step, atol=1e-7)


@pytest.mark.parametrize("inference", ["tap", "sweeps"])
@pytest.mark.parametrize("flips", [0.0, 0.1])
def test_one_row_is_exact(inference, flips) -> None:
    """Mean, variance and evidence of one row, against quadrature."""
    k, v = 2.0, 0.7
    problem = naive(np.array([1.0]), np.ones(1), np.array([k]), v, flips)
    result = solved(problem, np.array([[k]]), **THEORIES[inference])
    f = np.linspace(-14, 14, 400_001)
    posterior = norm.pdf(f, scale=np.sqrt(k)) * (flips + (1 - 2 * flips) * norm.cdf(f / np.sqrt(v)))
    mass = np.trapezoid(posterior, f)
    mean = np.trapezoid(f * posterior, f) / mass
    variance = np.trapezoid((f - mean) ** 2 * posterior, f) / mass
    assert result.log_evidence == pytest.approx(np.log(mass), abs=1e-10)
    assert result.field[0] == pytest.approx(mean, abs=1e-9)
    kernel = np.array([[k]])
    _, found = factorise(kernel, result.precision()).diagonals(kernel)
    assert found[0] == pytest.approx(variance, abs=1e-9)


def test_evidence_is_near_the_probability_of_the_orthant() -> None:
    """p(y) of three rows is a normal orthant probability."""
    problem, K = _problem(1, n=3, gamma=0.2, noise=0.5)
    signs = np.outer(problem.label, problem.label)
    exact = multivariate_normal(np.zeros(3), signs * (K + 0.5 * np.eye(3)), seed=0).cdf(np.zeros(3))
    tap = solved(problem, K, inference="tap")
    assert tap.log_evidence == pytest.approx(np.log(exact), abs=5e-3)


# -- weights and leave-one-out ---------------------------------------------------------------


@pytest.mark.parametrize("flips", [0.0, 0.1])
@pytest.mark.parametrize("inference", ["naive", "tap", "sweeps"])
def test_weights_are_repetitions(inference, flips) -> None:
    problem, K = _problem(5, flips=flips, weighted=True)
    copies, K_copies, rows = _repeated(problem, K)
    merged = solved(problem, K, **THEORIES[inference])
    spread = solved(copies, K_copies, **THEORIES[inference])
    np.testing.assert_allclose(merged.z[rows], spread.z, atol=1e-8)
    np.testing.assert_allclose(merged.field[rows], spread.field, atol=1e-8)
    assert merged.log_evidence == pytest.approx(spread.log_evidence, abs=1e-8)
    ours = leave_out(merged, factorise(K, merged.precision()), K)
    theirs = leave_out(spread, factorise(K_copies, spread.precision()), K_copies)
    np.testing.assert_allclose(ours.mean[rows], theirs.mean, atol=1e-8)
    np.testing.assert_allclose(ours.variance[rows], theirs.variance, atol=1e-8)


@pytest.mark.parametrize("flips", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_leave_one_out_is_the_printed_formula(noise, flips) -> None:
    """(8.41) and (8.42), by the inverse of Omega + k."""
    problem, K = _problem(7, noise=noise, flips=flips)
    result = solved(problem, K)
    noisy = K + noise * np.eye(len(K))
    field = noisy @ result.coefficients
    alpha, y, k = np.abs(result.coefficients), problem.label, np.diagonal(noisy)
    omega = k * (1 / (y * alpha * field) - 1)
    correction = 1 / np.diagonal(np.linalg.inv(np.diag(omega) + noisy)) - omega
    left = leave_out(result, factorise(K, result.precision()), K)
    np.testing.assert_allclose(y * left.mean, y * field - correction * alpha, atol=1e-7)
    np.testing.assert_allclose(left.variance + noise, correction, rtol=1e-6)


@pytest.mark.parametrize("inference", ["tap", "sweeps"])
def test_left_out_fields_of_tap_are_its_cavity_fields(inference) -> None:
    problem, K = _problem(8, flips=0.05)
    result = solved(problem, K, **THEORIES[inference])
    left = leave_out(result, factorise(K, result.precision()), K)
    h = result.field - result.problem.cavity * result.coefficients
    np.testing.assert_allclose(left.mean, h, atol=1e-8)
    np.testing.assert_allclose(left.variance, result.problem.cavity, atol=1e-8)


def test_rows_far_inside_their_class_have_a_variance() -> None:
    """Their precision underflows, and nothing is divided by it."""
    K = gram(np.array([[0.0], [0.1], [4.0]]), np.array([[0.0], [0.1], [4.0]]), gamma=0.1) * 1e4
    problem = naive(np.array([1.0, 1.0, -1.0]), np.ones(3), np.diagonal(K).copy(), 1e-3)
    result = solved(problem, K)
    precision = np.array([1e-320, 0.0, 1e-3])
    kept, variance = factorise(K, precision).diagonals(K)
    np.testing.assert_allclose(kept[:2], 1.0)
    third = K[:, 2]
    np.testing.assert_allclose(variance, np.diagonal(K) - third**2 / (1e3 + K[2, 2]), rtol=1e-12)
    assert np.isfinite(result.log_evidence)


@pytest.mark.parametrize("sign", [1.0, -0.02])
def test_a_posterior_is_what_its_matrices_say(sign) -> None:
    rng = np.random.default_rng(0)
    K = gram(rng.normal(size=(30, 2)), rng.normal(size=(30, 2)))
    K = K @ K.T
    precision = rng.uniform(0.1, 2.0, 30)
    precision[0] *= sign
    posterior = factorise(K, precision)
    B = np.linalg.inv(np.eye(30) + precision[:, None] * K)
    kept, variance = posterior.diagonals(K)
    np.testing.assert_allclose(kept, np.diagonal(B), rtol=1e-8)
    np.testing.assert_allclose(variance, np.diagonal(K @ B), rtol=1e-8)
    cross = rng.normal(size=(5, 30))
    reduced = np.diagonal(cross @ B @ np.diag(precision) @ cross.T)
    np.testing.assert_allclose(posterior.reduction(cross), reduced, rtol=1e-8)
    right = rng.normal(size=30)
    inverse = np.linalg.inv(K + np.diag(1 / precision))
    np.testing.assert_allclose(posterior.solve(right), inverse @ right, rtol=1e-6, atol=1e-9)
    signed, log_determinant = np.linalg.slogdet(np.eye(30) + precision[:, None] * K)
    assert signed == 1
    assert posterior.log_determinant() == pytest.approx(log_determinant, rel=1e-10)


# -- the scale and what is invariant -----------------------------------------------------------


def test_the_scale_is_found_and_stays_finite() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=4_000) * 2
    truth = 0.4
    signed = np.where(rng.random(4_000) < norm.cdf(truth * z), z, -z)
    assert fit_scale(signed, np.ones(4_000), Likelihood()) == pytest.approx(truth, abs=0.05)
    assert 1 < fit_scale(np.ones(10), np.ones(10), Likelihood()) < 10
    assert 0.1 < fit_scale(-np.ones(10), np.ones(10), Likelihood()) < 1
    doubled = fit_scale(np.repeat(signed[:50], 2), np.ones(100), Likelihood())
    assert doubled == pytest.approx(fit_scale(signed[:50], np.full(50, 2.0), Likelihood()))


@given(seed=st.integers(0, 1_000), factor=st.sampled_from([1e-3, 0.1, 7.0, 1e4]))
def test_the_unit_of_the_kernel_does_not_matter(seed, factor) -> None:
    problem, K = _problem(seed, n=15, flips=0.05 * (seed % 2))
    scaled = naive(
        problem.label,
        problem.weight,
        factor * problem.cavity,
        factor * problem.input_noise,
        problem.likelihood.flip_noise,
    )
    ours, theirs = solved(problem, K), solved(scaled, factor * K)
    np.testing.assert_allclose(theirs.z, ours.z, atol=1e-8)
    np.testing.assert_allclose(
        np.sqrt(factor) * theirs.coefficients, ours.coefficients, rtol=1e-7, atol=1e-9
    )


@given(seed=st.integers(0, 1_000), inference=st.sampled_from(["naive", "tap"]))
def test_flipping_all_labels_flips_the_solution(seed, inference) -> None:
    problem, K = _problem(seed, n=15)
    other = naive(-problem.label, problem.weight, problem.cavity, problem.input_noise)
    ours = solved(problem, K, **THEORIES[inference])
    theirs = solved(other, K, **THEORIES[inference])
    np.testing.assert_allclose(theirs.field, -ours.field, atol=1e-9)


@pytest.mark.parametrize("inference", ["naive", "tap", "sweeps"])
@pytest.mark.parametrize("flips", [0.1, 0.25, 0.4])
def test_flip_noise_on_wrong_labels_converges_or_says_so(flips, inference) -> None:
    for seed in range(5):
        for noise in (0.01, 0.1, 1.0):
            problem, K = _problem(seed, noise=noise, flips=flips)
            result = solved(problem, K, **THEORIES[inference])
            assert (result.status == "converged") == (result.residual <= 1e-10)
            assert np.isfinite(result.field).all()


def test_every_inference_says_how_much_memory_it_takes() -> None:
    assert matrices_needed("naive") <= matrices_needed("tap") == matrices_needed("ep")
    assert matrices_needed("tap") <= matrices_needed("ep", "sweeps")
