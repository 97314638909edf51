"""Rows seen from their mean, for machines that a shift of the rows does not change."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet
from widemargin.estimators._base.kernel import KernelMachine
from widemargin.kernels import Rows


class CentredRows(KernelMachine):
    """A machine whose masses add up to zero: with the linear kernel, dense rows are centred.

    Far from the origin all digits of products of rows would be those of the offset.
    """

    _origin_: FloatArray | None

    def _begin(self, data: TrainingSet) -> Rows:
        rows = super()._begin(data)
        self._origin_ = None
        if rows.kernel.name == "linear" and not sp.issparse(data.X):
            self._origin_ = data.X.mean(axis=0, dtype=np.float64)
            rows = Rows(rows.kernel, data.X.astype(np.float64) - self._origin_)
        return rows
