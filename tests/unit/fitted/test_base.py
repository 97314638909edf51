"""What every kind of fitted model answers alike: its methods, values, margins and refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from widemargin import (
    LPSVC,
    SVC,
    SVR,
    LinearSVC,
    MaxMarginClassifier,
    MeanFieldGPClassifier,
    OrdinalSVC,
    PerceptronClassifier,
    ReducedHullSVC,
)
from widemargin.fitted.base import METHODS, WITH_VALUES
from widemargin.fitted.record import find_model, find_record, find_training_set, record_of
from widemargin.sources import from_arrays

X, Y = make_blobs(45, centers=3, cluster_std=2.0, random_state=1)
KINDS = [
    SVC(), SVR(), LinearSVC(), LPSVC(), OrdinalSVC(), MaxMarginClassifier(norm=1),
    MeanFieldGPClassifier(),
]  # fmt: skip
every_kind = pytest.mark.parametrize("machine", KINDS, ids=lambda m: type(m).__name__)


@every_kind
@pytest.mark.parametrize("n_classes", [2, 3])
def test_left_out_values_margins_and_errors_agree(machine, n_classes):
    record = record_of(machine.fit(X[n_classes > Y], Y[n_classes > Y]))
    result, model = record.result(), record.model
    assert model.auto_method() in model.methods
    margins, predicted = model.label_margin(result.values)
    if hasattr(machine, "classes_"):
        assert result.values.shape[0] == len(model.class_codes())
        np.testing.assert_array_equal(result.errors, margins <= 1e-9)
        np.testing.assert_array_equal(model.classes(), machine.classes_)
        assert set(predicted) <= set(machine.classes_)
    else:
        np.testing.assert_array_equal(result.errors, -margins)
    assert np.count_nonzero(model.most_suspicious(5)) == 5


@every_kind
def test_methods_that_do_not_hold_are_refused(machine):
    record = record_of(machine.fit(X, Y))
    for method in METHODS:
        if method not in record.model.methods:
            with pytest.raises(ValueError, match="method must be"):
                record.result(method)
        elif method in WITH_VALUES:
            assert record.decision_values(method).shape[0] == len(Y)


def test_results_are_computed_once_and_stored():
    record = record_of(SVC().fit(X, Y))
    assert record.known_result() is None
    found = record.result()
    assert record.result("exact") is found
    assert record.known_result() is found
    again = pickle.loads(pickle.dumps(record.compact()))
    assert again.model is None
    np.testing.assert_array_equal(again.result().values, found.values)
    with pytest.raises(ValueError, match="compact"):
        again.result("linear_response")


def test_what_is_not_kept_is_not_found():
    assert find_record(SVC()) is None
    assert find_model(PerceptronClassifier(kernel="rbf", gamma=10.0).fit(X, Y)) is None
    assert find_training_set(SVC().fit(X, Y).compact()) is None


def test_a_refused_model_keeps_its_samples():
    hulls = ReducedHullSVC(cut="hull").fit(X, Y)
    assert find_training_set(hulls) is find_model(hulls).data
    with pytest.raises(ValueError, match="cut='theta'"):
        record_of(hulls).result()


def test_data_in_parts_can_only_be_calibrated():
    model = LinearSVC().fit(from_arrays([X[::2], X[1::2]], [Y[::2], Y[1::2]]))
    assert find_training_set(model) is None
    with pytest.raises(ValueError, match="in memory"):
        record_of(model).result()
    assert len(record_of(model).calibrations("sigmoid")) == 3
    assert pickle.loads(pickle.dumps(record_of(model))).model is None
