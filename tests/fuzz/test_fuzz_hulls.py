"""ReducedHullSVC and TubeSVR on drawn problems."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.fuzzing import judge, short_or_profile
from tests.helpers.fuzzing_containers import DENSE
from tests.helpers.fuzzing_data import Problem, classifications, mercer_kernels, powers, regressions
from tests.helpers.fuzzing_exact import hull_truth, tube_truth
from widemargin import ReducedHullSVC, TubeSVR

pytestmark = pytest.mark.fuzz

# "auto" first: an asked k is refused where the hulls meet.
sizes = st.sampled_from(["auto", "auto", "auto", 1, 2.5, 0.3, 0.9])


@pytest.mark.parametrize("solver", ["auto", "qp", "smo", "implicit", "sampling"])
@short_or_profile()
@given(problem=classifications(containers=DENSE), k=sizes, cut=st.sampled_from(["theta", "hull"]))
def test_linear_hulls(solver: str, problem: Problem, k: Any, cut: str) -> None:
    model = ReducedHullSVC(k=k, solver=solver, cut=cut)
    name = f"ReducedHullSVC {solver}"
    theta = cut == "theta"  # the other cut has neither probabilities nor leave-one-out
    judge(name, model, problem, hull_truth, probabilities=theta, leave_one_out=theta)


@short_or_profile()
@given(problem=classifications(), k=sizes, kernel=mercer_kernels)
def test_kernel_hulls(problem: Problem, k: Any, kernel: dict[str, Any]) -> None:
    model = ReducedHullSVC(k=k, **kernel)
    name = "ReducedHullSVC kernel"
    judge(name, model, problem, hull_truth, probabilities=True, leave_one_out=True)


@short_or_profile()
@given(
    problem=regressions(),
    kernel=mercer_kernels,
    epsilon=st.one_of(st.just("auto"), st.just("auto"), powers(-2, 6)),
    k=st.sampled_from([0.1, 0.25, 0.5, 1]),
)
def test_tube(problem: Problem, kernel: dict[str, Any], epsilon: Any, k: float) -> None:
    model = TubeSVR(epsilon=epsilon, k=k, **kernel)
    judge("TubeSVR", model, problem, tube_truth, leave_one_out=True)
