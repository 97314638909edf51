"""LinearSVC, MaxMarginClassifier and PerceptronClassifier on drawn problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.fuzzing import judge, short_or_profile
from tests.helpers.fuzzing_containers import DENSE
from tests.helpers.fuzzing_data import (
    Problem,
    classifications,
    mercer_kernels,
    other_kernels,
    powers,
)
from tests.helpers.fuzzing_exact import linear_truth, norm_truth
from tests.helpers.fuzzing_truth import perceptron_truth
from widemargin import LinearSVC, MaxMarginClassifier, PerceptronClassifier

pytestmark = pytest.mark.fuzz


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@short_or_profile()
@given(
    problem=classifications(),
    C=powers(-6, 8),
    tol=st.sampled_from([1e-4, 1e-1, 1e-8]),
    multi_class=st.sampled_from(["ovr", "ovo"]),
    scaling=st.sampled_from([None, 1.0, 10.0]),
)
def test_linear_svc(
    intercept: bool, loss: str, problem: Problem, C: float, tol: float, multi_class: str, scaling
) -> None:
    model = LinearSVC(
        C=C, loss=loss, fit_intercept=intercept, tol=tol, multi_class=multi_class,
        intercept_scaling=scaling,
    )  # fmt: skip
    name = f"LinearSVC {loss}{'' if intercept else ' origin'}"
    judge(name, model, problem, linear_truth, probabilities=True, leave_one_out=True)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@short_or_profile()
@given(problem=classifications(containers=DENSE), C=powers(-6, 8))
def test_linear_svc_by_sampling(intercept: bool, problem: Problem, C: float) -> None:
    model = LinearSVC(loss="hinge", C=C, fit_intercept=intercept, solver="sampling", tol=1e-9)
    name = f"LinearSVC sampling{'' if intercept else ' origin'}"
    judge(name, model, problem, linear_truth, probabilities=True, leave_one_out=True)


@pytest.mark.parametrize("norm", [1, 2, np.inf, 1.5], ids=["l1", "l2", "linf", "l1.5"])
@short_or_profile()
@given(problem=classifications(most_rows=25), C=powers(-4, 5))
def test_soft_norm_margin(norm: float, problem: Problem, C: float) -> None:
    model = MaxMarginClassifier(norm, C=C)
    name = f"MaxMarginClassifier l_{norm:g}"
    judge(name, model, problem, norm_truth, probabilities=True, leave_one_out=True)


@pytest.mark.parametrize("norm", [1, 2, np.inf, 1.5], ids=["l1", "l2", "linf", "l1.5"])
@short_or_profile()
@given(problem=classifications(most_rows=12, most_classes=3))
def test_hard_norm_margin(norm: float, problem: Problem) -> None:
    """Classes that no hyperplane separates are refused: fewer rows, so that most are not."""
    model = MaxMarginClassifier(norm, C=np.inf)
    judge(f"MaxMarginClassifier l_{norm:g} hard", model, problem, norm_truth, leave_one_out=True)


@short_or_profile()
@given(problem=classifications(weighted=False), eta=powers(-3, 3))
def test_perceptron(problem: Problem, eta: float) -> None:
    model = PerceptronClassifier(eta, max_iter=200)
    judge("PerceptronClassifier", model, problem, perceptron_truth(), weighted=False)


@short_or_profile()
@given(
    problem=classifications(weighted=False),
    eta=powers(-3, 3),
    kernel=st.one_of(mercer_kernels, other_kernels),
)
def test_kernel_perceptron(problem: Problem, eta: float, kernel: dict[str, Any]) -> None:
    model = PerceptronClassifier(eta, max_iter=200, **kernel)
    judge("PerceptronClassifier kernel", model, problem, perceptron_truth(), weighted=False)
