"""Data sets of Dask collections, and an engine that runs tasks on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin.sources.dataset import Dataset
from widemargin.sources.reading.convert import feature_type, labels_of, missing_target
from widemargin.sources.reading.rows import StripRows
from widemargin.sources.reading.strips import AnyArray, ArrayStrip

_Found = TypeVar("_Found")


class DaskEngine:
    """Engine that runs tasks on a Dask cluster, or on Dask's threads without one.

    Dask reruns the tasks of a worker that dies on another worker, which gives the same result.

    Parameters
    ----------
    client : distributed.Client, default=None
        The cluster. None selects the scheduler that ``dask.compute`` uses at the time of the call
        (the newest client, or threads).

    Examples
    --------
    >>> from widemargin.sources import DaskEngine
    >>> DaskEngine().run(pow, [2, 3], [(2,), (3,)])
    [4, 27]
    """

    def __init__(self, client: Any = None) -> None:
        self.client = client

    def run(
        self,
        task: Callable[..., _Found],
        parts: Sequence[Any],
        arguments: Sequence[tuple[Any, ...]],
    ) -> list[_Found]:
        """Return ``[task(part, *arguments[k]) for each part k]``.

        Parameters
        ----------
        task, parts, arguments
            As for :meth:`Engine.run`.

        Returns
        -------
        list
            The return values of the tasks, in the order of the parts.
        """
        dask = import_dask()
        calls = [
            dask.delayed(_Call(task, part, some), pure=False)(
                *(part.blocks if isinstance(part, _Blocks) else [])
            )
            for part, some in zip(parts, arguments, strict=True)
        ]
        if self.client is None:
            return list(dask.compute(*calls))
        return list(self.client.gather(self.client.compute(calls)))


class _CollectionEngine(DaskEngine):
    """Engine that references its collections, since a cluster drops unreferenced results."""

    def __init__(self, client: Any, *collections: Any) -> None:
        super().__init__(client)
        self.collections = collections


class _Blocks:
    """Handle to a block of rows: Delayed X, target and weight (or None)."""

    def __init__(self, blocks: Sequence[Any], dtype: np.dtype[Any], name: str) -> None:
        self.blocks, self.dtype, self.name = blocks, dtype, name


class _Call:
    """Task with its part and arguments as one opaque object.

    Dask would otherwise search the arguments for collections. BLAS runs on one thread, so that the
    result does not depend on the number of cores of the worker.
    """

    def __init__(self, task: Callable[..., Any], part: Any, arguments: tuple[Any, ...]) -> None:
        self.task, self.arguments = task, arguments
        is_here = not isinstance(part, _Blocks)
        self.part = part if is_here else None
        self.block = None if is_here else (part.dtype, part.name)

    def __call__(self, *blocks: Any) -> Any:
        """Run the task on the worker; the blocks are arrays or pandas objects."""
        part = self.part if self.block is None else _block_rows(blocks, *self.block)
        with worker_threads():
            return self.task(part, *self.arguments)


def from_dask(X: Any, y: Any, sample_weight: Any = None, *, client: Any = None) -> Dataset:
    """Create a data set from Dask collections; the blocks stay on their workers.

    Every pass over the data recomputes the collections unless they are persisted: call
    ``persist()`` if the cluster has enough memory. For data in files prefer :func:`from_files` with
    a :class:`DaskEngine`, whose tasks read the files without an intermediate copy.

    Parameters
    ----------
    X : dask Array or DataFrame of shape (n_samples, n_features)
        Features. Block sizes may be unknown, and blocks may be empty.
    y : dask Array or Series of shape (n_samples,), or str
        Targets, or the name of their column in the DataFrame.
    sample_weight : dask Array or Series, or str, default=None
        Sample weights, given in the same way.
    client : distributed.Client, default=None
        The cluster. None selects the scheduler that ``dask.compute`` uses.

    Returns
    -------
    dataset : Dataset
        Data set with one part per block of rows.

    Examples
    --------
    >>> import dask.array as da
    >>> from widemargin import sources
    >>> X = da.random.default_rng(0).normal(size=(100, 3), chunks=(40, 3))
    >>> dataset = sources.from_dask(X, X[:, 0] > 0)
    >>> dataset.describe().sizes, dataset.describe().classes.tolist()
    ([40, 40, 20], [False, True])
    """
    import_dask()
    engine = _CollectionEngine(client, X, y, sample_weight)
    X, y, sample_weight = _named_columns(X, y, sample_weight)
    dtype, names, X = _features(X)
    sides = {"y": y} if sample_weight is None else {"y": y, "sample_weight": sample_weight}
    columns = [_row_blocks(X)]
    for name, side in sides.items():
        columns.append(_side_blocks(name, side, X, len(columns[0])))
    if sample_weight is None:
        columns.append([None] * len(columns[0]))
    together = enumerate(zip(*columns, strict=True))
    rows = [_Blocks(blocks, dtype, f"chunk {k}") for k, blocks in together]
    return Dataset(rows, engine, len(names or range(X.shape[1])), dtype, names)


def import_dask() -> Any:
    """Return the module dask, or raise an ImportError with the command that installs it."""
    try:
        import dask
    except ImportError:
        raise ImportError("Dask collections need Dask: pip install 'widemargin[dask]'") from None
    return dask


def _is_frame(collection: Any) -> bool:
    return hasattr(collection, "columns") and hasattr(collection, "to_dask_array")


def _named_columns(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Split X into features, target and weights where these are given as column names."""
    sides = {"y": y, "sample_weight": sample_weight}
    named = {name: side for name, side in sides.items() if isinstance(side, str)}
    for name, column in named.items():
        if not _is_frame(X) or column not in X.columns:
            raise ValueError(f"{name}={column!r} is not a column of X; pass it as a collection")
        sides[name] = X[column]
    if named:
        X = X.drop(columns=list(named.values()))
    return X, sides["y"], sides["sample_weight"]


