"""Kernel objects: kernels with named hyperparameters that can be added and multiplied."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import require


class KernelObject:
    """Base class of kernel objects.

    Kernel objects are immutable. `+` and `*` combine them with each other and with positive
    numbers. Called with one array, an object returns the kernel matrix of its rows; with two, the
    kernel values between their rows. These differ by :class:`White` noise, which is that of single
    samples: it is on the diagonal of the first, and never in the second.
    """

    def __call__(self, X: Matrix, Z: Matrix | None = None) -> FloatArray:
        """Return the kernel matrix of X, or the kernel values between the rows of X and Z."""
        found = self._cross(dense(X), dense(X if Z is None else Z))
        if Z is None and self._has_own_noise:
            found[np.diag_indices_from(found)] += self._own_noise(dense(X))
        return found

    def __add__(self, other: Any) -> KernelObject:
        return Sum(self, as_kernel(other))

    def __radd__(self, other: Any) -> KernelObject:
        return Sum(as_kernel(other), self)

    def __mul__(self, other: Any) -> KernelObject:
        return Product(self, as_kernel(other))

    def __rmul__(self, other: Any) -> KernelObject:
        return Product(as_kernel(other), self)

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the kernel values between rows of different samples, without noise."""
        raise NotImplementedError

    def _diagonal(self, X: Matrix) -> FloatArray:
        """Return k(x, x) of each row, noise included."""
        return self._smooth_diagonal(dense(X)) + self._own_noise(dense(X))

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return k(x, x) of each row without noise."""
        raise NotImplementedError

    def _own_noise(self, X: FloatArray) -> FloatArray:
        """Return the noise in k(x, x) of each row."""
        return np.zeros(len(X))

    @property
    def _has_own_noise(self) -> bool:
        """Whether there is noise, which is not in the kernel values of different samples."""
        return False

    def _log_parameters(self) -> FloatArray:
        """Return the logarithms of the hyperparameters that are not fixed."""
        raise NotImplementedError

    def _with_log_parameters(self, theta: FloatArray) -> KernelObject:
        """Return the kernel with other hyperparameters, given by their logarithms."""
        raise NotImplementedError

    def _gradients(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivatives of the kernel matrix of X, in the order of `_log_parameters`."""
        raise NotImplementedError


