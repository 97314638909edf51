"""The doors of the solver packages name a method that they do not have."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers import (
    boosting,
    crammer_singer,
    cumulative,
    l1_margin,
    linear,
    linear_program,
    mean_field,
    norm_margin,
    out_of_core,
    preference,
    rbf_net,
    reduced_hull,
    soft_margin,
)
from widemargin.solvers.base import Budget
from widemargin.solvers.literature import adatron, perceptron, random_sampling
from widemargin.sources.memory import Memory

BEFORE_ANY_WORK = [
    adatron,
    boosting,
    crammer_singer,
    cumulative,
    l1_margin,
    linear,
    linear_program,
    mean_field,
    norm_margin,
    perceptron,
    preference,
    random_sampling,
    rbf_net,
    reduced_hull,
    soft_margin,
]


@pytest.mark.parametrize("package", BEFORE_ANY_WORK, ids=lambda package: package.__name__)
def test_an_unknown_method_is_named(package) -> None:
    with pytest.raises(ValueError, match=r"method must be.*'fastest'"):
        package.solve(None, None, tol=1e-3, budget=Budget(1), method="fastest")


def test_an_unknown_method_is_named_out_of_core() -> None:
    rows = Memory(np.array([[0.0], [1.0]]), np.array([-1.0, 1.0]), np.ones(2))
    with pytest.raises(ValueError, match=r"method must be.*'fastest'"):
        out_of_core.solve(
            LinearProblem("hinge", 1.0), rows, tol=1e-3, budget=Budget(1), method="fastest"
        )
