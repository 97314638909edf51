"""Raw rows of Parquet files, read with pyarrow a few MB at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.reading.convert import FLOAT32, FLOAT64, joined, labels_of, missing_target
from widemargin.sources.reading.rows import BLOCK_BYTES, PART_BYTES, Piece
from widemargin.sources.reading.strips import AnyArray, Stamp

READ_AHEAD = 16 << 20  # bytes of all columns; without a buffer size pyarrow reads whole row groups
INDEX_COLUMN = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True, eq=False)
class ParquetRows:
    """Some row groups of a Parquet file.

    Attributes
    ----------
    path : str
        The file.
    stamp : Stamp
        Size and modification time that the file must have.
    groups : list of int
        Indices of the row groups.
    group_sizes : list of int
        Number of rows of each row group.
    features : list of str
        Names of the feature columns.
    target, weight : str
        Names of the columns of targets and weights; `weight` is None without weights.
    dtype : dtype
        float32 or float64, the type of the data set.
    first : int
        Index of the first row in the file, for messages.
    """

    path: str
    stamp: Stamp
    groups: list[int]
    group_sizes: list[int]
    features: list[str]
    target: str
    weight: str | None
    dtype: np.dtype[Any]
    first: int = 0

    @property
    def size(self) -> int:
        """Number of rows."""
        return sum(self.group_sizes)

    def blocks(self) -> Iterator[tuple[int, RealArray, AnyArray, FloatArray | None]]:
        """Yield (index of the first row, X, target, weight)."""
        first = 0
        by_column: RealArray = np.empty((len(self.features), 0), dtype=self.dtype)
        by_row: RealArray = np.empty((0, len(self.features)), dtype=self.dtype)
        sides = [self.target] if self.weight is None else [self.target, self.weight]
        for batch in self._batches([*self.features, *sides]):
            n_rows = batch.num_rows
            if len(by_row) < n_rows:
                by_column = np.empty((len(self.features), n_rows), dtype=self.dtype)
                by_row = np.empty((n_rows, len(self.features)), dtype=self.dtype)
            # Contiguous writes per column, then one transposition per block.
            for j, name in enumerate(self.features):
                by_column[j, :n_rows] = _numbers(batch.column(name))
            X = by_row[:n_rows]
            X[...] = by_column[:, :n_rows].T
            target, weight = _labels(batch.column(self.target), self, first), None
            if self.weight is not None:
                weight = np.asarray(_numbers(batch.column(self.weight)), dtype=np.float64)
            yield first, X, target, weight
            first += n_rows

    def targets(self) -> Iterator[AnyArray]:
        """Yield only the targets, in order."""
        first = 0
        for batch in self._batches([self.target]):
            yield _labels(batch.column(self.target), self, first)
            first += batch.num_rows

    def take(self, rows: IntArray) -> Piece:
        """Return X, target and weight of some rows; other row groups are not read."""
        found: list[Piece] = []
        ends = np.cumsum(self.group_sizes)
        group_of = np.searchsorted(ends, rows, side="right")
        for k in np.unique(group_of):
            wanted = rows[group_of == k] - (ends[k] - self.group_sizes[k])
            group = replace(self, groups=[self.groups[k]], group_sizes=[self.group_sizes[k]])
            for first, X, target, weight in group.blocks():
                begin, end = np.searchsorted(wanted, [first, first + len(X)])
                if begin < end:
                    here = wanted[begin:end] - first
                    some = None if weight is None else weight[here]
                    found.append((X[here], target[here], some))
        return joined(found, len(self.features), self.dtype)

    def parts(self) -> list[ParquetRows]:
        """Split the rows into parts of whole row groups; combine small ones up to PART_BYTES."""
        step = self._step(PART_BYTES)
        parts: list[ParquetRows] = []
        begin = rows = first = 0
        for k, size in enumerate(self.group_sizes):
            rows += size
            if rows >= step or k == len(self.groups) - 1:
                some = slice(begin, k + 1)
                groups, sizes = self.groups[some], self.group_sizes[some]
                if rows:
                    parts.append(replace(self, groups=groups, group_sizes=sizes, first=first))
                begin, first, rows = k + 1, first + rows, 0
        return parts

    def place(self, row: int) -> str:
        """Return the location of a row, for messages."""
        return f"{self.path}, row {self.first + row}"

    def _step(self, n_bytes: int) -> int:
        """Return the number of rows that fit into `n_bytes`, at least one."""
        return max(1, n_bytes // max(1, len(self.features) * self.dtype.itemsize))

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        step = self._step(BLOCK_BYTES)
        self.stamp.check(self.path)
        with opened_parquet(self.path, max(1 << 16, READ_AHEAD // len(columns))) as file:
            yield from file.iter_batches(
                batch_size=step, row_groups=self.groups, columns=columns, use_threads=False
            )
        self.stamp.check(self.path)


@contextmanager
def opened_parquet(path: str, read_ahead: int = 0) -> Iterator[Any]:
    """Open a Parquet file; errors of pyarrow are re-raised with its path."""
    pa, pq = import_pyarrow()
    try:
        with pa.OSFile(path) as handle:
            yield pq.ParquetFile(
                handle, buffer_size=read_ahead, pre_buffer=False, page_checksum_verification=True
            )
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a readable Parquet file, it may be truncated or damaged; copy or "
            f"write it again ({error})"
        ) from error


def import_pyarrow() -> tuple[Any, Any]:
    """Return pyarrow and its Parquet module, or raise an ImportError with the install command."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            "Parquet files need pyarrow: pip install 'widemargin[dask]' (or pip install pyarrow)"
        ) from None
    return pa, pq


