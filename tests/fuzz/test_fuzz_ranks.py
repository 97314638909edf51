"""The machines of ordered ranks, on drawn problems.

OrdinalSVC: the objective over all pairs, one by one; no utility that another solver finds may have
an objective below the claimed lower bound. CumulativeLinkClassifier: the same with a literal
likelihood.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.byhand_ranks import (
    Cumulative,
    Preference,
    least_rank_error,
    preference_risk,
    square_root,
)
from tests.helpers.fuzzing import bounded, count, fitted, judge, listening, short_or_profile
from tests.helpers.fuzzing_data import classifications, mercer_kernels, other_kernels, powers
from tests.helpers.fuzzing_truth import EPS, check_gap, say, seen
from widemargin import CumulativeLinkClassifier, OrdinalSVC, metrics

pytestmark = pytest.mark.fuzz

problems = classifications(most_rows=22)
losses = st.sampled_from(["hinge", "squared_hinge"])
options = st.fixed_dictionaries(
    {
        "C": powers(-4, 4),
        "C_scale": st.sampled_from(["pair", "total"]),
        "thresholds": st.sampled_from(["optimal", "margin"]),
        "tol": st.sampled_from([1e-2, 1e-4, 1e-6]),
    }
)
queries = st.sampled_from([None, 2, 5])


def queries_of(problem, n_queries):
    """Return the query of each row; the first two rows of different rank share one."""
    if n_queries is None:
        return {}
    qid = problem.rng(9).integers(0, n_queries, problem.n)
    qid[np.unique(problem.codes, return_index=True)[1]] = 0
    return {"qid": qid}


def utilities(model, problem, matrix):
    """Return the model's utilities by hand, what rounding can do to them, and the penalty."""
    X = problem.values
    if model.kernel == "linear":
        w = model.coef_
        penalty = np.abs(w).sum() if model.norm == 1 else 0.5 * w @ w
        return X @ w, (problem.d + 4) * EPS * (np.abs(X) @ np.abs(w)), penalty, 0.0
    kernel = seen(model, problem, matrix)
    beta = np.zeros(problem.n)
    beta[model.support_] = model.dual_coef_[0]
    f, error = kernel.K @ beta, kernel.sums(beta)
    return f, error, 0.5 * beta @ f, float(np.abs(beta) @ error)


def other_objective(model, problem, matrix, pairs):
    """Return an objective that can be reached, with what rounding can do to it."""
    X = problem.values
    if model.kernel == "linear":
        w = pairs.proposal(X, model.norm)
        if w is None:
            return np.inf
        penalty = np.abs(w).sum() if model.norm == 1 else 0.5 * w @ w
        f, error, off = X @ w, (problem.d + 4) * EPS * (np.abs(X) @ np.abs(w)), 0.0
    else:
        kernel = seen(model, problem, matrix)
        R, T = square_root(kernel.K)
        w = pairs.proposal(R)
        if w is None:
            return np.inf
        beta = T @ w
        f, error = kernel.K @ beta, kernel.sums(beta)
        penalty, off = 0.5 * beta @ f, float(np.abs(beta) @ error)
    return pairs.primal(f, penalty) + pairs.rounding(f, error) + off


def truth_of(matrix=None, qid=None, indefinite=False):
    """Return the check of OrdinalSVC."""

    def truth(model, problem):
        if indefinite:
            return
        codes = np.searchsorted(model.classes_, problem.y)
        group = np.zeros(problem.n, dtype=int) if qid is None else qid
        squared, shared = model.loss == "squared_hinge", model.C_scale == "total"
        pairs = Preference(codes, group, problem.weight, model.C, squared, shared)
        f, error, penalty, off = utilities(model, problem, matrix)
        certificate = model.certificate_
        allowed = pairs.rounding(f, error) + off
        say(certificate.primal, pairs.primal(f, penalty), allowed, "primal")
        check_gap(certificate, allowed)
        reached = min(pairs.primal(0.0 * f, 0.0), other_objective(model, problem, matrix, pairs))
        assert certificate.dual <= reached + 1e-9 * max(1.0, reached) + allowed, "no lower bound"
        if certificate.converged:
            assert certificate.relative_gap <= model.tol * (1 + 1e-9)
        times = problem.weight[pairs.upper] * problem.weight[pairs.lower]
        assert np.isclose(model.n_pairs_, times.sum())
        if hasattr(model, "thresholds_"):
            X = problem.X if matrix is None else matrix
            # Rows in single precision are ranked by sums in single precision.
            unit = 2.0**29 if "float32" in problem.container and matrix is None else 1.0
            check_thresholds(model, problem, codes, X, unit * error.max())

    return truth


def check_thresholds(model, problem, codes, X, error):
    """Demand rising thresholds; those that are said to be the best are so, cut by cut."""
    theta = model.thresholds_
    assert np.isfinite(theta).all()
    assert (np.diff(theta) >= 0).all()
    if model.thresholds != "optimal":
        return
    with listening():
        f, predicted = model.utility(X), model.predict(X)
    distinct = np.unique(f[problem.weight > 0])
    # The outermost thresholds are 1 beyond the utilities.
    if np.diff(distinct).min(initial=1.0) <= max(2e-6, 4 * error):
        return  # utilities that are a millionth of the margin apart count as equal
    wrong = problem.weight @ np.abs(np.searchsorted(model.classes_, predicted) - codes)
    least = least_rank_error(f, codes, problem.weight, len(theta) + 1)
    assert np.isclose(wrong, least, rtol=1e-9)


