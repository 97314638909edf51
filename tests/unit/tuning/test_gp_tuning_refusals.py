"""What tuning of Gaussian processes refuses, and what it says to do instead."""

from __future__ import annotations

import pytest
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.helpers.byhand import gram
from widemargin import SVC, SVR, LinearSVC, MeanFieldGPClassifier
from widemargin.tuning.gradient import tune

ALL = ("gamma", "input_noise", "flip_noise")
GP = MeanFieldGPClassifier
BAD = [
    (GP(), {"criterion": "aic"}, r'criterion must be one of "loo".*"evidence"; got criterion='),
    (GP(), {"criterion": None}, "criterion must be one of"),
    (SVC(), {"criterion": "evidence"}, 'criterion must be "loo" for SVC.*not the logarithm'),
    (LinearSVC(), {"params": ("C",), "criterion": "evidence"}, 'must be "loo" for LinearSVC'),
    (SVR(), {"criterion": "evidence"}, "got SVR"),
    (make_pipeline(StandardScaler(), SVC()), {"criterion": "evidence"}, 'must be "loo" for SVC'),
    (GP(), {"params": ("C", "gamma")}, '"flip_noise" and "mean_variance" for MeanFieldGP'),
    (GP(), {"params": ()}, "params must be"),
    (GP(), {"params": "gamma"}, "params must be"),
    (SVC(), {"params": ("gamma", "input_noise")}, 'params must be a tuple of "C"'),
    (GP(), {"params": ("gamma", "ard")}, "params must be without either"),
    (GP(kernel="precomputed"), {}, r'kernel must be "rbf" or "poly".*params=\("input_noise",\)'),
    (GP(kernel="linear"), {"params": ("ard",)}, 'kernel must be "rbf"'),
    (GP(kernel="poly", degree=2.5), {}, "degree must be a whole number"),
    (GP(input_noise=0.0), {"params": ("gamma",)}, "input_noise must be positive, or among params"),
    (GP(flip_noise=0.6), {}, "flip_noise must be"),
    (GP(), {"starts": [{"C": 1.0}]}, "starts must be a list of dicts such as .*input_noise"),
    (GP(), {"starts": [{"flip_noise": 0.1}]}, 'without "flip_noise", which is not tuned'),
    (GP(), {"starts": [{"input_noise": 0.0}]}, r'starts\["input_noise"\] must be a positive'),
    (
        GP(),
        {"params": ALL, "starts": [{"flip_noise": -0.1}]},
        "must be a number, not negative",
    ),
    (GP(), {"prior": -1.0}, "prior must be"),
]


@pytest.mark.parametrize(("model", "arguments", "message"), BAD, ids=lambda value: str(value)[:40])
def test_what_cannot_be_tuned_says_what_can(model, arguments, message):
    X, y = make_moons(20, noise=0.25, random_state=0)
    with pytest.raises(ValueError, match=message):
        tune(model, X, y, **arguments)


def test_indefinite_kernel_matrices_are_refused():
    X, y = make_moons(20, noise=0.25, random_state=0)
    with pytest.raises(ValueError, match="positive semi-definite"):
        tune(GP(kernel="precomputed"), -gram(X, X), y, ("input_noise",))
