"""What drawn problems have found, so that it stays found: each line is a fault that was mended."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.fuzzing import judge
from tests.helpers.fuzzing_data import Problem
from tests.helpers.fuzzing_exact import (
    classifier_truth,
    hull_truth,
    linear_truth,
    norm_truth,
    regressor_truth,
    tube_truth,
)
from widemargin import (
    SVC,
    SVR,
    LinearSVC,
    MaxMarginClassifier,
    NuSVR,
    PerceptronClassifier,
    ReducedHullSVC,
    TubeSVR,
)

# With tests/fuzz, these are run again with every index of compiled code checked (.ci/run).
pytestmark = pytest.mark.fuzz


def classes(n: int, d: int, seed: int, regime: str, container: str, **more: Any) -> Problem:
    """Return a drawn problem with classes."""
    return Problem("classes", n, d, seed, regime, container, **more)


def targets(n: int, d: int, seed: int, regime: str, container: str, **more: Any) -> Problem:
    """Return a drawn problem with targets."""
    return Problem("target", n, d, seed, regime, container, **{"labels": "float64", **more})


POLY3 = {"kernel": "poly", "gamma": 0.1, "coef0": 1.0, "degree": 3}
FOUND = {
    # rows far from the origin: exponents of the rbf kernel by inner products were noise
    "far rows": (
        SVC(gamma="auto"),
        classes(24, 1, 186892, "special", "big_endian", weights="uniform"),
        classifier_truth(),
    ),
    "far sparse rows": (
        SVC(gamma=79.0, loss="squared_hinge", fit_intercept=False),
        classes(37, 5, 3435, "offset", "csc_array", manner="by_first_feature", weights="zeros"),
        classifier_truth(),
    ),
    # half a million steps of Python that changed nothing float64 can show
    "idle sweeps": (
        SVC(C=8.9e-6, kernel="linear", solver="sampling", tol=1e-6),
        classes(9, 3, 836293, "mixed_scales", "fortran", manner="alternate"),
        classifier_truth(),
    ),
    "idle sweeps of a tube": (
        NuSVR(C=5754399.4, degree=1, gamma=1.0, kernel="poly", nu=0.001, tol=0.1),
        targets(2, 6, 2, "special", "coo_matrix", weights="zeros"),
        regressor_truth(),
    ),
    "idle bands": (
        SVC(C=11.748975549395297, kernel="linear"),
        classes(
            31,
            1,
            24,
            "special",
            "coo_matrix",
            labels="strings",
            n_classes=4,
            manner="by_first_feature",
            weights="wide",
        ),
        classifier_truth(),
    ),
    # a kernel that rounding makes indefinite: without a box the dual had no end
    "no end": (
        SVC(C=229.0, loss="squared_hinge", fit_intercept=False, solver="smo", tol=0.1, **POLY3),
        classes(9, 60, 60515335, "offset", "int64", labels="bools", weights="whole"),
        classifier_truth(),
    ),
    # float32 rows: a polynomial beyond float32 was predicted by infinity
    "single precision": (
        SVC(kernel="poly", degree=4, coef0=10.0, solver="adatron", max_iter=5000),
        classes(7, 5, 378454, "offset", "float32", labels="floats"),
        classifier_truth(),
    ),
    # no support vectors: the mean of no rows
    "nothing learnt": (
        SVR(gamma=1.0, C=9.3e-6, epsilon=100.0),
        targets(39, 6, 1, "grid", "csr_float32", manner="small", weights="wide"),
        regressor_truth(),
    ),
    # leave-one-out wrote beyond an array: a step without end blocked the same row again and again
    "a step without end": (
        SVC(
            C=1202.2644346174131, kernel="linear", loss="squared_hinge", solver="sampling", tol=1e-6
        ),
        classes(7, 1, 3372, "special", "csr_matrix", weights="whole"),
        classifier_truth(),
    ),
    # systems of equations that cannot be solved
    "tiny rows": (
        LinearSVC(loss="hinge", C=0.03, solver="sampling", tol=1e-9),
        classes(5, 6, 193, "tiny", "fortran", labels="objects", n_classes=4, weights="uniform"),
        linear_truth,
    ),
    "scales apart": (
        LinearSVC(loss="hinge", C=11.2, solver="sampling", tol=1e-9),
        classes(9, 2, 256250, "extreme", "fortran", manner="alternate", weights="whole"),
        linear_truth,
    ),
    "denormal rows": (
        MaxMarginClassifier(1, C=float("inf")),
        classes(3, 3, 331449, "denormal", "twice", manner="by_first_feature", weights="whole"),
        norm_truth,
    ),
    # two of the classes hold zeros and denormal numbers only: one over their size is infinite
    "a pair of denormal rows": (
        MaxMarginClassifier(1, C=15.13561248436208),
        classes(
            4,
            1,
            28642,
            "special",
            "coo_array",
            manner="one_row_class",
            labels="strings",
            n_classes=4,
            weights="uniform",
        ),
        norm_truth,
    ),
    # a band so narrow that it was nothing; a step so short that its square was
    "no band left": (
        MaxMarginClassifier(2, C=1.0),
        classes(
            4,
            2,
            340,
            "offset",
            "csc_array",
            manner="by_first_feature",
            n_classes=4,
            weights="uniform",
        ),
        norm_truth,
    ),
    "no curvature left": (
        LinearSVC(loss="squared_hinge", fit_intercept=False, tol=1e-8),
        classes(6, 6, 6, "special", "csr_float32", manner="alternate", n_classes=4),
        linear_truth,
    ),
    # hulls that float64 cannot tell from meeting: the objective is infinite, and it is said
    "no plane found": (
        MaxMarginClassifier(2, C=float("inf")),
        classes(7, 60, 6539, "offset", "csc_array", manner="by_first_feature", weights="zeros"),
        norm_truth,
    ),
    "no margin to divide by": (
        ReducedHullSVC(solver="qp"),
        classes(34, 1, 33554432, "extreme", "read_only", manner="one_row_class", n_classes=3),
        hull_truth,
    ),
    # two masses of a row that cancel left the rounding errors of kernel values of 1e16
    "cancelled masses": (
        TubeSVR(kernel="poly", gamma=1.17, degree=1, coef0=1.0, k=0.5),
        targets(10, 60, 2077, "mixed_scales", "float64", manner="constant", weights="wide"),
        tube_truth,
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found(name: str) -> None:
    model, problem, truth = FOUND[name]
    judge(f"found: {name}", model, problem, truth, leave_one_out=True)


def test_the_hard_margin_of_large_rows_is_the_largest() -> None:
    """One over a margin of 1e16 is 1e-16, which any plane was close enough to."""
    problem = classes(3, 60, 17433, "special", "coo_array", n_classes=3)
    model = MaxMarginClassifier(1.5, C=float("inf")).fit(problem.X, problem.y)
    for certificate in model.certificates_:
        assert certificate.gap <= 1e-6 * certificate.primal


def test_a_variance_beyond_float64_is_refused_in_words() -> None:
    """scale_gamma overflowed: a warning of numpy for dense rows, an OverflowError for sparse."""
    for container in ("float64", "coo_matrix"):
        problem = classes(28, 4, 2899, "huge", container, manner="alternate")
        with pytest.raises(ValueError, match="Scale the features"):
            SVC(kernel="poly").fit(problem.X, problem.y)


def test_kernel_values_beyond_float64_are_refused_in_words() -> None:
    problem = classes(10, 3, 1, "huge", "csr_array")
    with pytest.raises(ValueError, match="too large to compute with: scale the features"):
        SVC(kernel="linear").fit(problem.X, problem.y)
    with pytest.raises(ValueError, match="too large to compute with: scale the features"):
        PerceptronClassifier(kernel="sigmoid", gamma=1.0).fit(problem.X, problem.y)
