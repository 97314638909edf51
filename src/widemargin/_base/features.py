"""Features that are added to the samples."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import Matrix


def with_constant(X: Matrix, constant: float | None) -> Matrix:
    """Return samples with a constant feature appended; X itself if there is none."""
    if constant is None:
        return X
    n, d = X.shape
    if not sp.issparse(X):
        return np.column_stack([X, np.full(n, constant, dtype=X.dtype)])
    ends = X.indptr[1:]
    entries = np.insert(X.data, ends, constant)
    indices = np.insert(X.indices, ends, d)
    return type(X)((entries, indices, X.indptr + np.arange(n + 1)), shape=(n, d + 1))
