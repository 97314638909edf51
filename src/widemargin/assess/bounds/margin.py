"""Margin bounds on the error of classifiers and ordinal models, with all constants."""

from __future__ import annotations

import math
import numbers

from widemargin._base.bound import (
    Bound,
    check_lengths,
    check_margin,
    check_positive,
    check_probability,
    check_rows,
    ratio_squared,
    rounded_down,
)
from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.validation import require


def margin_distribution(m: int, R: float, D: float, rho: float, delta: float) -> Bound:
    r"""Bound the error of a linear classifier by the distribution of its margins.

    Smola et al. (2000), theorem 2.1: for a classifier sign(w'x) with :math:`\|w\| \le 1`,

    .. math::

        \epsilon = \frac2m \left( \kappa \log_2 \frac{8em}{\kappa} \log_2(32m)
            + \log_2 \frac{2m (28 + \log_2 m)}{\delta} \right), \qquad
        \kappa = \left\lfloor \frac{65 [(R + D)^2 + 2.25 R D]}{\rho^2} \right\rfloor,

    for every margin :math:`\rho` that some sample attains, if :math:`\kappa \le e m` and
    :math:`m \ge \max(2/\epsilon, 6)`. The brackets of (2.20) in the paper denote the floor.

    Parameters
    ----------
    m : int
        Number of samples, positive.
    R : float
        Radius of a ball that contains all samples, including future ones.
    D : float
        :math:`\sqrt{\sum_i \max(0, \rho - y_i w'x_i)^2}`, the l2 norm of the slacks.
    rho : float
        The margin, positive and at most R: no sample attains a larger one.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.

    Returns
    -------
    Bound
        Its attribute `dimension` is kappa; the bound is infinite if kappa exceeds e m.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.margin_distribution(m=40_000, R=1.0, D=0.0, rho=1.0, delta=0.05), 6)
    0.905143
    """
    check_rows("m", m)
    check_probability("delta", delta)
    check_lengths(R=R, D=D)
    check_positive(rho=rho)
    check_margin(rho, R, "the radius R, since |w| <= 1")
    # (R + D)^2 + 2.25 R D, each length in units of rho
    size = 65.0 * (ratio_squared(R + D, rho) + 2.25 * (R / rho) * (D / rho))
    return _covered("margin distribution, theorem 2.1", m, size, delta)


def adaptive_margin(m: int, R: float, W: float, D: float, delta: float) -> Bound:
    r"""Bound the error of an adaptive-margin machine.

    Smola et al. (2000), theorem 2.2: as :func:`margin_distribution` with

    .. math::

        \kappa = \lfloor 65 (W R + 3 D)^2 \rfloor, \qquad
        W^2 = \sum_{ij} \alpha_i \alpha_j y_i y_j k(x_i, x_j), \qquad
        D^2 = \sum_i \max(0, \xi_i - \lambda \alpha_i k(x_i, x_i))^2,

    for coefficients and slacks that are feasible for (2.10)-(2.12), if some sample has a margin of
    at least 1. Then W R is at least 1 and kappa at least 65, so about 40,000 samples are needed
    for a bound below 1.

    Parameters
    ----------
    m : int
        Number of samples, positive.
    R : float
        Largest :math:`\sqrt{k(x, x)}`, including future samples.
    W : float
        Norm of the decision function in feature space.
    D : float
        Norm of the slacks beyond the adaptive part of the margins, as above.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.

    Returns
    -------
    Bound
        Its attribute `dimension` is kappa; the bound is infinite if kappa exceeds e m.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.adaptive_margin(m=1_000_000, R=1.0, W=1.0, D=0.0, delta=0.05), 7)
    0.0595421
    """
    check_rows("m", m)
    check_probability("delta", delta)
    check_lengths(R=R, W=W, D=D)
    reached = W * R >= 1.0 - OBJECTIVE_ROUNDING
    unmet = () if reached else (f"W R >= 1, as a margin of 1 takes (is {W * R:g})",)
    size = 65.0 * ratio_squared(W * R + 3.0 * D, 1.0)
    return _covered("adaptive margin, theorem 2.2", m, size, delta, unmet)


