"""First-order leave-one-out where nothing can respond."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.kernels import Kernel, Rows
from widemargin.problems.soft_margin import c_classification
from widemargin.solvers.leave_one_out import first_order


@pytest.mark.parametrize("intercept", [True, False])
def test_without_free_rows_the_values_are_those_of_the_fit(intercept: bool) -> None:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.sign(X[:, 0])
    rows = Rows(Kernel("linear"), X)
    problem = c_classification(y, np.full(4, 0.01), intercept=intercept)
    leaving = np.arange(4)
    found = first_order(rows, problem, 0.01 * y, 0.0, leaving, np.ones(4))
    np.testing.assert_allclose(found, 0.06 * X[:, 0])
