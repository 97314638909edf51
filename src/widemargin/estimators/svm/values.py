"""Decision values of kernel expansions whose support vectors are grouped by class."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin._base.validation import check_X
from widemargin.kernels import Kernel, Rows
from widemargin.kernels.single_rows import FewPoints

# So many samples, or kernel values, are computed by one compiled call, more of them by blocks.
FEW_SAMPLES, FEW_VALUES = 16, 100_000


class FewSamplesCache:
    """Holder of what decision values of few samples need; made in `fit`, filled when first used."""

    def __init__(self) -> None:
        self.made_from: tuple[Any, ...] = ()
        self.prepared: FewPoints | None = None

    def prepared_for(self, model: ClassSums) -> FewPoints | None:
        """Return the prepared support vectors, None if their kernel has no such path."""
        key = model.dual_coef_, model.support_vectors_, model._kernel_
        known = self.made_from
        if len(known) != len(key) or any(a is not b for a, b in zip(known, key, strict=True)):
            # Another thread may do the same meanwhile, with the same outcome.
            self.prepared = _prepared(model)
            self.made_from = key
        return self.prepared


def _prepared(model: ClassSums) -> FewPoints | None:
    support = model.support_vectors_
    if model._kernel_.name == "precomputed" or sp.issparse(support) or not len(support):
        return None
    rows = Rows(model._kernel_, support, model._centre_)
    if rows.single_rows is None:
        return None
    return FewPoints(rows, model.dual_coef_, model._segments())


class ClassSums:
    """Mixin that evaluates a kernel expansion, each support vector once for all outputs."""

    dual_coef_: Any
    support_vectors_: Any
    n_support_: Any
    _kernel_: Kernel
    _centre_: FloatArray | None
    _sums_over: Any

    def _class_sums(self, X: Any) -> FloatArray:
        """Return the sums over the support vectors of each class: (n, n_classes, n_sums).

        The coefficients are those of the rows of `dual_coef_`.
        """
        checked: Matrix = check_X(self, X, accept_sparse=self._kernel_.name != "precomputed")
        n_samples, n_support = checked.shape[0], self.support_vectors_.shape[0]
        few_values = n_samples <= FEW_SAMPLES or n_samples * n_support <= FEW_VALUES
        if few_values and not sp.issparse(checked):
            cache = vars(self).setdefault("_few_", FewSamplesCache())
            few = cache.prepared_for(self)
            if few is not None:
                return few.sums(checked)
        dual, sums_over = dense(self.dual_coef_), self._sums_over
        counts = self._segments()
        parts = [slice(end - n, end) for n, end in zip(counts, np.cumsum(counts), strict=True)]
        with worker_threads():
            return np.stack([sums_over(checked, dual[:, at].T, at) for at in parts], axis=1)

    def _segments(self) -> IntArray:
        """Return the numbers of support vectors whose sums are separate: of each class, or all."""
        counts = np.asarray(self.n_support_)
        return counts if len(counts) > 2 else counts.sum(keepdims=True)


def dense(coefficients: Any) -> FloatArray:
    """Return coefficients as an array; those of a model of sparse samples are sparse."""
    return coefficients.toarray() if sp.issparse(coefficients) else coefficients
