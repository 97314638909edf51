"""Type aliases for arrays."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
"""A float64 array: coefficients, gradients, decision values, certificates."""

RealArray: TypeAlias = npt.NDArray[np.floating[Any]]
"""A float32 or float64 array: data and kernel blocks."""

IntArray: TypeAlias = npt.NDArray[np.intp]
"""An array of row numbers."""

BoolArray: TypeAlias = npt.NDArray[np.bool_]

Matrix: TypeAlias = Any
"""Checked data: a dense C-contiguous array or a CSR matrix, float32 or float64.

scipy ships no types, so nothing tighter would be checked.
"""
