"""Data sets of NumPy arrays and memory maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin.sources.dataset import Dataset
from widemargin.sources.engines import Engine, Threads
from widemargin.sources.reading.convert import feature_type
from widemargin.sources.reading.rows import StripRows
from widemargin.sources.reading.strips import AnyArray, strip_of_array


def from_arrays(
    X: Any, y: Any, sample_weight: Any = None, *, engine: Engine | None = None
) -> Dataset:
    """Create a data set from one array, or from a list of arrays (chunks).

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features) or list of such
        Features: float32 and float64 are kept, integers and booleans become float64. A memory
        map stays on disk and is read in blocks of a few MB.
    y : array-like of shape (n_samples,) or list of such
        Targets, in the same chunks as X: class labels or numbers.
    sample_weight : array-like of shape (n_samples,) or list of such, default=None
        Sample weights, in the same chunks as X.
    engine : Engine, default=None
        Engine that runs tasks on the parts; None selects threads of this process.

    Returns
    -------
    dataset : Dataset
        Data set with the samples in the given order.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> chunks = [np.zeros((2, 3), np.float32), np.ones((1, 3), np.float32)]
    >>> dataset = sources.from_arrays(chunks, [[0, 1], [1]])
    >>> dataset.describe().n_rows, dataset.dtype
    (3, dtype('float32'))
    """
    tables, targets, weights = _chunks(X, y, sample_weight)
    names = ["X"] if not isinstance(X, list | tuple) else [f"X[{k}]" for k in range(len(X))]
    widths = {table.shape[1] for table in tables}
    if len(widths) != 1:
        raise ValueError(f"the chunks of X have different numbers of columns: {sorted(widths)}")
    types = [feature_type(t.dtype, name) for t, name in zip(tables, names, strict=True)]
    dtype = np.result_type(*types)
    rows = []
    for k, name in enumerate(names):
        table = strip_of_array(tables[k])
        weight = None if weights is None else strip_of_array(weights[k])
        where = table.path or name
        whole = StripRows(table, strip_of_array(targets[k]), weight, None, dtype, where)
        rows += whole.parts()
    return Dataset(rows, engine or Threads(), widths.pop(), dtype)


def _chunks(
    X: Any, y: Any, sample_weight: Any
) -> tuple[list[AnyArray], list[AnyArray], list[AnyArray] | None]:
    """Return X, y and weights as lists of arrays, after checking that their lengths agree."""
    if not isinstance(X, list | tuple):
        X, y = [X], [y]
        sample_weight = None if sample_weight is None else [sample_weight]
    if not X:
        raise ValueError("X must be an array or a list of arrays; got an empty list")
    sides = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    tables = [_array(f"X[{k}]", chunk, 2) for k, chunk in enumerate(X)]
    checked: dict[str, list[AnyArray]] = {}
    for name, side in sides.items():
        if not isinstance(side, list | tuple) or len(side) != len(tables):
            raise ValueError(
                f"X is a list of {len(tables)} chunks, so {name} must be a list of as many arrays"
            )
        checked[name] = [_array(f"{name}[{k}]", chunk, 1) for k, chunk in enumerate(side)]
        for k, (table, values) in enumerate(zip(tables, checked[name], strict=True)):
            if len(table) != len(values):
                raise ValueError(
                    f"X[{k}] has {len(table)} rows and {name}[{k}] has {len(values)} entries; they "
                    "must be equal"
                )
    return tables, checked["y"], checked.get("sample_weight")


def _array(name: str, values: Any, n_axes: int) -> AnyArray:
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if array.ndim != n_axes:
        raise ValueError(f"{name} must have {n_axes} axes; got an array of shape {array.shape}")
    return array
