"""Base learner of boosting that fits clones of a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix

SEEDS = 2**31 - 1  # exclusive upper end of the seeds; scikit-learn requires 32-bit integers


def check_base(base: Any) -> None:
    """Raise if a base estimator cannot be boosted."""
    if isinstance(base, type) or not (hasattr(base, "fit") and hasattr(base, "get_params")):
        raise ValueError(
            f"base must be None or a classifier with scikit-learn's interface; got base={base!r}"
            + ("; pass an instance of the class" if isinstance(base, type) else "")
        )
    if not is_classifier(base):
        raise ValueError(
            f"base must be a classifier, for boosting combines hypotheses with values +1 and -1; "
            f"got base={base!r}"
        )
    if not has_fit_parameter(base, "sample_weight"):
        raise ValueError(
            "base must have a fit that takes sample_weight, by which boosting tells it which rows "
            f"matter; got base={base!r}. Take a classifier that does, for instance "
            "DecisionTreeClassifier(max_depth=2), or base=None for the stumps built in"
        )


class ClassifierLearner:
    """Base learner of :func:`widemargin.solvers.boosting.solve` that fits clones of a classifier.

    Parameters
    ----------
    base : classifier
        Classifier, cloned in every round with a new seed for each of its random_state parameters.
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Training samples.
    positive : ndarray of bool of shape (n_rows,)
        Whether the label is +1.
    total : float
        Sum of the weights passed to the clones. It equals the sum of the sample weights, so that
        the first round uses these as they are and a penalty of the classifier, which is relative to
        the weights, has its usual meaning.
    seed : sequence of int
        Seed of the generator that draws the seeds of the rounds.
    """

    def __init__(
        self, base: Any, X: Matrix, positive: BoolArray, total: float, seed: tuple[int, ...]
    ) -> None:
        self.base, self.X, self.total = base, X, total
        self.y = np.where(positive, 1, -1)
        self.random = np.random.default_rng(seed)

    def learn(self, mass: FloatArray, changed: IntArray | None) -> Any:
        """Fit a clone to the weighted samples."""
        hypothesis = clone(self.base)
        names = sorted(hypothesis.get_params())
        seeded = [name for name in names if f"__{name}".endswith("__random_state")]
        hypothesis.set_params(**{name: int(self.random.integers(SEEDS)) for name in seeded})
        weight = mass * (self.total / mass.sum())
        return hypothesis.fit(self.X, self.y, sample_weight=weight)

    def price(self, mass: FloatArray, above: float) -> tuple[list[Any], None]:
        """Return a fitted clone; the largest edge of all classifiers is not known."""
        return [self.learn(mass, None)], None

    def predictions(self, hypothesis: Any) -> BoolArray:
        """Return for each training sample whether the classifier predicts +1."""
        return np.asarray(hypothesis.predict(self.X) == 1)

    def constant(self, positive: bool) -> Any:
        """Return a classifier with a constant prediction."""
        says = 1 if positive else -1
        return DummyClassifier(strategy="constant", constant=says).fit(self.X[:1], [says])