def ordinal_margin(m: int, R: float, rho: float, delta: float, pairs: str = "disjoint") -> Bound:
    r"""Bound the preference risk of a linear utility that ranks all training samples correctly.

    Herbrich et al. (2000), theorem 2.2: for a utility w'x with :math:`\|w\| = 1` and n independent
    pairs of samples, each in the right order by at least :math:`\rho`,

    .. math::

        R_{\mathrm{pref}} \le \frac2n \left( k \log_2 \frac{8en}{k} \log_2(32n)
            + \log_2 \frac{8n}{\delta} \right), \qquad
        k = \left\lfloor \left( \frac{8R}{\rho} \right)^2 \right\rfloor \le e n .

    The paper states the theorem with n = m - 1, for the pairs (1, 2), (2, 3), ... of m samples.
    These pairs share samples and are not independent, so that its (2.18) is false; n = floor(m / 2)
    disjoint pairs are.

    Parameters
    ----------
    m : int
        Number of samples, at least 2. If some samples have equal rank, pass twice the number of
        disjoint pairs of different ranks; the bound is then on the risk among pairs of different
        ranks (``preference_risk(..., scaled=True)``).
    R : float
        Largest distance between two samples in feature space, including future ones.
    rho : float
        The margin: the smallest difference of utilities, higher rank minus lower, over the pairs
        of different ranks. It is 1 / \|w\| for a model without slack, and at most R.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.
    pairs : {"disjoint", "printed"}, default="disjoint"
        n = floor(m / 2), or n = m - 1 as in the paper, for which the bound is not proved.

    Returns
    -------
    Bound
        Its attribute `dimension` is k; the bound is infinite if k exceeds e n.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.ordinal_margin(m=1_000_000, R=1.0, rho=0.5, delta=0.05), 5)
    0.37687
    >>> bounds.ordinal_margin(m=1_000_000, R=1.0, rho=0.5, delta=0.05, pairs="printed")
    Bound(0.2091, vacuous: independent pairs (neighbours share rows))
    """
    check_rows("m", m)
    check_probability("delta", delta)
    check_lengths(R=R)
    check_positive(rho=rho)
    check_margin(rho, R, "the largest distance R, since |w| = 1")
    require(m >= 2, "m", m, "at least 2: one row makes no pair")
    require(pairs in ("disjoint", "printed"), "pairs", pairs, '"disjoint" or "printed"')
    n = m // 2 if pairs == "disjoint" else m - 1
    unmet = () if pairs == "disjoint" else ("independent pairs (neighbours share rows)",)
    k = rounded_down(ratio_squared(8.0 * R, rho))
    name, of = "ordinal margin, theorem 2.2", "preference risk on new rows"
    return _correct_on_all(name, n, k, delta, unmet, of=of)


def shawe_taylor(m: int, k: float, delta: float) -> Bound:
    r"""Bound the error of a classifier without training errors by its smallest margin.

    Herbrich et al. (2000), theorem 2.3, due to Shawe-Taylor et al. (1998): for a class of
    functions f with a threshold fixed in advance, if all m samples are on the right side of it and
    their smallest margin is :math:`\rho_f`,

    .. math::

        R \le \frac2m \left( k \log_2 \frac{8em}{k} \log_2(32m)
            + \log_2 \frac{8m}{\delta} \right), \qquad
        k = \mathrm{fat}(\rho_f / 8) \le e m . \quad (2.20)

    The margin need not be fixed in advance.

    Parameters
    ----------
    m : int
        Number of samples, positive.
    k : float
        Fat-shattering dimension of the class at an eighth of the margin, or an upper bound of it:
        ``bounds.fat_linear(R, rho / 8)`` for a linear model without threshold.
    delta : float
        Confidence parameter in (0, 1): the bound fails with probability at most delta.

    Returns
    -------
    Bound
        Its attribute `dimension` is k; the bound is infinite if k exceeds e m.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.shawe_taylor(m=1_000_000, k=bounds.fat_linear(1.0, 0.5 / 8), delta=0.05)
    Bound(0.2091)
    """
    check_rows("m", m)
    check_probability("delta", delta)
    good = isinstance(k, numbers.Real) and not isinstance(k, bool) and k >= 0
    require(good, "k", k, "a dimension, not negative")
    return _correct_on_all("smallest margin, theorem 2.3", m, k, delta)


def _correct_on_all(
    name: str,
    n: int,
    k: float,
    delta: float,
    unmet: tuple[str, ...] = (),
    of: str = "error rate on new rows",
) -> Bound:
    """Return (2.20) of Herbrich et al. (2000) for n independent samples or pairs."""
    if k > math.e * n:
        return Bound(math.inf, name, (*unmet, f"k <= e n (is {k:.4g}, n = {n})"), k, of)
    cover = k * math.log2(8.0 * math.e * n / k) * math.log2(32.0 * n) if k else 0.0
    return Bound(2.0 / n * (cover + math.log2(8.0 * n / delta)), name, unmet, k, of)


def _covered(name: str, m: int, size: float, delta: float, unmet: tuple[str, ...] = ()) -> Bound:
    """Return (2.19) for kappa = floor(size); infinite if kappa exceeds e m."""
    kappa = rounded_down(size)
    if kappa > math.e * m:
        unmet = (*unmet, f"kappa <= e m (is {kappa:.4g}, m = {m})")
        return Bound(math.inf, name, unmet, kappa)
    cover = kappa * math.log2(8.0 * math.e * m / kappa) * math.log2(32.0 * m) if kappa else 0.0
    epsilon = 2.0 / m * (cover + math.log2(2.0 * m * (28.0 + math.log2(m)) / delta))
    if m < max(2.0 / epsilon, 6.0):
        unmet = (*unmet, f"m >= max(2 / bound, 6) (m = {m})")
    return Bound(epsilon, name, unmet, kappa)
