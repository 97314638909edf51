"""Any scikit-learn classifier as the base learner of boosting."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix

SEEDS = 2**31 - 1  # the largest seed that scikit-learn takes


def check_base(base: Any) -> None:
    """Refuse a base estimator that cannot be boosted."""
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
    """Learner of :func:`widemargin.solvers.boosting.solve`: clones of a classifier.

    Parameters
    ----------
    base : classifier
        Cloned in every round, with a seed of its own wherever it takes one.
    X : ndarray or CSR matrix of shape (n_rows, n_features)
        Training rows.
    positive : ndarray of bool of shape (n_rows,)
        Whether the label is +1.
    total : float
        Sum of the weights that the clones are given: that of the sample weights, so that in the
        first round they see these, and parameters that compare weights with a penalty mean what
        they mean without boosting.
    seed : sequence of int
        From which the seeds of the rounds are drawn.
    """

    def __init__(
        self, base: Any, X: Matrix, positive: BoolArray, total: float, seed: tuple[int, ...]
    ) -> None:
        self.base, self.X, self.total = base, X, total
        self.y = np.where(positive, 1, -1)
        self.random = np.random.default_rng(seed)

    def learn(self, mass: FloatArray, changed: IntArray | None) -> Any:
        """Fit a clone to the weighted rows."""
        hypothesis = clone(self.base)
        names = sorted(hypothesis.get_params())
        seeded = [name for name in names if f"__{name}".endswith("__random_state")]
        hypothesis.set_params(**{name: int(self.random.integers(SEEDS)) for name in seeded})
        weight = mass * (self.total / mass.sum())
        return hypothesis.fit(self.X, self.y, sample_weight=weight)

    def predictions(self, hypothesis: Any) -> BoolArray:
        """Tell for each training row whether the classifier says +1."""
        return np.asarray(hypothesis.predict(self.X) == 1)

    def constant(self, positive: bool) -> Any:
        """Return a classifier that always says the same."""
        says = 1 if positive else -1
        return DummyClassifier(strategy="constant", constant=says).fit(self.X[:1], [says])
