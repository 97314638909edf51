"""Questions about kernels that may be objects, functions or names."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, Matrix
from widemargin.kernels.objects.base import dense
from widemargin.kernels.objects.from_sklearn import converted


def has_own_noise(kernel: Any) -> bool:
    """Return whether a kernel has noise of single samples."""
    return bool(getattr(converted(kernel), "has_own_noise", False))


def own_noise(kernel: Any, X: Matrix) -> FloatArray | None:
    """Return the noise in k(x, x) of each row, or None if the kernel has none."""
    return kernel.own_noise(dense(X)) if getattr(kernel, "has_own_noise", False) else None


def has_diagonal(kernel: Any) -> bool:
    """Return whether a kernel computes k(x, x) of all rows at once."""
    return hasattr(kernel, "diagonal")


def own_values(kernel: Any, X: Matrix) -> FloatArray:
    """Return k(x, x) of each row by a kernel object."""
    return np.asarray(kernel.diagonal(X), dtype=np.float64)