def _features(X: Any) -> tuple[np.dtype[Any], list[str] | None, Any]:
    """Return the type and the names of the features, and X with unsplit rows."""
    if _is_frame(X):
        names = [str(name) for name in X.columns]
        types = [
            feature_type(_numpy_type(kind), f"column {name!r}")
            for name, kind in zip(names, X.dtypes, strict=True)
        ]
        return np.result_type(*types), names, X
    if not hasattr(X, "chunks") or X.ndim != 2:
        raise ValueError(
            "X must be a Dask array with two axes or a Dask DataFrame; "
            f"got {type(X).__name__} of shape {getattr(X, 'shape', None)}"
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})  # a block must hold whole rows
    return feature_type(X.dtype, "X"), None, X


def _numpy_type(kind: Any) -> np.dtype[Any]:
    """Return the NumPy type of a pandas extension type (Int64, float[pyarrow], ...)."""
    if isinstance(kind, np.dtype):
        return kind
    inner = getattr(kind, "numpy_dtype", None)
    return inner if isinstance(inner, np.dtype) else np.dtype(object)


def _row_blocks(collection: Any) -> list[Any]:
    """Return the blocks of rows of a collection as Delayed objects."""
    return list(np.ravel(collection.to_delayed()))


def _side_blocks(name: str, side: Any, X: Any, n_blocks: int) -> list[Any]:
    """Return targets or weights in blocks that match those of X."""
    if not import_dask().is_dask_collection(side):
        values, sizes = np.asarray(side), _sizes(X)
        if values.shape != (sum(sizes),):
            raise ValueError(f"X has {sum(sizes)} rows and {name} has shape {values.shape}")
        return np.split(values, np.cumsum(sizes)[:-1])
    if getattr(side, "ndim", 1) != 1:
        raise ValueError(f"{name} must have one axis; got shape {side.shape}")
    blocks = _row_blocks(side)
    if hasattr(side, "chunks") and hasattr(X, "chunks") and X.chunks[0] == side.chunks[0]:
        return blocks
    if _is_known(X) and hasattr(side, "chunks") and _is_known(side):
        if len(side) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} has {len(side)} entries")
        return _row_blocks(side.rechunk((X.chunks[0],)))
    if len(blocks) == n_blocks:
        return blocks  # sizes are unknown here and compared when the blocks are read
    sizes = _sizes(X)
    whole = side.to_dask_array(lengths=True) if hasattr(side, "to_dask_array") else side
    if hasattr(whole, "compute_chunk_sizes"):
        whole = whole.compute_chunk_sizes()
    if len(whole) != sum(sizes):
        raise ValueError(f"X has {sum(sizes)} rows and {name} has {len(whole)} entries")
    return _row_blocks(whole.rechunk((tuple(sizes),)))


def _is_known(collection: Any) -> bool:
    return hasattr(collection, "chunks") and not np.isnan(collection.chunks[0]).any()


def _sizes(X: Any) -> list[int]:
    """Return the number of rows of each block, computed if Dask has not recorded it."""
    if _is_known(X):
        return [int(n) for n in X.chunks[0]]
    dask = import_dask()
    return list(dask.compute(*[dask.delayed(len, pure=False)(block) for block in _row_blocks(X)]))


def _block_rows(blocks: Sequence[Any], dtype: np.dtype[Any], name: str) -> StripRows:
    """Return a block as raw rows; called on the worker that holds the block."""
    X, y, weight = blocks
    if hasattr(X, "to_numpy"):
        plain = all(isinstance(kind, np.dtype) for kind in X.dtypes)
        X = X.to_numpy() if plain else X.to_numpy(dtype=dtype, na_value=np.nan)
    table = np.asarray(X)
    target = _plain_target(y, name)
    strip = None if weight is None else ArrayStrip(np.asarray(weight, dtype=np.float64))
    for what, values in (("y", target), ("sample_weight", weight)):
        if values is not None and len(values) != len(table):
            raise ValueError(
                f"{name} of X has {len(table)} rows and that of {what} has {len(values)}; chunk "
                "them alike, or call compute_chunk_sizes() and rechunk()"
            )
    return StripRows(ArrayStrip(table), ArrayStrip(target), strip, None, dtype, name)


def _plain_target(block: Any, name: str) -> AnyArray:
    """Return targets as an array; convert text and categories via their distinct values."""
    is_series = hasattr(block, "factorize")
    if not is_series or (isinstance(block.dtype, np.dtype) and block.dtype.kind != "O"):
        return np.asarray(block)
    if len(block) == 0:
        return np.empty(0)
    codes, distinct = block.factorize()
    if (codes < 0).any():
        raise missing_target(f"{name}, row {int(np.flatnonzero(codes < 0)[0])}")
    # The None keeps NumPy from making a second axis of labels that are sequences.
    labels = np.array([*distinct.tolist(), None], dtype=object)[:-1]
    return np.asarray(labels_of(labels, lambda row: name, 0)[codes])
