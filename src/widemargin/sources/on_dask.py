"""Read Dask collections as data sets, and run tasks on a Dask cluster."""

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
    """Runs tasks on a Dask cluster, or on Dask's own threads where there is none.

    What a worker loses when it dies is run again on another, so the answer is the same.

    Parameters
    ----------
    client : distributed.Client, default=None
        The cluster; None: what ``dask.compute`` uses at the time (the newest client, or threads).

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
            What the tasks return, in the order of the parts.
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
    """The engine of collections, which holds them: a cluster drops results that nobody holds."""

    def __init__(self, client: Any, *collections: Any) -> None:
        super().__init__(client)
        self.collections = collections


class _Blocks:
    """What stands for the rows of a block: Delayed X, target and weight (or None)."""

    def __init__(self, blocks: Sequence[Any], dtype: np.dtype[Any], name: str) -> None:
        self.blocks, self.dtype, self.name = blocks, dtype, name


class _Call:
    """A task with its part and arguments, closed to Dask, which would search them for collections.

    BLAS runs on one thread, so that the answer does not depend on the worker's cores.
    """

    def __init__(self, task: Callable[..., Any], part: Any, arguments: tuple[Any, ...]) -> None:
        self.task, self.arguments = task, arguments
        is_here = not isinstance(part, _Blocks)
        self.part = part if is_here else None
        self.block = None if is_here else (part.dtype, part.name)

    def __call__(self, *blocks: Any) -> Any:
        """Run the task where the blocks are; they come as arrays or as pandas objects."""
        part = self.part if self.block is None else _block_rows(blocks, *self.block)
        with worker_threads():
            return self.task(part, *self.arguments)


def from_dask(X: Any, y: Any, sample_weight: Any = None, *, client: Any = None) -> Dataset:
    """Make a data set of Dask collections; the blocks stay where Dask keeps them.

    Every scan computes the collections again unless they are persisted: ``persist()`` them if
    the cluster has the memory. Prefer :func:`from_files` with a :class:`DaskEngine` where the rows
    are in files: its tasks read them without an intermediate copy.

    Parameters
    ----------
    X : dask Array or DataFrame of shape (n_samples, n_features)
        Features. Sizes of blocks need not be known, and blocks may be empty.
    y : dask Array or Series of shape (n_samples,), or str
        Targets; or the name of their column in the DataFrame.
    sample_weight : dask Array or Series, or str, default=None
        Weights, in the same way.
    client : distributed.Client, default=None
        The cluster; None: what ``dask.compute`` uses.

    Returns
    -------
    dataset : Dataset
        One part for each block of rows.

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
    """Return Dask, or say how to install it."""
    try:
        import dask
    except ImportError:
        raise ImportError("Dask collections need Dask: pip install 'widemargin[dask]'") from None
    return dask


def _is_frame(collection: Any) -> bool:
    return hasattr(collection, "columns") and hasattr(collection, "to_dask_array")


def _named_columns(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return X without the columns that y and sample_weight name, and these."""
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
    """Return the type that features are computed in, their names, and X as it is read."""
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
        X = X.rechunk({1: -1})  # a task needs whole rows
    return feature_type(X.dtype, "X"), None, X


def _numpy_type(kind: Any) -> np.dtype[Any]:
    """Return the NumPy type behind a column type of pandas (Int64, float[pyarrow], ...)."""
    if isinstance(kind, np.dtype):
        return kind
    inner = getattr(kind, "numpy_dtype", None)
    return inner if isinstance(inner, np.dtype) else np.dtype(object)


def _row_blocks(collection: Any) -> list[Any]:
    """Return the blocks of rows of a collection, each a Delayed."""
    return list(np.ravel(collection.to_delayed()))


def _side_blocks(name: str, side: Any, X: Any, n_blocks: int) -> list[Any]:
    """Return targets or weights in blocks that go with those of X."""
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
        return blocks  # lengths are compared when the blocks are read
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
    """Return the rows of each block, computed where Dask does not know them."""
    if _is_known(X):
        return [int(n) for n in X.chunks[0]]
    dask = import_dask()
    return list(dask.compute(*[dask.delayed(len, pure=False)(block) for block in _row_blocks(X)]))


def _block_rows(blocks: Sequence[Any], dtype: np.dtype[Any], name: str) -> StripRows:
    """Return the rows of a block: this runs on the worker that has it."""
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
    """Return targets as an array; text and categories go through their few distinct values."""
    is_series = hasattr(block, "factorize")
    if not is_series or (isinstance(block.dtype, np.dtype) and block.dtype.kind != "O"):
        return np.asarray(block)
    if len(block) == 0:
        return np.empty(0)
    codes, distinct = block.factorize()
    if (codes < 0).any():
        raise missing_target(f"{name}, row {int(np.flatnonzero(codes < 0)[0])}")
    labels = np.array([*distinct.tolist(), None], dtype=object)[:-1]  # one axis, whatever they are
    return np.asarray(labels_of(labels, lambda row: name, 0)[codes])
