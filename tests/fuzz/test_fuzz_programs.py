"""The machines that are linear programs, on drawn problems: certificates beside exact objectives.

Slacks, limits of the coefficients and the scale of the tolerance are recomputed in float64.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.byhand_programs import MarginProgram, NuProgram, limits
from tests.helpers.exact_programs import programs
from tests.helpers.fuzzing import judge, short_or_profile
from tests.helpers.fuzzing_data import classifications, mercer_kernels, other_kernels, powers
from tests.helpers.fuzzing_exact import exact_truth
from tests.helpers.fuzzing_truth import EPS, merged, seen
from widemargin import LOOSVC, LPSVC, AdaptiveMarginSVC, NuLPSVC

pytestmark = pytest.mark.fuzz

kernels = st.one_of(mercer_kernels, mercer_kernels, other_kernels)
class_weights = st.sampled_from([None, None, "balanced"])
losses = st.sampled_from(["hinge", "squared_hinge"])
problems = classifications(most_rows=30)


class Machines:
    """The machines of a fitted model on its merged rows, through byhand's kernel."""

    def __init__(self, model, problem, matrix):
        kernel, codes = seen(model, problem, matrix), np.searchsorted(model.classes_, problem.y)
        self.few = merged(problem.values, codes, problem.weight, apart=matrix is not None)
        rows = self.few.rows
        self.model, self.codes, self.rows = model, codes[rows], rows
        part = kernel.part(rows)
        factor = np.ones(len(model.classes_))
        if getattr(model, "class_weight", None) == "balanced":
            factor = self.few.weight.sum() / np.bincount(self.codes, self.few.weight) / len(factor)
        mercer = model.kernel in ("linear", "rbf") or (model.kernel == "poly" and model.coef0 >= 0)
        error = part.error + 4 * len(rows) * EPS * np.abs(part.K)
        weight = self.few.weight * factor[self.codes]
        self.parts = (part.K, weight, limits(part.K, mercer), error)

    def __iter__(self):
        """Yield certificate, labels, coefficients and slacks of each machine."""
        model = self.model
        alpha, slack = np.atleast_2d(model.alpha_), np.atleast_2d(model.slack_)
        positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
        assert len(model.certificates_) == len(alpha) == len(positives)
        for k, positive in enumerate(positives):
            assert (alpha[k] >= 0).all()
            labels = np.where(self.codes == positive, 1.0, -1.0)
            yield model.certificates_[k], labels, self.few.fold(alpha[k]), slack[k][self.rows]


def check_convergence(certificate, scale, tol):
    """Demand that the fit converged if and only if the gap is at most tol * scale."""
    if certificate.converged:
        assert certificate.gap <= 1.0001 * tol * scale
    else:
        assert certificate.gap >= 0.9999 * tol * scale


def truth_of(matrix=None, **given):
    """Return the check of a machine that asks for margins of 1."""
    of_certificates = exact_truth(programs, matrix)

    def truth(model, problem):
        of_certificates(model, problem)
        machines = Machines(model, problem, matrix)
        for certificate, labels, alpha, slack in machines:
            program = MarginProgram(labels, *machines.parts, **given)
            if len(model.classes_) == 2:  # else equal rows of the rest share their sum by weight
                assert (alpha <= program.limit * (1 + 1e-9)).all()
            check_convergence(certificate, max(1.0, certificate.primal), model.tol)
            apart = np.abs(slack - program.slack(alpha))
            assert (apart <= program.error_of_slack(alpha)).all()

    return truth


def nu_truth(matrix=None, **given):
    """Return the check of the nu machine: its certificate is in a scale where alpha sums to 1."""
    of_certificates = exact_truth(programs, matrix)

    def truth(model, problem):
        of_certificates(model, problem)
        machines = Machines(model, problem, matrix)
        for certificate, labels, alpha, _ in machines:
            program = NuProgram(labels, *machines.parts, **given)
            assert alpha.sum() > 0
            scale = program.scale_of_gap(alpha / alpha.sum())
            check_convergence(certificate, scale, model.tol)

    return truth


def judged(model, problem, truth, **given):
    """Judge a machine; a kernel matrix takes the place of one problem in eight."""
    name = type(model).__name__
    if problem.seed % 8 == 1 and model.kernel == "rbf":
        model.set_params(kernel="precomputed", gamma="scale")
        X, fresh = (problem.kernel_matrix(rows) for rows in (problem.values, problem.fresh))
        exact = truth(0.5 * (X + X.T), **given)
        judge(name, model, problem, exact, X=X, fresh=fresh, leave_one_out=True)
    else:
        judge(name, model, problem, truth(**given), probabilities=True, leave_one_out=True)


@given(problem=problems, kernel=kernels, class_weight=class_weights, loss=losses)
@short_or_profile()
def test_fuzz_loo_svc(problem, kernel, class_weight, loss):
    judged(LOOSVC(loss=loss, class_weight=class_weight, **kernel), problem, truth_of, lam=1.0)


@given(problem=problems, kernel=kernels, class_weight=class_weights, lam=powers(-3, 2), loss=losses)
@short_or_profile()
def test_fuzz_adaptive_margin_svc(problem, kernel, class_weight, lam, loss):
    model = AdaptiveMarginSVC(lam=lam, loss=loss, class_weight=class_weight, **kernel)
    judged(model, problem, truth_of, lam=lam)


@given(problem=problems, kernel=kernels, class_weight=class_weights, lam=powers(-6, 3))
@short_or_profile()
def test_fuzz_lp_svc(problem, kernel, class_weight, lam):
    model = LPSVC(lam=lam, class_weight=class_weight, **kernel)
    judged(model, problem, truth_of, price=lam)


@given(problem=problems, kernel=kernels, nu=st.floats(0.0, 1.0))
@short_or_profile()
def test_fuzz_nu_lp_svc(problem, kernel, nu):
    judged(NuLPSVC(nu=nu, **kernel), problem, nu_truth, nu=nu)
