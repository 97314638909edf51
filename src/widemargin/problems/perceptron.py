r"""The perceptron problem: find a hyperplane that separates two classes.

Find w and b, in the features or in the feature space of a kernel, with

.. math:: y_i (w \cdot x_i + b) > 0 \quad \text{for all } i .

where

- :math:`x_i, y_i`: sample i and its label, -1 or +1;
- w, b: weights and intercept.

This is a feasibility problem: every solution is accepted, so there is no dual, and the certificate
is the number of misclassified samples. A decision value of 0 is an error for either label. If a
hyperplane with margin rho exists, theorem 1.1 of Smola et al. (2000) bounds the number of updates,
see :func:`widemargin.problems.training_bounds.perceptron`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray


@dataclass(frozen=True, eq=False)
class SeparatingPlane:
    """Feasibility problem of a separating hyperplane.

    Attributes
    ----------
    label : ndarray of shape (n_samples,)
        Labels -1 and +1.
    """

    label: FloatArray

    def n_wrong(self, values: FloatArray) -> int:
        """Return the number of misclassified samples, given the decision values w.x + b."""
        return int(np.count_nonzero(self.label * values <= 0))
