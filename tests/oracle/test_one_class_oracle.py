"""OneClassSVM against LIBSVM, an interior-point solver, and retraining without each sample."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.awkward import Case, classification_cases
from tests.helpers.byhand import gram, row_coefficients
from widemargin import OneClassSVM, loo

TIGHT = 1e-8
RELATIVE = 1e-6
NUS = (0.003, 0.123, 0.5, 0.87)


@dataclass
class ByHand:
    """min 1/2 |w|^2 - nu rho sum(weight) + sum weight_i max(0, rho - f_i)."""

    K: np.ndarray
    weight: np.ndarray
    nu: float

    def dual(self, beta):
        return -0.5 * beta @ self.K @ beta

    def primal(self, beta, rho):
        f = self.K @ beta
        total = self.nu * self.weight.sum()
        return 0.5 * beta @ f - rho * total + self.weight @ np.maximum(0.0, rho - f)

    def least_primal(self, beta):
        """Return the primal at the best rho, which is one of the scores."""
        return min(self.primal(beta, rho) for rho in self.K @ beta)

    def infeasibility(self, beta):
        total = self.nu * self.weight.sum()
        box = max(0.0, -beta.min(), (beta - self.weight).max())
        return max(box / self.weight.max(), abs(beta.sum() - total) / total)


def _cases():
    """Return the samples of the two-class problems, without labels."""
    plain = [c for c in classification_cases() if c.class_weight is None]
    return [Case(c.name, c.X, np.ones(len(c.y)), c.kernel, c.sample_weight) for c in plain]


EVERY = pytest.mark.parametrize(
    ("case", "nu"), [pytest.param(c, nu, id=f"{c}-{nu:g}") for c in _cases() for nu in NUS]
)


def _fit(model, case, rows=slice(None)):
    weight = None if case.sample_weight is None else case.sample_weight[rows]
    with warnings.catch_warnings():
        # TIGHT may be out of reach of rounding; the objective is judged all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(case.X[rows], sample_weight=weight)


def _clarabel(by_hand):
    """Return the optimum of the dual and the width of its bracket."""
    n, total = len(by_hand.weight), by_hand.nu * by_hand.weight.sum()
    # In units of the sum, and of the trace: so that its tolerances are relative.
    size = total**2 * np.trace(by_hand.K) / n
    P = sp.csc_matrix(np.triu(by_hand.K) * (total**2 / size))
    A = sp.csc_matrix(np.vstack([np.ones((1, n)), np.eye(n), -np.eye(n)]))
    side = np.concatenate([[1.0], by_hand.weight / total, np.zeros(n)])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    found = clarabel.DefaultSolver(P, np.zeros(n), A, side, cones, settings).solve()
    width = size * abs(found.obj_val - found.obj_val_dual)
    return -0.5 * size * (found.obj_val + found.obj_val_dual), width, size


@EVERY
def test_optimum_is_that_of_clarabel(case: Case, nu: float) -> None:
    small, fold = case.merged()
    by_hand = ByHand(small.K, small.weight, nu)
    optimum, width, size = _clarabel(by_hand)
    assert width <= 1e-8 * size
    model = _fit(OneClassSVM(**case.kernel, nu=nu, tol=TIGHT), case)
    beta, certificate = fold(row_coefficients(model, len(case.y))), model.certificate_
    # The optimum is zero if the hull contains the origin: then to the gap that tol allows.
    slack = RELATIVE * abs(optimum) + width + 1e-9 * size + TIGHT * nu * case.weight.sum()
    assert by_hand.infeasibility(beta) < 1e-8
    assert by_hand.dual(beta) == pytest.approx(optimum, abs=slack)
    assert certificate.dual == pytest.approx(by_hand.dual(beta), abs=1e-10 * size)
    assert certificate.primal == pytest.approx(by_hand.least_primal(beta), abs=1e-10 * size)
    assert certificate.dual - slack <= optimum <= certificate.primal + slack
    assert certificate.primal == pytest.approx(optimum, abs=slack)
    # The threshold is the one that minimises the primal.
    assert by_hand.primal(beta, model.offset_[0]) <= certificate.primal + 1e-10 * size


@EVERY
def test_optimum_and_decision_values_are_those_of_libsvm(case: Case, nu: float) -> None:
    small, fold = case.merged()
    by_hand = ByHand(small.K, small.weight, nu)
    ours = _fit(OneClassSVM(**case.kernel, nu=nu, tol=TIGHT), case)
    mine = fold(row_coefficients(ours, len(case.y)))
    # scikit-learn's support_ counts only rows of positive weight, so it gets no others.
    present = np.flatnonzero(case.weight > 0)
    libsvm = sklearn.svm.OneClassSVM(**case.kernel, nu=nu, tol=TIGHT, max_iter=100_000)
    theirs = np.zeros(len(case.y))
    libsvm = _fit(libsvm, case, present)
    theirs[present] = row_coefficients(libsvm, len(present))
    theirs = fold(theirs)
    assert by_hand.infeasibility(theirs) < 1e-8
    size = nu * case.weight.sum() * np.abs(small.K).max()  # of the scores
    total = nu * case.weight.sum()
    allowed = RELATIVE * abs(by_hand.dual(theirs)) + TIGHT * total
    assert by_hand.dual(mine) >= by_hand.dual(theirs) - allowed
    if libsvm.fit_status_ == 0:  # strictly convex in the scores, so these are unique
        scores, others = ours.score_samples(case.X), libsvm.score_samples(case.X)
        np.testing.assert_allclose(scores, others, atol=3e-5 * size)
        free = (mine > 1e-6 * small.weight) & (mine < (1 - 1e-6) * small.weight)
        if free.any():  # then the threshold is unique, too
            decision, others = ours.decision_function(case.X), libsvm.decision_function(case.X)
            np.testing.assert_allclose(decision, others, atol=3e-5 * size)


@pytest.mark.parametrize("case", _cases(), ids=str)
def test_nu_one_is_the_kernel_density(case: Case) -> None:
    """All multipliers are at their bounds; LIBSVM has no finite threshold there."""
    model = _fit(OneClassSVM(**case.kernel, nu=1.0), case)
    density = gram(case.X, case.X, **case.kernel) @ case.weight
    np.testing.assert_allclose(model.score_samples(case.X), density, rtol=1e-9, atol=1e-9)
    largest = density[case.weight > 0].max()
    assert model.offset_[0] == pytest.approx(largest, rel=1e-9)
    assert model.certificate_.converged


@pytest.mark.parametrize("name", ["overlap", "polynomial", "duplicates", "weights", "integers"])
@pytest.mark.parametrize("nu", [0.123, 0.6])
def test_leave_one_out_is_retraining(name: str, nu: float) -> None:
    case = next(c for c in _cases() if c.name == name)
    model = OneClassSVM(**case.kernel, nu=nu, tol=TIGHT)
    model.fit(case.X, sample_weight=case.sample_weight)
    found = loo.result(model)
    assert found.kind == "exact"
    expected = np.empty(len(case.y))
    for i in range(len(case.y)):
        weight = case.weight.copy()
        weight[i] -= min(1.0, weight[i])
        retrained = sklearn.svm.OneClassSVM(**case.kernel, nu=nu, tol=TIGHT, max_iter=100_000)
        retrained.fit(case.X, sample_weight=weight)
        scores = retrained.score_samples(case.X)
        # LIBSVM takes another threshold of the interval if it is not unique: the midpoint here.
        expected[i] = scores[i] - _midpoint(scores, weight, nu)
    size = np.abs(expected).max()
    np.testing.assert_allclose(found.values, expected, atol=1e-5 * size)
    clear = np.abs(expected) > 1e-5 * size
    np.testing.assert_array_equal(found.errors[clear], expected[clear] < 0)
    assert found.error == pytest.approx(np.average(found.errors, weights=case.weight))


def _midpoint(scores, weight, nu):
    """Return the midpoint of the thresholds with at most nu below and at least nu up to them."""
    order = np.argsort(scores)
    order = order[weight[order] > 0]
    climbed = np.cumsum(weight[order]) - nu * weight.sum()
    first = np.argmax(climbed >= -1e-9)
    last = np.argmax(climbed > 1e-9)
    return 0.5 * (scores[order[first]] + scores[order[last]])


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("nu", [0.01, 0.2, 0.9])
def test_thousands_of_samples(nu: float, weighted: bool) -> None:
    """Beyond 5,000 samples there are subsamples, active sets and float32 kernel values."""
    rng = np.random.default_rng(7)
    X = np.r_[rng.normal(size=(5500, 4)), rng.uniform(-6, 6, size=(500, 4))]
    weight = rng.uniform(0.1, 3.0, len(X)) if weighted else np.ones(len(X))
    ours = OneClassSVM(nu=nu, gamma=0.2).fit(X, sample_weight=weight)
    libsvm = sklearn.svm.OneClassSVM(nu=nu, gamma=0.2).fit(X, sample_weight=weight)
    K = gram(X, X, kernel="rbf", gamma=0.2)
    by_hand = ByHand(K, weight, nu)
    mine, theirs = row_coefficients(ours, len(X)), row_coefficients(libsvm, len(X))
    assert by_hand.infeasibility(mine) < 1e-9
    dual = by_hand.dual(mine)
    assert dual >= by_hand.dual(theirs) * (1 + RELATIVE)
    assert ours.certificate_.converged
    assert ours.certificate_.dual == pytest.approx(dual, rel=1e-9)
    total = nu * weight.sum()
    assert by_hand.primal(mine, ours.offset_[0]) == pytest.approx(dual, abs=ours.tol * total)
    assert weight[ours.predict(X) < 0].sum() <= total * (1 + 1e-12)
