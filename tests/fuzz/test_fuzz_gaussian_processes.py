"""Mean-field Gaussian processes on drawn problems.

The equations are evaluated at the public strengths and Omega. Where they are those of a minimum,
its certificate is judged in exact arithmetic.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.byhand_fields import Fields, implied_cavity, slope
from tests.helpers.exact_likelihoods import mean_field
from tests.helpers.fuzzing import judge, short_or_profile
from tests.helpers.fuzzing_data import classifications, mercer_kernels, powers
from tests.helpers.fuzzing_exact import exact_truth
from tests.helpers.fuzzing_truth import merged, seen
from widemargin import MeanFieldGPClassifier

pytestmark = pytest.mark.fuzz

problems = classifications(most_rows=25)
noises = powers(-3, 2)
means = st.sampled_from([0.0, 0.0, 1.0, 100.0])
# Sweeps that converge are done by then; those that do not would take most of the time.
budgets = st.sampled_from([100, 100, 100, -1])


def fields_of(model, problem, matrix):
    """Yield the equations of each latent function, its strengths, Omega and kernel errors."""
    codes = np.searchsorted(model.classes_, problem.y)
    few = merged(problem.values, codes, problem.weight, apart=matrix is not None)
    kernel, weight = seen(model, problem, matrix).part(few.rows), few.weight
    K, codes = kernel.K + model.mean_variance_, codes[few.rows]
    positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
    alpha, omega = np.atleast_2d(model.alpha_), np.atleast_2d(model.omega_)[:, few.rows]
    for k, positive in enumerate(positives):
        y = np.where(codes == positive, 1.0, -1.0)
        cavity = None
        if model.inference != "naive":
            cavity = implied_cavity(K, weight, model.input_noise, omega[k])
        equations = Fields(K, y, weight, model.input_noise, model.flip_noise, cavity)
        yield k, equations, few.fold(alpha[k]) / weight, omega[k], kernel


def too_rough(model, problem, matrix):
    """Tell whether variances that the other rows leave are lost in the errors of the kernel.

    They are had by inverting matrices, which TAP and EP need and the naive theory does not.
    """
    kernel = seen(model, problem, matrix)
    size = np.abs(kernel.K).max() + model.mean_variance_
    off = kernel.error.max() + 1e-15 * size
    return problem.n * problem.weight.max() * off > 1e-6 * model.input_noise


def truth_of(matrix=None):
    """Return the check of a Gaussian process."""
    of_certificates = exact_truth(mean_field, matrix)

    def truth(model, problem):
        assert (np.asarray(model.alpha_) >= 0).all()
        if model.certificates_:
            of_certificates(model, problem)
        if model.inference != "naive" and (
            model.residual_ > model.tol or too_rough(model, problem, matrix)
        ):
            return  # it has warned, or nothing can be told
        worst = 0.0
        for k, equations, alpha, omega, kernel in fields_of(model, problem, matrix):
            error = kernel.sums(equations.weight * alpha) / equations.sd
            residual, rounding = equations.residual(alpha, error)
            worst = max(worst, residual - rounding)
            if model.certificates_:
                claimed = model.certificates_[k].kkt_violation
                assert abs(claimed - residual) <= rounding + 1e-9 * residual
            elif model.residual_ <= model.tol:
                check_omega(equations, alpha, omega, error, model.tol)
        # TAP's own residual is that of the cavity variances of the last step but one.
        room = 1.001 if model.inference == "naive" else 10.0
        if model.residual_ <= model.tol:
            assert worst <= room * model.tol, f"the residual is {worst:g}"

    return truth


def check_omega(equations, alpha, omega, error, tol):
    """Demand Omega = lambda (1/d - 1), as far as d tells it.

    F(z) is known up to tol, hence z up to tol / d, and d up to a few times that.
    """
    z = equations.reached(alpha)
    d = slope(z, equations.flips)
    known = (d**2 > 1e4 * tol) & np.isfinite(omega) & (error < 1e-9) & (z > -5)
    wanted = equations.lam[known] * (1.0 / d[known] - 1.0)
    np.testing.assert_allclose(omega[known], wanted, rtol=1e-3, atol=1e-3 * equations.lam.max())


def judged(name, model, problem, kernel):
    """Judge a Gaussian process; a kernel matrix takes the place of one problem in eight."""
    model.set_params(**kernel)
    if problem.seed % 8 == 1 and model.kernel == "rbf":
        model.set_params(kernel="precomputed", gamma="scale")
        X, fresh = (problem.kernel_matrix(rows) for rows in (problem.values, problem.fresh))
        options = {"X": 0.5 * (X + X.T), "fresh": fresh}
        judge(name, model, problem, truth_of(options["X"]), leave_one_out=True, **options)
    else:
        judge(name, model, problem, truth_of(), probabilities=True, leave_one_out=True)


@pytest.mark.parametrize("solver", ["newton", "newton_cg", "table"])
@given(problem=problems, kernel=mercer_kernels, noise=noises, mean=means, steps=budgets)
@short_or_profile()
def test_fuzz_naive_mean_field(solver, problem, kernel, noise, mean, steps):
    options = {"input_noise": noise, "mean_variance": mean, "max_iter": steps}
    model = MeanFieldGPClassifier(solver=solver, **options)
    judged(f"MeanFieldGPClassifier {solver}", model, problem, kernel)


@given(problem=problems, kernel=mercer_kernels)
@short_or_profile()
def test_fuzz_naive_mean_field_without_noise(problem, kernel):
    model = MeanFieldGPClassifier(input_noise=0.0)
    judged("MeanFieldGPClassifier no noise", model, problem, kernel)


@pytest.mark.parametrize("inference", ["tap", "ep"])
@given(problem=problems, kernel=mercer_kernels, noise=noises, mean=means, steps=budgets)
@short_or_profile()
def test_fuzz_tap_and_ep(inference, problem, kernel, noise, mean, steps):
    options = {"input_noise": noise, "mean_variance": mean, "max_iter": steps}
    model = MeanFieldGPClassifier(inference=inference, **options)
    judged(f"MeanFieldGPClassifier {inference}", model, problem, kernel)


@given(
    problem=problems,
    kernel=mercer_kernels,
    inference=st.sampled_from(["naive", "tap", "ep"]),
    noise=noises,
    flips=st.floats(1e-4, 0.45),
)
@short_or_profile()
def test_fuzz_flip_noise(problem, kernel, inference, noise, flips):
    model = MeanFieldGPClassifier(inference=inference, input_noise=noise, flip_noise=flips)
    judged(f"MeanFieldGPClassifier flips, {inference}", model, problem, kernel)
