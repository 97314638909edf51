"""Generalisation bounds up to a universal constant, which the caller must supply."""

from __future__ import annotations

import math

from widemargin._base.bound import (
    Bound,
    check_constant,
    check_lengths,
    check_margin,
    check_positive,
    check_probability,
    check_rows,
    check_share,
    ratio_squared,
)
from widemargin._base.validation import require


def vc(n: int, h: float, delta: float, empirical_risk: float, c: float) -> Bound:
    r"""Bound the error of any decision function of a class by the VC dimension of the class.

    Smola et al. (2000), theorem 1.2: with probability 1 - delta over n samples, all functions g of
    a class with VC dimension h satisfy

    .. math::

        R(g) \le R_{\mathrm{emp}}(g)
            + \sqrt{\frac cn \left( h + \ln \frac1\delta \right)} . \quad (1.31)

    With the smallest error in the class instead of :math:`R_{\mathrm{emp}}` this is (1.32), which
    holds for the function with the smallest training error.

    Parameters
    ----------
    n : int
        Number of samples.
    h : float
        VC dimension of the class; N + 1 for hyperplanes with a threshold in N features.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.
    empirical_risk : float
        Training error rate of g.
    c : float
        The universal constant of the theorem, which does not specify its value.

    Returns
    -------
    Bound
        Its attribute `dimension` is h.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.vc(n=10_000, h=11, delta=0.05, empirical_risk=0.1, c=4.0)
    Bound(0.1748)
    """
    check_share(empirical_risk=empirical_risk)
    value = empirical_risk + _vc_deviation(n, h, delta, c)
    return Bound(value, "VC dimension, theorem 1.2", (), h)


def vc_lower(n: int, h: float, delta: float, best_risk: float, c: float) -> Bound:
    r"""Lower-bound the worst-case error of any algorithm on a class with VC dimension h.

    Smola et al. (2000), theorem 1.3: for every algorithm there are distributions of samples such
    that with probability delta or more the error of its result g is at least

    .. math::

        R(g) \ge \inf_{g' \in G} R(g')
            + \sqrt{\frac cn \left( h + \ln \frac1\delta \right)} . \quad (1.33)

    The bound concerns the worst distribution, not that of the data. The constant differs from that
    of :func:`vc`.

    Parameters
    ----------
    n : int
        Number of samples.
    h : float
        VC dimension of the class, at least 1.
    delta : float
        Probability, in (0, 1), that the error reaches the bound.
    best_risk : float
        Smallest error in the class under that distribution.
    c : float
        The universal constant of the theorem, which does not specify its value.

    Returns
    -------
    Bound
        A lower bound, with h as `dimension`. A value above 1, which no error rate can reach, means
        that there are too few samples for this c, and is reported as an unmet condition.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bound = bounds.vc_lower(n=10_000, h=11, delta=0.05, best_risk=0.0, c=0.01)
    >>> round(bound, 5), bound.lower
    (0.00374, True)
    """
    check_share(best_risk=best_risk)
    deviation = _vc_deviation(n, h, delta, c, least=1)
    value = best_risk + deviation
    unmet = () if value <= 1 else (f"n large enough for c: no error is above 1 (n = {n})",)
    return Bound(value, "VC dimension, theorem 1.3", unmet, h, lower=True)