@dataclass(frozen=True, repr=False)
class Leaf(KernelObject):
    """Base class of kernels that are not combinations; their fields are the hyperparameters.

    Attributes
    ----------
    fixed : tuple of str
        Hyperparameters that `tune` does not change.
    """

    fixed: tuple[str, ...] = field(default=(), kw_only=True)

    _free: ClassVar[tuple[str, ...]] = ()  # names of the hyperparameters with derivatives

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self)
                 if each.name != "fixed" or self.fixed]  # fmt: skip
        return f"{type(self).__name__}({', '.join(shown)})"

    def __post_init__(self) -> None:
        for name in self._free:
            value = getattr(self, name)
            if not isinstance(value, numbers.Real):
                value = tuple(float(each) for each in np.ravel(value))
                object.__setattr__(self, name, value)
            each = np.atleast_1d(np.asarray(value, dtype=np.float64))
            good = len(each) > 0 and bool(np.isfinite(each).all() and (each > 0).all())
            require(good, name, value, "a positive number, or for length scales one per feature")
        known = {field.name for field in fields(self)}
        require(set(self.fixed) <= known, "fixed", self.fixed, "names of hyperparameters")

    def _tuned(self) -> list[str]:
        return [name for name in self._free if name not in self.fixed]

    def _log_parameters(self) -> FloatArray:
        """Return the logarithms of the hyperparameters that are not fixed."""
        parts = [np.atleast_1d(getattr(self, name)) for name in self._tuned()]
        return np.log(np.concatenate([*parts, np.empty(0)]).astype(np.float64))

    def _with_log_parameters(self, theta: FloatArray) -> KernelObject:
        """Return the kernel with other hyperparameters, given by their logarithms."""
        values, start = np.exp(theta), 0
        changed: dict[str, Any] = {}
        for name in self._tuned():
            stop = start + np.atleast_1d(getattr(self, name)).size
            scalar = isinstance(getattr(self, name), numbers.Real)
            changed[name] = float(values[start]) if scalar else tuple(values[start:stop].tolist())
            start = stop
        return replace(self, **changed)

    def _gradients(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivatives of the kernel matrix of X, in the order of `_log_parameters`."""
        for name in self._tuned():
            yield from getattr(self, f"_by_{name}")(X)


@dataclass(frozen=True)
class Pair(KernelObject):
    """Base class of the sum and the product of two kernels.

    Attributes
    ----------
    left, right : KernelObject
        The two kernels.
    """

    left: KernelObject
    right: KernelObject

    @property
    def _has_own_noise(self) -> bool:
        """Whether one of the kernels has noise."""
        return self.left._has_own_noise or self.right._has_own_noise

    def _log_parameters(self) -> FloatArray:
        """Return the logarithms of the hyperparameters that are not fixed, the left ones first."""
        return np.concatenate([self.left._log_parameters(), self.right._log_parameters()])

    def _with_log_parameters(self, theta: FloatArray) -> KernelObject:
        """Return the kernel with other hyperparameters, given by their logarithms."""
        n = len(self.left._log_parameters())
        left, right = self.left._with_log_parameters(theta[:n]), theta[n:]
        return replace(self, left=left, right=self.right._with_log_parameters(right))


@dataclass(frozen=True, repr=False)
class Sum(Pair):
    """Sum of two kernels, k1(x, z) + k2(x, z); written ``k1 + k2``."""

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the sum of the kernel values."""
        return self.left._cross(X, Z) + self.right._cross(X, Z)

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return the sum of the diagonals."""
        return self.left._smooth_diagonal(X) + self.right._smooth_diagonal(X)

    def _own_noise(self, X: FloatArray) -> FloatArray:
        """Return the sum of the noises."""
        return self.left._own_noise(X) + self.right._own_noise(X)

    def _gradients(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivatives of both kernels."""
        yield from self.left._gradients(X)
        yield from self.right._gradients(X)


@dataclass(frozen=True, repr=False)
class Product(Pair):
    """Product of two kernels, k1(x, z) k2(x, z); written ``k1 * k2``."""

    def __repr__(self) -> str:
        factors = self.left, self.right
        return " * ".join(f"({k!r})" if " + " in repr(k) else repr(k) for k in factors)

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the product of the kernel values."""
        return self.left._cross(X, Z) * self.right._cross(X, Z)

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return the product of the diagonals."""
        return self.left._smooth_diagonal(X) * self.right._smooth_diagonal(X)

    def _own_noise(self, X: FloatArray) -> FloatArray:
        """Return what the noise of the factors adds to the product of the diagonals."""
        whole = self.left._diagonal(X) * self.right._diagonal(X)
        return whole - self._smooth_diagonal(X) if self._has_own_noise else np.zeros(len(X))

    def _gradients(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivatives by the product rule."""
        left, right = self.left(X), self.right(X)
        for change in self.left._gradients(X):
            yield change * right
        for change in self.right._gradients(X):
            yield left * change


@dataclass(frozen=True, repr=False)
class Constant(Leaf):
    """Constant kernel, k(x, z) = value: an amplitude as a factor, a constant mean as a term.

    Parameters
    ----------
    value : float, default=1.0
        The constant, positive.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin.kernels import RBF, Constant
    >>> 2.0 * RBF(0.5) + Constant(3.0)
    Constant(value=2.0) * RBF(length_scale=0.5) + Constant(value=3.0)
    """

    value: float = 1.0

    _free: ClassVar[tuple[str, ...]] = ("value",)

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the constant for all pairs."""
        return np.full((len(X), len(Z)), float(self.value))

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return the constant for each row."""
        return np.full(len(X), float(self.value))

    def _by_value(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivative with respect to the logarithm of the constant."""
        yield self._cross(X, X)


def dense(X: Matrix) -> FloatArray:
    """Return samples as a dense array of float64."""
    return np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)


def as_kernel(value: Any) -> Any:
    """Return a kernel object; a positive number is a constant kernel."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        require(math.isfinite(value), "kernel", value, "a positive number or a kernel object")
        return Constant(value=float(value))
    return value
