"""Recognition of data in parts among the arguments of `fit`."""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from widemargin.sources.arrays import from_arrays
from widemargin.sources.dataset import Dataset
from widemargin.sources.files import from_files
from widemargin.sources.on_dask import from_dask

SMALL_MAP = 256 << 20  # bytes; smaller memory maps are ordinary arrays (joblib creates such maps)


def as_dataset(X: Any, y: Any = None, sample_weight: Any = None) -> Dataset | None:
    """Convert the arguments of ``fit`` to a data set, or return None for ordinary input.

    Parameters
    ----------
    X : object
        A :class:`Dataset` (with y=None); a Dask array or DataFrame; a memory map of at least
        256 MB; a path, a pattern or a list of paths. Anything else is ordinary input.
    y : object, default=None
        Targets; for paths the argument `target` of :func:`from_files`, for a Dask DataFrame also
        the name of a column.
    sample_weight : object, default=None
        Sample weights; for paths the argument `weight` of :func:`from_files`.

    Returns
    -------
    dataset : Dataset or None
        None if X is an array, table or sparse matrix in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> sources.as_dataset(np.eye(2), [0, 1]) is None
    True
    """
    if isinstance(X, Dataset):
        if y is not None or sample_weight is not None:
            raise ValueError(
                "a Dataset carries its targets and weights: call fit(dataset) without y and "
                "sample_weight"
            )
        return X
    dask = sys.modules.get("dask")  # imported already if X is a Dask collection
    if dask is not None and dask.is_dask_collection(X):
        return from_dask(X, _given(y), sample_weight)
    each = X if isinstance(X, list | tuple) else [X]
    if len(each) > 0 and all(isinstance(one, str | os.PathLike) for one in each):
        return from_files(X, target=_given(y), weight=sample_weight)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes >= SMALL_MAP:
        return from_arrays(X, _given(y), sample_weight)
    return None


def _given(y: Any) -> Any:
    if y is None:
        raise ValueError(
            "y must be given with X: the targets, or for files the column of targets "
            "(y='label'), or the files of targets"
        )
    return y
