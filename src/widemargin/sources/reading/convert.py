"""Conversion of stored values: features to floats, targets to arrays of labels or numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.sources.reading.strips import AnyArray

FLOAT32: np.dtype[Any] = np.dtype(np.float32)
FLOAT64: np.dtype[Any] = np.dtype(np.float64)


def feature_type(stored: np.dtype[Any], where: str) -> np.dtype[Any]:
    """Return the type of the features in computations: float32 is kept, others become float64."""
    if stored.kind == "f" and stored.itemsize <= 4:
        return FLOAT32
    if stored.kind in "biu" or (stored.kind == "f" and stored.itemsize == 8):
        return FLOAT64
    raise ValueError(
        f"{where} has type {stored}; features must be float32, float64, integers or booleans: "
        "encode it as numbers or leave it out"
    )


class Cast:
    """Conversion of blocks of a table to blocks of features, in a reused buffer.

    Parameters
    ----------
    columns : list of int or None
        Columns of the table that are features, in this order; None selects all columns.
    dtype : dtype
        float32 or float64.
    """

    def __init__(self, columns: list[int] | None, dtype: np.dtype[Any]) -> None:
        self.columns: Any = slice(None) if columns is None else columns
        if columns and columns == list(range(columns[0], columns[0] + len(columns))):
            # Indexing with a slice gives a view, with a list a copy.
            self.columns = slice(columns[0], columns[0] + len(columns))
        self.dtype = dtype
        self.buffer: RealArray = np.empty((0, 0), dtype=dtype)

    def __call__(self, table: AnyArray) -> RealArray:
        """Return C-contiguous features; without a copy if the table has them in this form."""
        chosen = table[:, self.columns]
        if chosen.dtype == self.dtype and chosen.flags.c_contiguous:
            return chosen
        if self.buffer.shape[1] != chosen.shape[1] or len(self.buffer) < len(chosen):
            self.buffer = np.empty(chosen.shape, dtype=self.dtype)
        block = self.buffer[: len(chosen)]
        np.copyto(block, chosen, casting="unsafe")
        return block


def labels_of(values: AnyArray, place: Callable[[int], str], first: int) -> AnyArray:
    """Return targets as an array of numbers, booleans or strings; `first` is the first row."""
    if values.dtype.kind in "biufUS":
        return values
    if values.dtype.kind == "T":
        values = values.astype(object)
    if values.dtype.kind != "O":
        raise ValueError(
            f"{place(first)}: the target has type {values.dtype}; labels must be strings, numbers "
            "or booleans"
        )
    for row, value in enumerate(values):
        nan = isinstance(value, float) and value != value
        if nan or value is None or type(value).__name__ in ("NAType", "NaTType"):  # types of pandas
            raise missing_target(place(first + row))
    kinds = {type(value) for value in values}
    plain = np.array(values.tolist())
    if len(kinds) > 1 or plain.dtype.kind not in "biufUS":
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ValueError(
            f"{place(first)} and the rows after it have targets of type {names}; labels must all "
            "be strings, or all numbers or booleans"
        )
    return plain


def missing_target(where: str) -> ValueError:
    """Return the error for a missing target."""
    return ValueError(f"{where}: the target is missing; leave such rows out of the data")


def joined(
    pieces: Sequence[tuple[RealArray, AnyArray, FloatArray | None]],
    n_features: int,
    dtype: np.dtype[Any],
) -> tuple[RealArray, AnyArray, FloatArray | None]:
    """Concatenate pieces of (X, target, weight)."""
    if not pieces:
        return np.empty((0, n_features), dtype=dtype), np.empty(0), None
    tables, targets, weights = zip(*pieces, strict=True)
    weight = None if weights[0] is None else np.concatenate(weights)
    return np.concatenate(tables), np.concatenate(targets), weight


def runs(rows: IntArray, step: int) -> list[IntArray]:
    """Split sorted row indices into groups within the same block of `step` rows."""
    if len(rows) == 0:
        return []
    return np.split(rows, np.flatnonzero(np.diff(rows // step)) + 1)
