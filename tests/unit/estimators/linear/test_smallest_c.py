"""l1_min_c: against scikit-learn, and against fits just below and above it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import svm
from sklearn.datasets import load_iris

from widemargin import l1_min_c
from widemargin.problems.l1_margin import L1Margin
from widemargin.solvers.base import Budget
from widemargin.solvers.l1_margin import solve


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_with_a_penalised_intercept_it_is_scikit_learns(classes, sparse):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < classes][:120], y[y < classes][:120]
    names = np.array(["a", "b", "c"])[y]
    data = sp.csr_array(X) if sparse else X
    for scaling in (0.5, 1.0, 100.0):
        theirs = svm.l1_min_c(X, names, intercept_scaling=scaling)
        assert l1_min_c(data, names, intercept_scaling=scaling) == pytest.approx(theirs)
    theirs = svm.l1_min_c(X, names, fit_intercept=False)
    assert l1_min_c(data, names, fit_intercept=False) == pytest.approx(theirs)
    ours = l1_min_c(data, names, fit_intercept=False, intercept_scaling=9.0)
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("classes", [2, 3])
def test_fits_below_and_above(classes, intercept):
    X, y = load_iris(return_X_y=True)
    X, y = X[:140], y[:140]  # classes of different sizes
    X, y = X[y < classes], y[y < classes]
    least = l1_min_c(X, y, fit_intercept=intercept)
    used = []
    for C in (0.999 * least, 1.02 * least):
        weights = []
        for k in range(classes):
            problem = L1Margin(np.where(y == k, 1.0, -1.0), np.full(len(y), C), intercept)
            weights.append(solve(problem, X, tol=1e-9, budget=Budget(100)).coef)
        used.append(np.count_nonzero(weights))
    assert used[0] == 0
    assert used[1] > 0


def test_data_that_no_C_helps():
    y = np.array([0, 0, 1])
    with pytest.raises(ValueError, match="no C makes a weight nonzero"):
        l1_min_c(np.full((3, 2), 0.1), y)  # constant features next to a free intercept
    with pytest.raises(ValueError, match="no C makes a weight nonzero"):
        l1_min_c(np.zeros((3, 2)), y)
    assert l1_min_c(np.ones((3, 2)), y, intercept_scaling=1.0) == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "log"}, r'loss must be "squared_hinge".*sklearn.svm.l1_min_c'),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be a positive number"),
        ({"fit_intercept": 1}, "fit_intercept must be True or False"),
    ],
)
def test_bad_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        l1_min_c(np.eye(2), [0, 1], **options)


def test_one_class_is_an_error():
    with pytest.raises(ValueError, match="at least two classes"):
        l1_min_c(np.eye(2), [1, 1])
