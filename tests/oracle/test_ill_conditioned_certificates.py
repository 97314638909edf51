"""Ill-conditioned fits whose certificates were false before rounding errors were counted.

Each of them stated a lower bound above the objective of a constant model, an objective below its
exact value, or a gap of zero at a model that is not optimal.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.helpers.exact_quadratic import kernel_pairs
from tests.helpers.exact_verdict import judged
from widemargin import SVC


def faults(model: SVC, X: Any, y: Any) -> list[str]:
    """Fit and return the faults of the certificate, judged in exact arithmetic."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    return judged(model.certificate_, kernel_pairs(model, [], X, y, None)[0]).faults


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_lower_bound_of_a_fit_out_of_steps_is_below_the_constant_model(loss: str) -> None:
    rng = np.random.default_rng(0)
    X, y = 30 * rng.normal(size=(50, 2)), rng.choice([-1, 1], size=50)
    model = SVC(C=100, kernel="poly", degree=5, gamma=1.0, loss=loss)
    assert faults(model, X, y) == []
    positive = int((y > 0).sum())
    fewer, more = sorted((positive, 50 - positive))
    constant = 200 * fewer if loss == "hinge" else 400 * fewer * more / 50
    assert 0 <= model.certificate_.dual <= model.certificate_.primal <= constant * (1 + 1e-12)


@pytest.mark.parametrize(
    ("n_samples", "n_features", "C", "seeds"),
    [(12, 2, 1e8, (2, 3, 5, 7, 9, 12, 18, 21)), (67, 3, 4.2e7, (0, 1, 3, 4))],
)
def test_contradictory_duplicates_with_huge_coefficients(
    n_samples: int, n_features: int, C: float, seeds: tuple[int, ...]
) -> None:
    found = {}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 2, (n_samples, n_features)).astype(float)
        y = rng.integers(0, 2, n_samples)
        model = SVC(kernel="poly", degree=6, coef0=10.0, gamma=1.0, C=C)
        found[seed] = faults(model, X, y)
    assert found == {seed: [] for seed in seeds}