def parquet_rows(
    path: str, target: str, features: list[str] | None, weight: str | None
) -> tuple[ParquetRows, np.dtype[Any]]:
    """Return the rows of a whole file, and the floating type of its features."""
    stamp = Stamp.of(path)
    with opened_parquet(path) as file:
        schema, meta = file.schema_arrow, file.metadata
        sizes = [meta.row_group(k).num_rows for k in range(meta.num_row_groups)]
    sides = [target] if weight is None else [target, weight]
    if features is None:
        features = [n for n in schema.names if n not in sides and not INDEX_COLUMN.fullmatch(n)]
    for name in [*features, *sides]:
        if name not in schema.names:
            known = ", ".join(map(repr, schema.names[:20]))
            raise ValueError(f"{path} has no column {name!r}; its columns are {known}")
    dtypes = {_feature_type(schema.field(name).type, path, name) for name in features}
    if weight is not None:
        _feature_type(schema.field(weight).type, path, weight)
    dtype = FLOAT32 if dtypes == {FLOAT32} else FLOAT64
    groups = list(range(len(sizes)))
    return ParquetRows(path, stamp, groups, sizes, features, target, weight, dtype), dtype


def _feature_type(kind: Any, path: str, name: str) -> np.dtype[Any]:
    pa, _ = import_pyarrow()
    if pa.types.is_float32(kind) or pa.types.is_float16(kind):
        return FLOAT32
    if pa.types.is_float64(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return FLOAT64
    raise ValueError(
        f"column {name!r} of {path} has type {kind}; features must be float32, float64, integers "
        "or booleans: encode it as numbers, or name the columns to use in features=[...]"
    )


def _numbers(column: Any) -> AnyArray:
    """Return a column as numbers, with NaN for missing values."""
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _labels(column: Any, rows: ParquetRows, first: int) -> AnyArray:
    """Return a column of targets; text is converted via its distinct values, which is faster."""
    pa, _ = import_pyarrow()
    if column.null_count:
        missing = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise missing_target(rows.place(first + missing))
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        names = labels_of(np.array(column.dictionary.to_pylist()), rows.place, first)
        return np.asarray(names[column.indices.to_numpy(zero_copy_only=False)])
    return labels_of(_numbers(column), rows.place, first)
