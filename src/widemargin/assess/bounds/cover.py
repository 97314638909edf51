"""Covering-number bounds on the error: theorems 1.5 and 1.6 of Smola et al. (2000)."""

from __future__ import annotations

import math
from collections.abc import Callable

from widemargin._base.bound import (
    Bound,
    check_lengths,
    check_margin,
    check_positive,
    check_probability,
    check_rows,
    check_share,
)
from widemargin._base.validation import require
from widemargin.assess.bounds.capacity import CoveringNumber, covering_number, fat_linear

HALVINGS = 200  # bisection steps, enough for the resolution of float64


def margin_cover(m: int, rho: float, R: float, delta: float, margin_error: float) -> Bound:
    r"""Bound the error of a linear classifier by its margin error, with all constants.

    Smola et al. (2000), theorem 1.5: for functions of a class F and a margin rho fixed in advance,
    with probability 1 - delta the error is at most

    .. math::

        \frac2m \log_2 \frac{2 \mathcal N}{\delta} \quad (1.40), \qquad
        R_\rho + \sqrt{\frac8m \ln \frac{2 \mathcal N}{\delta}} \quad (1.41),

    the former if no sample has a margin below rho, with
    :math:`\mathcal N = \mathcal N(\rho / 2, F, 2m)`. For functions :math:`w \cdot x` with
    :math:`\|w\| \le 1` on a ball of radius R, theorems 1.4 and 1.7 imply
    :math:`\log_2 \mathcal N \le 3 k \log_2^2(32 e R m / \rho)` with
    :math:`k = \lfloor (8 R / \rho)^2 \rfloor`, if :math:`2m \ge k`.

    Each of the two bounds fails with probability at most delta. If the choice between them, or of
    rho, depends on the samples, delta must be divided among the candidates.

    Parameters
    ----------
    m : int
        Number of samples.
    rho : float
        The margin, positive, fixed in advance. Above R, every sample has a smaller margin.
    R : float
        Radius of a ball about the origin that contains all samples, including future ones.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.
    margin_error : float
        Fraction of the samples with a margin below rho (:func:`widemargin.margins.margin_error`).

    Returns
    -------
    Bound
        Its attribute `dimension` is k; the bound is infinite if k exceeds 2m.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.margin_cover(m=1_000_000, rho=0.5, R=1.0, delta=0.05, margin_error=0.0)
    Bound(1.151, vacuous: not below 1)
    >>> bounds.margin_cover(m=10_000_000, rho=0.5, R=1.0, delta=0.05, margin_error=0.1)
    Bound(0.7335)
    """
    check_positive(rho=rho)
    check_lengths(R=R)
    check_share(margin_error=margin_error)
    if margin_error < 1:
        check_margin(rho, R, "the radius R, since |w| <= 1")
    return cover_bound("margin error, theorem 1.5", m, rho, 2.0 * R, fat_linear(R, rho / 8.0),
                       delta, margin_error)  # fmt: skip


def cover_bound(
    name: str, m: int, rho: float, B: float, fat: float, delta: float, margin_error: float
) -> Bound:
    """Return (1.40) or (1.41) for functions with values in an interval of length B.

    `fat` is the fat-shattering dimension of their class at the scale rho / 8.
    """
    check_rows("m", m)
    check_probability("delta", delta)
    check_share(margin_error=margin_error)
    bits = 0.0
    if fat > 0:
        cover = covering_number(rho / 2.0, B, 2 * m, fat)
        if cover.unmet:
            return Bound(math.inf, name, (f"2m >= k (m = {m}, k = {fat:.4g})",), fat)
        bits = cover.log2_upper
    bits += 1.0 - math.log2(delta)
    if margin_error > 0:
        return Bound(margin_error + math.sqrt(8.0 / m * bits * math.log(2.0)), name, (), fat)
    return Bound(2.0 / m * bits, name, (), fat)


def regression_cover(
    m: int, delta: float, empirical_risk: float, fat: float | Callable[[float], float]
) -> Bound:
    r"""Bound the mean squared error of regression with values in [0, 1].

    Smola et al. (2000), theorem 1.6: for functions and targets with values in [0, 1],

    .. math::

        \Pr\Bigl( \sup_{f \in F} |R(f) - R_{\mathrm{emp}}(f)| \ge \epsilon \Bigr)
            \le 4 \, \mathcal N(\epsilon / 16, F, 2m) \, e^{-\epsilon^2 m / 32} . \quad (1.42)

    The smallest :math:`\epsilon` for which the right side is at most delta is found by bisection;
    :math:`\mathcal N` is bounded by theorem 1.4, with the fat-shattering dimension at the scale
    :math:`\epsilon / 64`.

    Parameters
    ----------
    m : int
        Number of samples.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.
    empirical_risk : float
        Mean squared error on the training samples, in [0, 1].
    fat : float or callable
        Fat-shattering dimension of the class: a function of the scale, or a number that is valid
        at all scales (N + 1 for linear functions of N features). For :math:`w \cdot x` with
        :math:`\|w\| \le W`, :math:`\|x\| \le R`, clipped to [0, 1], it is
        ``lambda scale: bounds.fat_linear(W * R, scale)``.

    Returns
    -------
    Bound
        Bound of the mean squared error on new samples, with the fat-shattering dimension as
        `dimension`; infinite if no :math:`\epsilon` below 1 satisfies the condition.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.regression_cover(m=10_000_000, delta=0.05, empirical_risk=0.01, fat=3)
    Bound(0.1637)
    >>> bounds.regression_cover(m=1_000, delta=0.05, empirical_risk=0.01, fat=3)
    Bound(inf, vacuous: epsilon < 1 (more rows are needed))
    """
    check_rows("m", m)
    check_probability("delta", delta)
    check_share(empirical_risk=empirical_risk)
    name, of = "regression, theorem 1.6", "mean squared error on new rows"

    def cover(eps: float) -> CoveringNumber:
        return covering_number(eps / 16.0, 1.0, 2 * m, fat)

    def enough(eps: float) -> bool:
        log = math.log(4.0) + math.log(2.0) * cover(eps).log2_upper - eps**2 * m / 32.0
        return log <= math.log(delta)

    if not enough(1.0):
        return Bound(math.inf, name, ("epsilon < 1 (more rows are needed)",), None, of)
    low, eps = 0.0, 1.0  # bracket of the smallest sufficient epsilon
    for _ in range(HALVINGS):
        middle = 0.5 * (low + eps)
        if middle in (low, eps):
            break
        low, eps = (low, middle) if enough(middle) else (middle, eps)
    require(eps > 0, "fat", fat, "a function that does not fall as the scale becomes finer")
    dimension = fat(eps / 64.0) if callable(fat) else fat
    return Bound(empirical_risk + eps, name, (), dimension, of)
