"""Spectrum of a kernel matrix: entropy and covering numbers of the functions on the samples."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from widemargin._base.bound import check_positive, check_rows
from widemargin._base.double_double import U
from widemargin._base.typing import FloatArray
from widemargin._base.validation import require, require_bool
from widemargin.assess.bounds.capacity import CoveringNumber
from widemargin.kernels import is_mercer

FACTOR = 6.0  # of the upper bound of Carl and Stephani


class EntropyNumber(NamedTuple):
    """Lower and upper bound of an entropy number: a radius of n balls that cover the functions.

    Attributes
    ----------
    lower, upper : float
        The bounds.
    vacuous : bool
        Whether the upper bound is trivial: one ball of that radius covers all functions.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import bounds
    >>> spectrum = bounds.kernel_spectrum(np.eye(4), centred=False)
    >>> number = spectrum.entropy_number(10**6)
    >>> round(number.lower, 4), round(number.upper, 4), number.vacuous
    (0.0158, 0.0949, False)
    >>> spectrum.entropy_number(1).vacuous
    True
    """

    lower: float
    upper: float
    vacuous: bool


@dataclass(frozen=True, eq=False)
class KernelSpectrum:
    r"""Eigenvalues of a kernel matrix of m samples, and the entropy numbers that they imply.

    The functions :math:`f(x) = w \cdot \Phi(x)` with :math:`\|w\| \le B`, evaluated on the samples,
    are an ellipsoid with the semi-axes :math:`B \sigma_j`, :math:`\sigma_j = \sqrt{\lambda_j / m}`,
    in the distance :math:`(\frac1m \sum_i (f(x_i) - g(x_i))^2)^{1/2}`. If the matrix is centred,
    functions that differ by a constant are the same.

    Attributes
    ----------
    eigenvalues : ndarray of shape (m,)
        The eigenvalues :math:`\lambda_j`, not negative, in descending order.
    error : float
        Bound on their rounding error, counted by the bounds.
    centred : bool
        Whether the matrix was centred.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import bounds
    >>> angle = 2 * np.pi * np.arange(8) / 8
    >>> spectrum = bounds.kernel_spectrum(np.cos(angle[:, None] - angle))
    >>> spectrum.eigenvalues.round(6)
    array([4., 4., 0., 0., 0., 0., 0., 0.])
    """

    eigenvalues: FloatArray
    error: float
    centred: bool

    def entropy_number(self, n: int, B: float = 1.0) -> EntropyNumber:
        r"""Bound the smallest radius of n balls that cover the functions.

        Carl and Stephani (1990), proposition 1.3.2, which Williamson et al. (2001) apply to kernel
        machines: the entropy number :math:`\epsilon_n` of the diagonal operator of
        :math:`\sigma_1 \ge \sigma_2 \ge \dots \ge 0` satisfies

        .. math::

            \sup_j n^{-1/j} (\sigma_1 \cdots \sigma_j)^{1/j} \le \epsilon_n
            \le 6 \sup_j n^{-1/j} (\sigma_1 \cdots \sigma_j)^{1/j} .

        The upper bound is not above :math:`\sigma_1`, the radius of all functions.

        Parameters
        ----------
        n : int
            Number of balls, positive.
        B : float, default=1.0
            Largest norm of w.

        Returns
        -------
        EntropyNumber
            Both bounds; vacuous if the upper one is the radius of all functions.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import bounds
        >>> spectrum = bounds.kernel_spectrum(np.diag([4.0, 1.0]), centred=False)
        >>> spectrum.entropy_number(1_000).upper < spectrum.entropy_number(100).upper
        True
        """
        check_rows("n", n)
        check_positive(B=B)
        low, high = self._log2_axes(B)
        logarithm = math.log2(n)
        radius = _power(high[0])
        upper = FACTOR * _power(_best_mean(high, logarithm))
        lower = _power(_best_mean(low, logarithm))
        return EntropyNumber(min(lower, radius), min(upper, radius), not upper < radius)

    def covering_number(self, eps: float, B: float = 1.0) -> CoveringNumber:
        r"""Bound the number of balls of radius eps that cover the functions on the samples.

        The inverse of :meth:`entropy_number`: the base-2 logarithm of the covering number is at
        least :math:`\sum_j \log_2^+ (B \sigma_j / \epsilon)`, and at most
        :math:`1 + \sum_j \log_2^+ (6 B \sigma_j / \epsilon)`, where :math:`\log^+ = \max(0, \log)`.
        It is 0 for :math:`\epsilon \ge B \sigma_1`.

        Parameters
        ----------
        eps : float
            Radius, positive.
        B : float, default=1.0
            Largest norm of w.

        Returns
        -------
        CoveringNumber
            Logarithms to the base 2.

        Examples
        --------
        >>> import numpy as np
        >>> from widemargin import bounds
        >>> spectrum = bounds.kernel_spectrum(np.eye(4), centred=False)
        >>> [round(value, 9) for value in spectrum.covering_number(0.125)[:2]]
        [8.0, 19.339850003]
        """
        check_positive(eps=eps, B=B)
        low, high = (axes - math.log2(eps) for axes in self._log2_axes(B))
        lower = float(np.maximum(0.0, low).sum())
        if high[0] <= 0.0:
            return CoveringNumber(lower, 0.0)
        return CoveringNumber(lower, 1.0 + float(np.maximum(0.0, high + math.log2(FACTOR)).sum()))

    def _log2_axes(self, B: float) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of the logarithms of the semi-axes."""
        with np.errstate(divide="ignore"):
            share = self.eigenvalues / len(self.eigenvalues)
            error = self.error / len(self.eigenvalues)
            low = np.log2(np.maximum(share - error, 0.0))
            high = np.log2(share + error)
        return 0.5 * low + math.log2(B), 0.5 * high + math.log2(B)