def ranked(name, model, problem, qid, *, pooled=True, **options):
    """Judge an ordinal machine, with queries or without."""
    indefinite = model.kernel == "sigmoid" or (model.kernel == "poly" and model.coef0 < 0)
    truth = truth_of(qid=qid.get("qid"), indefinite=indefinite, **options)
    if pooled or not qid:
        model.set_params(pooled_ranks=bool(qid))
        judge(name, model, problem, truth, arguments=qid, leave_one_out=not qid)
        return
    arguments = dict(qid)
    if problem.sample_weight is not None:
        arguments["sample_weight"] = problem.sample_weight
    with bounded(problem, model):
        if fitted(name, model, problem, problem.X, arguments):
            truth(model, problem)
            with listening():
                assert np.isfinite(model.utility(problem.X)).all()
                assert np.isfinite(model.utility(problem.fresh)).all()


@given(problem=problems, kernel=mercer_kernels, loss=losses, options=options)
@short_or_profile()
def test_fuzz_ordinal_svc(problem, kernel, loss, options):
    ranked(f"OrdinalSVC {loss}", OrdinalSVC(loss=loss, **kernel, **options), problem, {})


@given(problem=problems, kernel=mercer_kernels, loss=losses, options=options, n=queries)
@short_or_profile()
def test_fuzz_ordinal_svc_with_queries(problem, kernel, loss, options, n):
    model = OrdinalSVC(loss=loss, **kernel, **options)
    qid = queries_of(problem, n)
    ranked("OrdinalSVC queries", model, problem, qid, pooled=problem.seed % 2 == 0)


@given(problem=problems, options=options, n=queries)
@short_or_profile()
def test_fuzz_ordinal_svc_in_the_1_norm(problem, options, n):
    model = OrdinalSVC(kernel="linear", norm=1, **options)
    ranked("OrdinalSVC norm 1", model, problem, queries_of(problem, n))


@given(problem=problems, kernel=other_kernels, loss=losses, options=options)
@short_or_profile()
def test_fuzz_ordinal_svc_with_other_kernels(problem, kernel, loss, options):
    model = OrdinalSVC(loss=loss, **kernel, **options)
    ranked("OrdinalSVC other kernels", model, problem, {})


@given(problem=problems, kernel=st.sampled_from(["rbf", "linear"]), loss=losses, options=options)
@short_or_profile()
def test_fuzz_ordinal_svc_precomputed(problem, kernel, loss, options):
    X, fresh = (problem.kernel_matrix(rows, kernel) for rows in (problem.values, problem.fresh))
    model = OrdinalSVC(kernel="precomputed", loss=loss, **options)
    judge("OrdinalSVC precomputed", model, problem, truth_of(X), X=X, fresh=fresh)


# ---------------------------------------------------------------- cumulative models


def cumulative_truth(model, problem):
    """The likelihood and the objective are those of the literal formulas; the bound is one."""
    used = problem.weight > 0
    codes = np.searchsorted(model.classes_, problem.y)[used]
    by_hand = Cumulative(problem.values[used], codes, problem.weight[used], model.alpha, model.link)
    w, theta = model.coef_, model.thresholds_
    assert (np.diff(theta) > 0).all()
    allowed = by_hand.rounding(w, theta)
    say(model.log_likelihood_, by_hand.likelihood(w, theta), allowed, "log-likelihood")
    certificate = model.certificate_
    if certificate is None:
        assert model.alpha == 0
        return
    primal = by_hand.primal(w, theta)
    say(certificate.primal, primal, allowed, "primal")
    check_gap(certificate, allowed)
    reached = by_hand.bound(w, theta)
    assert certificate.dual <= reached + 1e-9 * max(1.0, reached) + allowed, "no lower bound"
    if certificate.converged:
        assert certificate.gap <= model.tol * max(1.0, abs(primal)) * (1 + 1e-9)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
@given(problem=problems, alpha=powers(-6, 3))
@short_or_profile()
def test_fuzz_cumulative_link(link, problem, alpha):
    model = CumulativeLinkClassifier(link=link, alpha=alpha)
    name = f"CumulativeLinkClassifier {link}"
    judge(name, model, problem, cumulative_truth, probabilities=True)


@given(problem=problems, link=st.sampled_from(["logit", "probit", "cloglog"]))
@short_or_profile()
def test_fuzz_cumulative_link_without_penalty(problem, link):
    model = CumulativeLinkClassifier(link=link, alpha=0.0)
    judge("CumulativeLinkClassifier alpha 0", model, problem, cumulative_truth)


# ---------------------------------------------------------------- the metric


@given(
    problem=classifications(most_rows=40),
    ties=st.sampled_from([0.5, 1.0]),
    scaled=st.booleans(),
    n=queries,
)
@short_or_profile()
def test_fuzz_preference_risk(problem, ties, scaled, n):
    name, qid = "preference_risk", queries_of(problem, n)
    score = problem.values[:, 0]
    group = qid.get("qid", np.zeros(problem.n, dtype=int))
    weight = problem.weight
    with bounded(problem, name), listening():
        found = metrics.preference_risk(
            problem.codes, score, scaled=scaled, ties=ties, sample_weight=weight, **qid
        )
    wanted = preference_risk(problem.codes, score, group, weight, ties, scaled)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    count(name, "problems")
