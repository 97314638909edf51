"""Hyperparameters, diagonals and noise of kernels that may be objects, functions or names.

These are functions, so that the public methods of kernel objects are their values, + and *.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, Matrix
from widemargin.kernels.objects.base import KernelObject, dense
from widemargin.kernels.objects.from_sklearn import converted


def is_object(kernel: Any) -> bool:
    """Return whether a kernel is a kernel object."""
    return hasattr(kernel, "_log_parameters")


def has_own_noise(kernel: Any) -> bool:
    """Return whether a kernel has noise of single samples."""
    return bool(getattr(converted(kernel), "_has_own_noise", False))


def own_noise(kernel: Any, X: Matrix) -> FloatArray | None:
    """Return the noise in k(x, x) of each row, or None if the kernel has none."""
    return kernel._own_noise(dense(X)) if getattr(kernel, "_has_own_noise", False) else None


def own_values(kernel: KernelObject, X: Matrix) -> FloatArray:
    """Return k(x, x) of each row, noise included."""
    return np.asarray(kernel._diagonal(X), dtype=np.float64)


def log_parameters(kernel: Any) -> FloatArray:
    """Return the logarithms of the hyperparameters that are not fixed; none unless an object."""
    kernel = converted(kernel)
    return kernel._log_parameters() if is_object(kernel) else np.empty(0)


def with_log_parameters(kernel: KernelObject, theta: FloatArray) -> KernelObject:
    """Return the kernel with other hyperparameters, given by their logarithms."""
    return kernel._with_log_parameters(theta)


def gradients(kernel: KernelObject, X: FloatArray) -> Iterator[FloatArray]:
    """Yield the derivatives of the kernel matrix of X, in the order of `log_parameters`."""
    return kernel._gradients(X)
