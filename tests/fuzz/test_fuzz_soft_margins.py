"""SVC, NuSVC, SVR and NuSVR on drawn problems: see tests/fuzzing.py for what is demanded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.fuzzing import judge, short_or_profile
from tests.helpers.fuzzing_data import (
    Problem,
    classifications,
    mercer_kernels,
    powers,
    regressions,
)
from tests.helpers.fuzzing_exact import classifier_truth, regressor_truth
from widemargin import SVC, SVR, NuSVC, NuSVR

pytestmark = pytest.mark.fuzz

costs = powers(-6, 8)
tolerances = st.sampled_from([1e-3, 1e-3, 1e-1, 1e-6])


@pytest.mark.parametrize("solver", ["auto", "smo", "sampling", "adatron"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@short_or_profile()
@given(problem=classifications(), kernel=mercer_kernels, C=costs, tol=tolerances)
def test_svc(
    solver: str,
    loss: str,
    intercept: bool,
    problem: Problem,
    kernel: dict[str, Any],
    C: float,
    tol: float,
) -> None:
    # The Adatron is slow where C is large, a pass of Python over few rows: it may run out of steps.
    budget = 5_000 if solver == "adatron" else -1
    model = SVC(
        C=C, loss=loss, fit_intercept=intercept, solver=solver, tol=tol, max_iter=budget, **kernel
    )
    name = f"SVC {solver} {loss}{'' if intercept else ' origin'}"
    judge(name, model, problem, classifier_truth(), probabilities=True, leave_one_out=True)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@short_or_profile()
@given(
    problem=classifications(),
    C=costs,
    tol=tolerances,
    kernel=st.sampled_from(["linear", "poly", "rbf"]),
    factor=st.one_of(st.none(), st.just("balanced"), powers(-3, 3)),
)
def test_svc_of_a_matrix(
    loss: str, problem: Problem, C: float, tol: float, kernel: str, factor: Any
) -> None:
    """A kernel matrix of the user's, and weights of classes."""
    class_weight = {problem.y[0]: factor} if isinstance(factor, float) else factor
    model = SVC(C=C, loss=loss, tol=tol, kernel="precomputed", class_weight=class_weight)
    matrix = problem.kernel_matrix(problem.values, kernel)
    matrix = 0.5 * (matrix + matrix.T)
    fresh = problem.kernel_matrix(np.asarray(problem.fresh), kernel)
    truth = classifier_truth(matrix)
    judge(
        f"SVC precomputed {loss}",
        model,
        problem,
        truth,
        X=matrix,
        fresh=fresh,
        probabilities=True,
        leave_one_out=True,
    )


@short_or_profile()
@given(problem=classifications(), kernel=mercer_kernels, nu=st.floats(1e-3, 1.0), tol=tolerances)
def test_nu_svc(problem: Problem, kernel: dict[str, Any], nu: float, tol: float) -> None:
    # A share of the largest feasible nu, else most draws would be refused.
    masses = [problem.weight[problem.codes == k].sum() for k in range(problem.n_classes)]
    largest = 2 * min(masses) / (min(masses) + max(masses))
    model = NuSVC(nu=nu * largest, tol=tol, **kernel)
    judge("NuSVC", model, problem, classifier_truth(), probabilities=True, leave_one_out=True)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@short_or_profile()
@given(
    problem=regressions(),
    kernel=mercer_kernels,
    C=costs,
    epsilon=st.sampled_from([0.0, 1e-6, 0.1, 1.0, 100.0]),
    tol=tolerances,
)
def test_svr(
    intercept: bool,
    problem: Problem,
    kernel: dict[str, Any],
    C: float,
    epsilon: float,
    tol: float,
) -> None:
    model = SVR(C=C, epsilon=epsilon, fit_intercept=intercept, tol=tol, **kernel)
    name = f"SVR{'' if intercept else ' origin'}"
    judge(name, model, problem, regressor_truth(), leave_one_out=True)


@short_or_profile()
@given(
    problem=regressions(),
    kernel=mercer_kernels,
    C=costs,
    nu=st.floats(1e-3, 1.0),
    tol=tolerances,
)
def test_nu_svr(problem: Problem, kernel: dict[str, Any], C: float, nu: float, tol: float) -> None:
    model = NuSVR(C=C, nu=nu, tol=tol, **kernel)
    judge("NuSVR", model, problem, regressor_truth(), leave_one_out=True)
