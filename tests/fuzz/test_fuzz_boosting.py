"""Boosting and radial-basis networks, on drawn problems.

AdaBoost has no certificate, but identities: each hypothesis has the weighted error that is claimed,
no stump has a smaller one, the exponential loss is the product of the rounds' factors, and margins
are those of the votes.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.naive_bayes import BernoulliNB
from sklearn.tree import DecisionTreeClassifier

from tests.helpers.byhand_votes import (
    least_stump_error,
    margins,
    masses,
    network,
    network_error,
    stump_votes,
)
from tests.helpers.fuzzing import judge, short_or_profile
from tests.helpers.fuzzing_containers import DENSE
from tests.helpers.fuzzing_data import classifications, powers
from widemargin import AdaBoostClassifier, RBFNetClassifier

pytestmark = pytest.mark.fuzz

problems = classifications(most_rows=30)
rounds = st.integers(1, 15)
NO_EDGE = 1e-12  # documented: errors this close to 1/2 count as 1/2, stumps this close as equal


def machines(model, problem):
    """Yield the labels, hypotheses, coefficients, errors and end of each machine."""
    codes = np.searchsorted(model.classes_, problem.y)
    if len(model.classes_) == 2:
        yield 2.0 * codes - 1.0, model.estimators_, model.alphas_, model.errors_, model.stopped_
        return
    parts = zip(model.estimators_, model.alphas_, model.errors_, model.stopped_, strict=True)
    for k, part in enumerate(parts):
        yield np.where(codes == k, 1.0, -1.0), *part


def votes_of(model, hypotheses, problem):
    """Return what each hypothesis says of the rows, -1 or +1."""
    if model.base is None:
        return np.array([stump_votes(stump, problem.values) for stump in hypotheses])
    rows = np.asarray(problem.X)  # without names of columns, as the hypotheses were fitted
    return np.array([np.where(h.predict(rows) == 1, 1.0, -1.0) for h in hypotheses])


def truth(model, problem):
    """Errors, coefficients, loss and margins are those that the votes come to."""
    used = problem.weight > 0
    values = []
    for y, hypotheses, alphas, errors, stopped in machines(model, problem):
        votes = votes_of(model, hypotheses, problem)
        assert len(votes) == len(alphas) == len(errors) >= 1
        assert np.isfinite(alphas).all()
        assert (alphas > 0).all()
        values.append(np.clip(alphas @ votes / alphas.sum(), -1.0, 1.0))
        if model.reg == 0:
            seen = problem.values[used] if model.base is None else None
            check_rounds(
                votes[:, used], y[used], problem.weight[used], alphas, errors, stopped, seen
            )
    table = values[0] if len(model.classes_) == 2 else np.column_stack(values)
    codes = np.searchsorted(model.classes_, problem.y)
    np.testing.assert_allclose(model.margins_, margins(table, codes), atol=1e-12)
    if model.base is None and len(model.classes_) == 2 and model.reg == 0:
        assert model.margins_[used].min() <= model.margin_limit_ + 1e-9


def check_rounds(votes, y, weight, alphas, errors, stopped, X):
    """Demand the errors of the rounds, that no stump is better, and the loss that is left."""
    alone = stopped in ("perfect", "no_edge_at_all")
    mass = masses(votes, alphas, y, weight)
    found = np.array([m[vote != y].sum() for m, vote in zip(mass, votes, strict=True)])
    if stopped == "perfect":
        assert len(alphas) == 1
        assert not found.any()
    if X is not None:
        least = np.array([least_stump_error(X, y, m) for m in mass])
        assert (errors <= least + 1e-9).all(), "there is a better stump"
    np.testing.assert_allclose(errors, found, atol=1e-9)
    if alone:
        return
    assert (errors < 0.5).all()
    np.testing.assert_allclose(alphas, 0.5 * np.log((1 - errors) / errors), rtol=1e-9, atol=1e-12)
    loss = weight / weight.sum() @ np.exp(-y * (alphas @ votes))
    factors = 2.0 * np.sqrt(errors * (1.0 - errors))
    np.testing.assert_allclose(np.log(loss), np.log(factors).sum(), atol=1e-6 * len(errors))


@pytest.mark.parametrize("binning", ["exact", "histogram"])
@given(problem=problems, n_rounds=rounds)
@short_or_profile()
def test_fuzz_adaboost(binning, problem, n_rounds):
    model = AdaBoostClassifier(n_rounds, binning=binning)
    judge(f"AdaBoostClassifier {binning}", model, problem, truth, probabilities=True)


@given(problem=problems, n_rounds=rounds, reg=powers(-3, 4), power=st.sampled_from([1.0, 2.0, 3.5]))
@short_or_profile()
def test_fuzz_adaboost_reg(problem, n_rounds, reg, power):
    model = AdaBoostClassifier(n_rounds, reg=reg, reg_power=power)
    judge("AdaBoostClassifier reg", model, problem, truth, probabilities=True)


BASES = {
    "tree": DecisionTreeClassifier(max_depth=2),
    "bayes": BernoulliNB(),
    "net": RBFNetClassifier(n_centres=3, n_steps=2),
}


@given(
    # The base learners are scikit-learn's too: what they say of scales beyond float64's squares is
    # not ours, so that only regimes of common scales are drawn for them.
    problem=classifications(containers=DENSE, most_rows=20).filter(
        lambda p: p.regime in ("normal", "grid", "binary", "repeated", "line", "constant_columns")
    ),
    base=st.sampled_from(sorted(BASES)),
    n_rounds=st.integers(1, 5),
)
@short_or_profile()
def test_fuzz_adaboost_of_other_classifiers(problem, base, n_rounds):
    model = AdaBoostClassifier(n_rounds, base=BASES[base])
    judge("AdaBoostClassifier base", model, problem, truth)


# ---------------------------------------------------------------- radial-basis networks


def network_truth(model, problem):
    """The error is that of the centres, widths and outputs; no other outputs make it smaller."""
    used = problem.weight > 0
    X, share = problem.values[used], problem.weight[used] / problem.weight.sum()
    codes = np.searchsorted(model.classes_, problem.y)[used]
    positives = [1] if len(model.classes_) == 2 else range(len(model.classes_))
    for k, positive in enumerate(positives):
        y = np.where(codes == positive, 1.0, -1.0)
        parts = (model.centres_[k], model.widths_[k])
        value, gradient = network_error(X, y, share, *parts, model.coef_[k], model.ridge)
        off = network_rounding(model, problem, k, used)
        size = np.abs(model.coef_[k]).sum() + 1.0
        assert abs(model.errors_[k] - value) <= 1e-9 + off * size**2
        assert model.errors_[k] <= 0.5 + 1e-9, "worse than saying nothing"
        terms = network(X, *parts).T @ share * size + model.ridge * size
        assert (np.abs(gradient) <= 1e-6 * terms + off * size).all(), "better outputs exist"


def network_rounding(model, problem, k, used):
    """Return what rounding can do to a bump: its exponent is a difference of squared lengths."""
    X = problem.values[used]
    middle = problem.weight[used] @ X / problem.weight.sum()
    origin = np.zeros(problem.d) if problem.container not in DENSE else middle
    far = np.vstack([X, model.centres_[k]]) - origin
    reach = ((far**2).sum(axis=1)).max() + 1e-16 * (np.abs(X).max() ** 2)
    return 1e-13 * (1.0 + float(reach / model.widths_[k].min() ** 2))


@given(
    problem=problems,
    n_centres=st.integers(1, 8),
    n_steps=st.integers(0, 6),
    ridge=powers(-12, 1),
)
@short_or_profile()
def test_fuzz_rbf_net(problem, n_centres, n_steps, ridge):
    model = RBFNetClassifier(n_centres, n_steps=n_steps, ridge=ridge)
    judge("RBFNetClassifier", model, problem, network_truth)
