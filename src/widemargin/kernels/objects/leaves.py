r"""Kernels of Gaussian processes: rbf, Matérn, rational quadratic, periodic, dot product, noise.

With :math:`r^2 = \sum_d (x_d - z_d)^2 / l_d^2` they are

==================  =============================================================================
RBF                 :math:`\exp(-r^2 / 2)`
Matern              :math:`e^{-r}`, :math:`(1 + \sqrt3 r) e^{-\sqrt3 r}` or
                    :math:`(1 + \sqrt5 r + \frac53 r^2) e^{-\sqrt5 r}` for nu = 0.5, 1.5, 2.5
RationalQuadratic   :math:`(1 + r^2 / (2 \alpha))^{-\alpha}`
Periodic            :math:`\exp(-2 \sin^2(\pi |x - z| / p) / l^2)`
DotProduct          :math:`\sigma_0^2 + x'z`
White               noise of each sample, zero for two different ones
==================  =============================================================================

Their derivatives with respect to log l_d are minus twice the derivative with respect to
:math:`r^2`, times :math:`(x_d - z_d)^2 / l_d^2`. Rasmussen and Williams (2006), chapter 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from widemargin._base.typing import FloatArray
from widemargin._base.validation import require
from widemargin.kernels.objects.base import Leaf

SMOOTHNESS = (0.5, 1.5, 2.5)


@dataclass(frozen=True, repr=False)
class Stationary(Leaf):
    """Base class of kernels that are functions of scaled distances; k(x, x) = 1."""

    length_scale: float | tuple[float, ...] = 1.0

    _free: ClassVar[tuple[str, ...]] = ("length_scale",)

    def _of_squares(self, squares: FloatArray) -> FloatArray:
        """Return the kernel values at squared scaled distances."""
        raise NotImplementedError

    def _slope(self, squares: FloatArray) -> FloatArray:
        """Return minus twice the derivative with respect to the squared scaled distance."""
        raise NotImplementedError

    def _squares(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return squared scaled distances."""
        scale = np.asarray(self.length_scale)
        require(scale.size in (1, X.shape[1]), "length_scale", self.length_scale,
                f"a number or one number per feature (X has {X.shape[1]})")  # fmt: skip
        return np.asarray(cdist(X / scale, Z / scale, "sqeuclidean"))

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the kernel values."""
        return self._of_squares(self._squares(X, Z))

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return ones."""
        return np.ones(len(X))

    def _by_length_scale(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivatives with respect to the logarithms of the length scales."""
        squares = self._squares(X, X)
        slope, scale = self._slope(squares), np.atleast_1d(self.length_scale)
        if scale.size == 1:
            yield slope * squares
            return
        for feature, width in zip(X.T, scale, strict=True):
            yield slope * ((feature[:, None] - feature) / width) ** 2


@dataclass(frozen=True, repr=False)
class RBF(Stationary):
    """Squared-exponential kernel, exp(-r^2 / 2); that of ``kernel="rbf"`` with gamma = 1 / (2 l^2).

    Parameters
    ----------
    length_scale : float or sequence of float, default=1.0
        Length scale l, or one per feature.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin.kernels import RBF
    >>> RBF(2.0)([[0.0], [2.0]]).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    def _of_squares(self, squares: FloatArray) -> FloatArray:
        """Return the kernel values at squared scaled distances."""
        return np.exp(-0.5 * squares)

    def _slope(self, squares: FloatArray) -> FloatArray:
        """Return minus twice the derivative with respect to the squared scaled distance."""
        return np.exp(-0.5 * squares)


@dataclass(frozen=True, repr=False)
class Matern(Stationary):
    """Matérn kernel of smoothness 1/2, 3/2 or 5/2.

    Parameters
    ----------
    length_scale : float or sequence of float, default=1.0
        Length scale l, or one per feature.
    nu : {0.5, 1.5, 2.5}, default=1.5
        Smoothness: functions are nu - 1/2 times differentiable.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin import GPRegressor
    >>> from widemargin.kernels import Matern
    >>> X = [[0.0], [1.0], [2.0]]
    >>> model = GPRegressor(kernel=Matern(nu=2.5), amplitude=1.0, noise=0.01).fit(X, [0, 1, 0])
    >>> float(model.predict([[1.0]])[0].round(2))
    0.98
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.nu in SMOOTHNESS, "nu", self.nu, "one of 0.5, 1.5 and 2.5")

    def _of_squares(self, squares: FloatArray) -> FloatArray:
        """Return the kernel values at squared scaled distances."""
        r = np.sqrt(2.0 * self.nu * squares)
        if self.nu == 0.5:
            return np.exp(-r)
        factor = 1.0 + r if self.nu == 1.5 else 1.0 + r + r**2 / 3.0
        return np.asarray(factor * np.exp(-r))

    def _slope(self, squares: FloatArray) -> FloatArray:
        """Return minus twice the derivative with respect to the squared scaled distance."""
        r = np.sqrt(2.0 * self.nu * squares)
        if self.nu == 0.5:
            # The derivative at distance zero does not exist, but is multiplied by zero.
            return np.asarray(np.exp(-r) / np.where(r > 0.0, r, 1.0))
        if self.nu == 1.5:
            return np.asarray(3.0 * np.exp(-r))
        return np.asarray(5.0 / 3.0 * (1.0 + r) * np.exp(-r))


@dataclass(frozen=True, repr=False)
class RationalQuadratic(Stationary):
    """Rational quadratic kernel, a mixture of rbf kernels of many length scales.

    Parameters
    ----------
    length_scale : float or sequence of float, default=1.0
        Length scale l, or one per feature.
    alpha : float, default=1.0
        Shape of the mixture; the kernel tends to :class:`RBF` for large alpha.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin.kernels import RationalQuadratic
    >>> RationalQuadratic(alpha=0.5)([[0.0]], [[1.0]]).round(4)
    array([[0.7071]])
    """

    alpha: float = 1.0

    _free: ClassVar[tuple[str, ...]] = ("length_scale", "alpha")

    def _of_squares(self, squares: FloatArray) -> FloatArray:
        """Return the kernel values at squared scaled distances."""
        return np.asarray((1.0 + squares / (2.0 * self.alpha)) ** -self.alpha)

    def _slope(self, squares: FloatArray) -> FloatArray:
        """Return minus twice the derivative with respect to the squared scaled distance."""
        return np.asarray((1.0 + squares / (2.0 * self.alpha)) ** (-self.alpha - 1.0))

    def _by_alpha(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivative with respect to the logarithm of alpha."""
        share = self._squares(X, X) / (2.0 * self.alpha)
        change = share / (1.0 + share) - np.log1p(share)
        yield self.alpha * change * (1.0 + share) ** -self.alpha


@dataclass(frozen=True, repr=False)
class Periodic(Leaf):
    """Periodic kernel of the distance, exp(-2 sin^2(pi abs(x - z) / periodicity) / l^2).

    It is positive semi-definite for one feature; for more, only if the samples happen to allow it.

    Parameters
    ----------
    length_scale : float, default=1.0
        Length scale l, relative to the period.
    periodicity : float, default=1.0
        Period, in units of the feature.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin.kernels import Periodic
    >>> Periodic(periodicity=2.0)([[0.0]], [[1.0], [2.0]]).round(4)
    array([[0.1353, 1.    ]])
    """

    length_scale: float = 1.0
    periodicity: float = 1.0

    _free: ClassVar[tuple[str, ...]] = ("length_scale", "periodicity")

    def _angles(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        return np.asarray(np.pi / self.periodicity * cdist(X, Z))

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the kernel values."""
        return np.exp(-2.0 * (np.sin(self._angles(X, Z)) / self.length_scale) ** 2)

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return ones."""
        return np.ones(len(X))

    def _by_length_scale(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivative with respect to the logarithm of the length scale."""
        squares = (np.sin(self._angles(X, X)) / self.length_scale) ** 2
        yield 4.0 * squares * np.exp(-2.0 * squares)

    def _by_periodicity(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivative with respect to the logarithm of the period."""
        angle = self._angles(X, X)
        change = 2.0 * angle * np.sin(2.0 * angle) / self.length_scale**2
        yield change * np.exp(-2.0 * (np.sin(angle) / self.length_scale) ** 2)


@dataclass(frozen=True, repr=False)
class DotProduct(Leaf):
    """Linear kernel with a constant, sigma_0^2 + x'z.

    Parameters
    ----------
    sigma_0 : float, default=1.0
        Standard deviation of the constant, not negative; 0 is not tuned.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin.kernels import DotProduct
    >>> DotProduct(0.0)([[1.0, 2.0]], [[3.0, 4.0]])
    array([[11.]])
    """

    sigma_0: float = 1.0

    _free: ClassVar[tuple[str, ...]] = ("sigma_0",)

    def __post_init__(self) -> None:
        if self.sigma_0 == 0:
            object.__setattr__(self, "fixed", tuple({*self.fixed, "sigma_0"}))
        else:
            super().__post_init__()

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return the kernel values."""
        return np.asarray(X @ Z.T + float(self.sigma_0) ** 2)

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return the squared norms plus the constant."""
        return np.asarray(np.einsum("ij,ij->i", X, X) + float(self.sigma_0) ** 2)

    def _by_sigma_0(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivative with respect to log sigma_0."""
        yield np.full((len(X), len(X)), 2.0 * float(self.sigma_0) ** 2)


@dataclass(frozen=True, repr=False)
class White(Leaf):
    """Noise of each sample: k(x, x) = noise, and zero for two different samples, equal or not.

    Parameters
    ----------
    noise : float, default=1.0
        Variance of the noise.
    fixed : tuple of str, default=()
        Hyperparameters that `tune` does not change.

    Examples
    --------
    >>> from widemargin.kernels import RBF, White
    >>> kernel = RBF() + White(0.5)
    >>> kernel([[0.0]]), kernel([[0.0]], [[0.0]])
    (array([[1.5]]), array([[1.]]))
    """

    noise: float = 1.0

    _free: ClassVar[tuple[str, ...]] = ("noise",)

    @property
    def _has_own_noise(self) -> bool:
        """Always true."""
        return True

    def _cross(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        """Return zeros."""
        return np.zeros((len(X), len(Z)))

    def _smooth_diagonal(self, X: FloatArray) -> FloatArray:
        """Return zeros."""
        return np.zeros(len(X))

    def _own_noise(self, X: FloatArray) -> FloatArray:
        """Return the variance for each row."""
        return np.full(len(X), float(self.noise))

    def _by_noise(self, X: FloatArray) -> Iterator[FloatArray]:
        """Yield the derivative with respect to the logarithm of the variance."""
        yield float(self.noise) * np.eye(len(X))