def kernel_spectrum(K: ArrayLike, *, centred: bool = True) -> KernelSpectrum:
    """Return the eigenvalues of a kernel matrix, with the entropy numbers that they imply.

    The faster they fall, the fewer functions the kernel can tell apart on these samples. This is
    the capacity on the given samples: no error rate follows without an assumption about others.

    Parameters
    ----------
    K : array-like of shape (n_samples, n_samples)
        Kernel matrix, symmetric and positive semi-definite.
    centred : bool, default=True
        Whether to centre the samples in feature space first, which corresponds to functions with
        an intercept.

    Returns
    -------
    KernelSpectrum
        Eigenvalues, with methods for entropy and covering numbers.

    See Also
    --------
    covering_number : Bound for any samples in a ball, from the fat-shattering dimension.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from widemargin import bounds
    >>> X, _ = load_iris(return_X_y=True)
    >>> wide, narrow = (bounds.kernel_spectrum(rbf_kernel(X, gamma=g)) for g in (0.01, 1.0))
    >>> bool(wide.covering_number(0.01).log2_upper < narrow.covering_number(0.01).log2_upper)
    True
    """
    require_bool("centred", centred)
    matrix = np.asarray(K, dtype=np.float64)
    good = matrix.ndim == 2 and len(matrix) > 0 and is_mercer(matrix)
    fix = "a symmetric positive semi-definite matrix (widemargin.kernels.is_mercer)"
    require(good, "K", f"an array of shape {matrix.shape}", fix)
    matrix, n = 0.5 * (matrix + matrix.T), len(matrix)
    size = float(np.abs(matrix).max())
    if centred:
        mean = matrix.mean(axis=0)
        matrix = matrix - mean - mean[:, None] + mean.mean()
        matrix = 0.5 * (matrix + matrix.T)
    found = np.linalg.eigvalsh(matrix)[::-1]
    # Of centring, n entries of a few roundings of sums; of the eigenvalues, backward stability.
    error = 16.0 * n * n * U * size
    return KernelSpectrum(np.maximum(found, 0.0), max(error, float(-found[-1])), centred)


def _best_mean(axes: FloatArray, logarithm: float) -> float:
    """Return the largest (sum of the first j axes - logarithm) / j."""
    means = (np.cumsum(axes) - logarithm) / np.arange(1, len(axes) + 1)
    return float(means.max())


def _power(exponent: float) -> float:
    """Return 2 to a power that may be minus infinity."""
    return float(2.0**exponent)