def linear_margin(
    m: int, R: float, rho: float, delta: float, margin_error: float, c: float
) -> Bound:
    r"""Bound the error of a linear classifier by its margin error, up to a constant.

    Smola et al. (2000), theorem 1.8: with probability 1 - delta over m samples in a ball of radius
    R about the origin, for all margins rho and all :math:`\|w\| \le 1`, the error is at most

    .. math::

        \frac cm \left( \frac{R^2}{\rho^2} \ln^2 \frac{m R}{\rho}
            + \ln \frac1\delta \right) \quad (1.45), \qquad
        R_\rho + \sqrt{\frac cm \left( \frac{R^2}{\rho^2} \ln^2 \frac{m R}{\rho}
            + \ln \frac1\delta \right)} \quad (1.46),

    the former if no sample has a margin below rho. The paper has :math:`\log(m / \rho)`, which
    depends on the unit of length and vanishes in units of rho / m; here R is the unit.
    :func:`margin_cover` is the same bound with all constants, for a rho fixed in advance.

    Parameters
    ----------
    m : int
        Number of samples.
    R : float
        Radius of a ball that contains all samples, including future ones.
    rho : float
        The margin, positive. Above R, every sample has a smaller margin.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.
    margin_error : float
        Fraction of the samples with a margin below rho.
    c : float
        The universal constant of the theorem, which does not specify its value.

    Returns
    -------
    Bound
        Its attribute `dimension` is :math:`R^2 / \rho^2`.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.linear_margin(m=100_000, R=1.0, rho=0.5, delta=0.05, margin_error=0.0, c=1.0)
    Bound(0.005989)
    >>> bounds.linear_margin(m=100_000, R=1.0, rho=0.5, delta=0.05, margin_error=0.1, c=1.0)
    Bound(0.1774)
    """
    check_rows("m", m)
    check_lengths(R=R)
    check_positive(rho=rho)
    check_probability("delta", delta)
    check_share(margin_error=margin_error)
    if margin_error < 1:
        check_margin(rho, R, "the radius R, since |w| <= 1")
    check_constant(c)
    size = ratio_squared(R, rho)
    width = math.log(max(1.0, m * (R / rho)))
    term = c / m * (size * width * width - math.log(delta))
    value = margin_error + math.sqrt(term) if margin_error > 0 else term
    return Bound(value, "linear margin, theorem 1.8", (), size)


def convex_combination(
    m: int, h: float, rho: float, delta: float, margin_error: float, c: float
) -> Bound:
    r"""Bound the error of a convex combination of hypotheses (boosting), up to a constant.

    Smola et al. (2000), theorem 1.10: with probability 1 - delta over m samples, for all margins
    rho and all convex combinations of functions into {-1, 1} from a class of VC dimension h,

    .. math::

        R(f) \le R_\rho(f) + \sqrt{\frac cm \left( \frac{h \ln^2(m / h)}{\rho^2}
            + \ln \frac1\delta \right)} . \quad (1.50)

    The bound does not depend on the number of hypotheses.

    Parameters
    ----------
    m : int
        Number of samples.
    h : float
        VC dimension of the class of hypotheses, at least 1.
    rho : float
        The margin, positive; margins of a convex combination are at most 1.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.
    margin_error : float
        Fraction of the samples with a margin below rho.
    c : float
        The universal constant of the theorem, which does not specify its value.

    Returns
    -------
    Bound
        Its attribute `dimension` is h; the bound is infinite if m < h.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.convex_combination(m=100_000, h=3, rho=0.3, delta=0.05, margin_error=0.02, c=1.0)
    Bound(0.2102)
    """
    check_rows("m", m)
    _check_dimension(h, least=1)
    check_positive(rho=rho)
    check_probability("delta", delta)
    check_share(margin_error=margin_error)
    if margin_error < 1:
        check_margin(rho, 1.0, "the margin of a unanimous vote")
    check_constant(c)
    name = "convex combination, theorem 1.10"
    if m < h:
        return Bound(math.inf, name, (f"m >= h (m = {m}, h = {h:g})",), h)
    size = h * ratio_squared(math.log(m / h), rho)
    return Bound(margin_error + math.sqrt(c / m * (size - math.log(delta))), name, (), h)


def _vc_deviation(n: int, h: float, delta: float, c: float, least: float = 0) -> float:
    """Return the square root in (1.31) to (1.33)."""
    check_rows("n", n)
    _check_dimension(h, least)
    check_probability("delta", delta)
    check_constant(c)
    return math.sqrt(c / n * (h - math.log(delta)))


def _check_dimension(h: float, least: float) -> None:
    check_lengths(h=h)
    require(h >= least, "h", h, f"a VC dimension, at least {least:g}")
