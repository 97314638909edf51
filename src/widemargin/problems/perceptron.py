r"""State the problem of the perceptron: a hyperplane that separates two classes.

Find w and b, in the features or in the feature space of a kernel, with

.. math:: y_i (w \cdot x_i + b) > 0 \quad \text{for all } i .

Nothing is minimised and any solution will do, so there is no dual and no certificate beyond the
number of samples that are wrong. A value of 0 is wrong for either label: sgn(0) is neither. If a
plane with margin rho exists, theorem 1.1 of Smola et al. (2000) bounds the number of updates, see
:func:`widemargin.problems.training_bounds.perceptron`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray


@dataclass(frozen=True, eq=False)
class SeparatingPlane:
    """A hyperplane with all samples on the side of their label.

    Attributes
    ----------
    label : ndarray of shape (n_samples,)
        -1 and +1.
    """

    label: FloatArray

    def n_wrong(self, values: FloatArray) -> int:
        """Return how many samples are on the wrong side, given their values w.x + b."""
        return int(np.count_nonzero(self.label * values <= 0))
