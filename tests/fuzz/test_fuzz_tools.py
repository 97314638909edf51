"""What is asked of machines and models, on drawn problems: tuning, paths, suspects, bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.fuzzing import (
    REFUSED,
    bounded,
    check_predictions,
    count,
    kind_of,
    listening,
    refusals,
    refused_on_purpose,
    short_or_profile,
)
from tests.helpers.fuzzing_data import classifications, mercer_kernels, powers
from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    AdaBoostClassifier,
    AdaptiveMarginSVC,
    LinearSVC,
    MeanFieldGPClassifier,
    NuLPSVC,
    OrdinalSVC,
    bounds,
    loo,
    regularisation_path,
    suspects,
    tune,
)

pytestmark = pytest.mark.fuzz

small = classifications(most_rows=16, most_classes=3)
MACHINES = {
    "SVC": SVC(),
    "LinearSVC": LinearSVC(),
    "LOOSVC": LOOSVC(),
    "LPSVC": LPSVC(lam=0.1),
    "OrdinalSVC": OrdinalSVC(),
    "MeanFieldGPClassifier": MeanFieldGPClassifier(),
    "AdaBoostClassifier": AdaBoostClassifier(5),
}


def answered(name, problem, ask, *arguments, **options):
    """Return the answer to a question, None where it is refused on purpose; count it."""
    count(name, "problems")
    with bounded(problem, name), listening():
        try:
            return ask(*arguments, **options)
        except (ValueError, TypeError) as error:
            if not refused_on_purpose(error):
                raise
            count(name, REFUSED)
            refusals[name][kind_of(error)] += 1
            return None


def weights_of(problem):
    """Return the weights as an argument, if there are any."""
    weight = problem.sample_weight
    return {} if weight is None else {"sample_weight": weight}


@given(
    problem=small,
    machine=st.sampled_from([SVC(), SVC(loss="squared_hinge"), LinearSVC()]),
    prior=st.sampled_from([None, 0.0]),
)
@short_or_profile()
def test_fuzz_tune_svc(problem, machine, prior):
    options = {"prior": prior, "max_iter": 3, **weights_of(problem)}
    if isinstance(machine, LinearSVC):
        options["params"] = ("C",)
    model = answered("tune SVC", problem, tune, machine, problem.X, problem.y, **options)
    if model is not None:
        check_tuned(model, problem)


@given(
    problem=small,
    inference=st.sampled_from(["naive", "tap"]),
    criterion=st.sampled_from(["loo", "evidence"]),
)
@short_or_profile()
def test_fuzz_tune_gaussian_process(problem, inference, criterion):
    machine = MeanFieldGPClassifier(inference=inference)
    options = {"criterion": criterion, "max_iter": 3, **weights_of(problem)}
    model = answered("tune GP", problem, tune, machine, problem.X, problem.y, **options)
    if model is not None:
        check_tuned(model, problem)


def check_tuned(model, problem):
    """Demand parameters that were tried, a finite loss, the best of the starts, a model."""
    tuning = model.tuning_
    assert np.isfinite(tuning.loss)
    assert tuning.n_evaluations == len(tuning.trace)
    assert all(np.isfinite(np.asarray(v)).all() for v in tuning.params.values())
    for name, value in tuning.params.items():
        np.testing.assert_array_equal(getattr(model, name), value)
    with listening():
        check_predictions(model, problem.X)


@given(
    problem=small,
    machine=st.sampled_from([AdaptiveMarginSVC(), LPSVC(), NuLPSVC()]),
    kernel=mercer_kernels,
    values=st.lists(powers(-3, 0), min_size=1, max_size=4),
    leave=st.booleans(),
)
@short_or_profile()
def test_fuzz_regularisation_path(problem, machine, kernel, values, leave):
    machine = type(machine)(**kernel)
    options = {"leave_one_out": leave, **weights_of(problem)}
    asked = (machine, problem.X, problem.y, values)
    path = answered("regularisation_path", problem, regularisation_path, *asked, **options)
    if path is None:
        return
    for k, value in enumerate(values):
        with listening():
            model = type(machine)(**kernel).set_params(**{path.parameter: value})
            model.fit(problem.X, problem.y, **weights_of(problem))
        # Both fits bound the same optimum, from above and from below.
        primal = sum(c.primal for c in model.certificates_)
        dual = sum(c.dual for c in model.certificates_)
        off = 1e-7 * max(1.0, abs(primal), abs(path.objective[k]))
        assert path.dual[k] <= primal + off
        assert dual <= path.objective[k] + off
        for shares in (path.training_error, path.loo_bound, path.expression):
            assert -1e-12 <= shares[k] <= 1 + 1e-12


@given(problem=small, name=st.sampled_from(sorted(set(MACHINES) - {"AdaBoostClassifier"})))
@short_or_profile()
def test_fuzz_suspects(problem, name):
    model = fitted_model(name, problem)
    found = None
    if model is not None:
        found = answered("suspects", problem, suspects, model, problem.n)
    if found is None:
        return
    rows = [suspect.row for suspect in found]
    assert len(set(rows)) == len(rows) <= problem.n
    margins = [suspect.margin for suspect in found]
    assert np.isfinite(margins).all()
    assert margins == sorted(margins)
    for suspect in found:
        assert suspect.label == problem.y[suspect.row]
        assert suspect.weight == problem.weight[suspect.row]
    with listening():
        error = loo.error(model)
    assert found.error == pytest.approx(error)


def fitted_model(name, problem):
    """Return a fitted model of a machine, or None where the machine refuses."""
    model = MACHINES[name].__class__(**MACHINES[name].get_params())
    return answered(
        f"{name} for tools", problem, model.fit, problem.X, problem.y, **weights_of(problem)
    )


@given(problem=small, name=st.sampled_from(sorted(MACHINES)), delta=st.floats(0.001, 0.5))
@short_or_profile()
def test_fuzz_bounds_summary(problem, name, delta):
    model = fitted_model(name, problem)
    if model is None:
        return
    found = answered("bounds.summary", problem, bounds.summary, model, problem.X, problem.y, delta)
    if found is None:
        return
    values = [float(row.value) for row in found]
    assert not any(math.isnan(value) or value < 0 for value in values)
    assert values == sorted(values)
    named = [row.function for row in found] + [other.function for other in found.others]
    assert len(set(named)) == len(named)
    assert str(found)
