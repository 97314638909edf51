"""Capacity of function classes: VC dimension, fat-shattering dimension, covering numbers."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import NamedTuple

from widemargin._base.bound import (
    check_constant,
    check_lengths,
    check_positive,
    check_rows,
    ratio_squared,
    rounded_down,
)
from widemargin._base.validation import require


def vc_margin_dimension(R: float, rho: float, N: float) -> float:
    r"""Bound the VC dimension of hyperplanes with a margin on points in a ball.

    Smola et al. (2000), (1.35): decision functions :math:`\operatorname{sgn}(w \cdot x)` with
    :math:`\|w\| \le 1`, on points with :math:`\|x\| \le R` and :math:`|w \cdot x| \ge \rho`, have a
    VC dimension of at most :math:`\min(R^2 / \rho^2, N) + 1`. A dimension is an integer, so the
    bound is rounded down.

    It does not imply an error bound, since new samples would also have to satisfy the margin.

    Parameters
    ----------
    R : float
        Radius of the ball.
    rho : float
        The margin (distance from the hyperplane), positive.
    N : int or inf
        Number of features; ``math.inf`` for an infinite-dimensional feature space.

    Returns
    -------
    int
        The VC dimension; ``math.inf`` if it is not bounded.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.vc_margin_dimension(R=1.0, rho=0.3, N=100)
    12
    >>> bounds.vc_margin_dimension(R=1.0, rho=0.3, N=5)
    6
    """
    check_lengths(R=R)
    check_positive(rho=rho)
    whole = isinstance(N, numbers.Integral) and not isinstance(N, bool)
    good = (whole and N > 0) or math.inf == N
    require(good, "N", N, "a positive integer or math.inf")
    return min(rounded_down(ratio_squared(R, rho)), N) + 1


def fat_linear(R: float, rho: float) -> float:
    r"""Bound the fat-shattering dimension of linear functions on a ball.

    Smola et al. (2000), theorem 1.7: functions :math:`w \cdot x` with :math:`\|w\| \le 1` on the
    ball :math:`\|x\| \le R` about the origin shatter at most :math:`(R / \rho)^2` points at scale
    rho. The bound is rounded down to an integer. It has no threshold; one can be included as the
    weight of an additional constant feature.

    Parameters
    ----------
    R : float
        Radius of the ball.
    rho : float
        Scale, positive.

    Returns
    -------
    int
        The dimension; ``math.inf`` if it overflows.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.fat_linear(R=1.0, rho=0.3)
    11
    """
    check_lengths(R=R)
    check_positive(rho=rho)
    return rounded_down(ratio_squared(R, rho))


def fat_l1(R: float, eps: float, N: int, c: float) -> float:
    r"""Bound the fat-shattering dimension of linear functions with bounded l1 norm.

    Smola et al. (2000), theorem 1.9: functions :math:`w \cdot x` with
    :math:`\|w\|_1 \le R` on samples with :math:`\|x\|_\infty \le 1` have at scale
    :math:`\epsilon` a dimension of at most :math:`c (R / \epsilon)^2 \ln(2N + 2)`.

    Parameters
    ----------
    R : float
        Upper bound of :math:`\|w\|_1` (times s for samples with entries up to s).
    eps : float
        Scale, positive.
    N : int
        Number of features.
    c : float
        The universal constant of the theorem, which does not specify its value.

    Returns
    -------
    float
        The dimension, not rounded.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.fat_l1(R=1.0, eps=0.5, N=100, c=1.0), 3)
    21.233
    """
    check_lengths(R=R)
    check_positive(eps=eps)
    check_rows("N", N)
    check_constant(c)
    return float(c) * ratio_squared(R, eps) * math.log(2.0 * N + 2.0)


class CoveringNumber(NamedTuple):
    """Lower and upper bound of the base-2 logarithm of a covering number.

    Attributes
    ----------
    log2_lower, log2_upper : float
        The bounds. The lower one is valid only if the dimension was exact or a lower bound itself.
    unmet : tuple of str
        Conditions of the theorem that do not hold; `log2_upper` is then infinite.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.covering_number(eps=1.0, B=1.0, m=10, fat=20)
    CoveringNumber(log2_lower=0.0, log2_upper=inf, unmet=('m >= fat(eps / 4) (m = 10, fat = 20)',))
    """

    log2_lower: float
    log2_upper: float
    unmet: tuple[str, ...] = ()


def covering_number(
    eps: float, B: float, m: int, fat: float | Callable[[float], float]
) -> CoveringNumber:
    r"""Bound the covering number of a function class on any m points.

    Smola et al. (2000), theorem 1.4: for functions into [0, B] and
    :math:`m \ge \mathrm{fat}(\epsilon / 4)`,

    .. math::

        \tfrac18 \log_2 e \; \mathrm{fat}(16 \epsilon) \le \log_2 \mathcal N(\epsilon, F, m)
        \le 3 \, \mathrm{fat}(\epsilon / 4) \log_2^2 \frac{4 e B m}{\epsilon} . \quad (1.39)

    Parameters
    ----------
    eps : float
        Accuracy, positive.
    B : float
        Length of the interval that contains all values; B = 2R for linear functions with
        :math:`\|w\| \le 1` on a ball of radius R.
    m : int
        Number of points.
    fat : float or callable
        The fat-shattering dimension: its value at the scale ``eps / 4``, or a function of the
        scale, such as ``lambda scale: bounds.fat_linear(R, scale)``. With a number, the lower bound
        is 0.

    Returns
    -------
    CoveringNumber
        Logarithms to the base 2, since the numbers themselves may overflow.

    Examples
    --------
    >>> from widemargin import bounds
    >>> found = bounds.covering_number(
    ...     eps=0.25, B=2.0, m=1_000, fat=lambda scale: bounds.fat_linear(1.0, scale)
    ... )
    >>> found.log2_lower, round(found.log2_upper)
    (0.0, 206775)
    """
    check_positive(eps=eps, B=B)
    check_rows("m", m)
    fix = "a number of points, not negative, or a function of the scale that returns one"
    fine = fat(eps / 4.0) if callable(fat) else fat
    coarse = fat(16.0 * eps) if callable(fat) else 0
    for found in (fine, coarse):
        good = isinstance(found, numbers.Real) and not isinstance(found, bool) and found >= 0
        require(good, "fat", fat if found is fat else found, fix)
    lower = math.log2(math.e) / 8.0 * coarse
    if fine > m:
        return CoveringNumber(lower, math.inf, (f"m >= fat(eps / 4) (m = {m}, fat = {fine:.4g})",))
    # If eps exceeds the range of values, one function is a cover: the logarithm is clipped at 0.
    width = math.log2(max(1.0, 4.0 * math.e * B * m / eps))
    return CoveringNumber(lower, 3.0 * fine * width * width)
