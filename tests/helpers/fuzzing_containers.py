"""The kinds of arrays that people give to fit: all hold the same numbers, as far as they can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp


def _with_explicit_zeros(values: Any) -> Any:
    """Every entry is stored, zeros too, by int64 indices."""
    n, d = values.shape
    columns = np.tile(np.arange(d, dtype=np.int64), n)
    return sp.csr_array((values.ravel(), columns, d * np.arange(n + 1, dtype=np.int64)), (n, d))


def _unsorted(values: Any) -> Any:
    n, d = values.shape
    columns = np.tile(np.arange(d)[::-1], n)
    return sp.csr_array((values[:, ::-1].ravel(), columns, d * np.arange(n + 1)), (n, d))


def _twice(values: Any) -> Any:
    """Every entry in two halves: its row holds the column twice."""
    n, d = values.shape
    columns = np.tile(np.repeat(np.arange(d), 2), n)
    halves = np.repeat(values.ravel() / 2, 2)
    return sp.csr_array((halves, columns, 2 * d * np.arange(n + 1)), (n, d))


def _read_only(values: Any) -> Any:
    values = values.copy()
    values.flags.writeable = False
    return values


def _strided(values: Any) -> Any:
    """A view of every second row, the columns from behind."""
    base = np.zeros((2 * values.shape[0], values.shape[1]))
    base[::2] = values[:, ::-1]
    return base[::2, ::-1]


def _whole(values: Any, most: float) -> Any:
    return np.rint(np.clip(np.nan_to_num(values), -most, most))


def _single(values: Any) -> Any:
    """float32; large numbers become 1e30, since scikit-learn's check adds all of them up.

    What it says of sums that overflow, and of infinity, is not ours: tests/unit/test_bad_input.py.
    """
    most = 1e30
    return np.clip(values, -most, most).astype(np.float32)


CONTAINERS = {
    "float64": lambda values: values,
    "float32": lambda values: _single(values),
    "big_endian": lambda values: values.astype(">f8"),
    "int8": lambda values: _whole(values * 10, 120).astype(np.int8),
    "int64": lambda values: _whole(values, 2.0**60).astype(np.int64),
    "bool": lambda values: values > np.median(values),
    "fortran": np.asfortranarray,
    "read_only": _read_only,
    "strided": _strided,
    "list": lambda values: values.tolist(),
    "frame": lambda values: pd.DataFrame(values, columns=[f"x{j}" for j in range(len(values.T))]),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
    "coo_matrix": sp.coo_matrix,
    "csr_float32": lambda values: sp.csr_array(_single(values)),
    "explicit_zeros": _with_explicit_zeros,
    "unsorted": _unsorted,
    "twice": _twice,
}
DENSE = tuple(CONTAINERS)[: list(CONTAINERS).index("csr_array")]
SPARSE = tuple(name for name in CONTAINERS if name not in DENSE)
