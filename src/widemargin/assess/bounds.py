r"""Bounds on the error on new data, one function a theorem.

=====================  =====================================================================
function               theorem
=====================  =====================================================================
margin_distribution    Smola et al. (2000), theorem 2.1 (Shawe-Taylor and Cristianini 1998)
adaptive_margin        Smola et al. (2000), theorem 2.2 (Weston and Herbrich)
ordinal_margin         Herbrich et al. (2000), theorem 2.2, with pairs that are independent
=====================  =====================================================================

Every function returns a :class:`Bound`: a number that also says whether it tells anything. Rows
are taken to be drawn independently from one distribution whose support lies in a ball of radius R
about the origin of feature space; with probability 1 - delta over such samples the error rate on
new rows is below the bound.

Bounds of this kind have constants so large that they exceed 1, and so say nothing, unless there
are tens of thousands of rows. They explain what makes an error small; they do not estimate it.
:mod:`widemargin.loo` does.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from widemargin._validation import require, require_number

__all__ = ["Bound", "adaptive_margin", "margin_distribution", "ordinal_margin"]

ROUNDING = 1e-12  # a product may be this much too small; a floor must not turn that into 1


class Bound(float):
    """A bound on an error rate, and what it is worth.

    Parameters
    ----------
    value : float
        The number.
    name : str
        The theorem.
    unmet : tuple of str
        Conditions of the theorem that do not hold here.
    dimension : int or None
        The number that measures how rich the class of functions is (kappa), where there is one.

    Attributes
    ----------
    name, unmet, dimension
        As above.
    vacuous : bool
        Whether it says nothing: it is at least 1, or a condition is not met.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bound = bounds.adaptive_margin(m=100_000, R=1.0, W=1.0, D=0.0, delta=0.05)
    >>> round(bound, 4), bound.vacuous, bound.dimension
    (0.4228, False, 65)
    >>> bounds.adaptive_margin(m=1_000, R=1.0, W=1.0, D=0.0, delta=0.05)
    Bound(16.36, vacuous: not below 1)
    """

    name: str
    unmet: tuple[str, ...]
    dimension: int | None

    def __new__(
        cls, value: float, name: str, unmet: tuple[str, ...] = (), dimension: int | None = None
    ) -> Bound:
        """Make a float with a name."""
        bound = super().__new__(cls, value)
        bound.name, bound.unmet, bound.dimension = name, unmet, dimension
        return bound

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing about the error."""
        return bool(self.unmet) or not self < 1.0

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.name, self.unmet, self.dimension

    def __repr__(self) -> str:
        if not self.vacuous:
            return f"Bound({float(self):.4g})"
        return f"Bound({float(self):.4g}, vacuous: {', '.join(self.unmet or ('not below 1',))})"


def margin_distribution(m: int, R: float, D: float, rho: float, delta: float) -> Bound:
    r"""Bound the error of a linear classifier by the distribution of its margins.

    Smola et al. (2000), theorem 2.1: for a classifier sign(w'x) with :math:`\|w\| \le 1`,

    .. math::

        \epsilon = \frac2m \left( \kappa \log_2 \frac{8em}{\kappa} \log_2(32m)
            + \log_2 \frac{2m (28 + \log_2 m)}{\delta} \right), \qquad
        \kappa = \left\lfloor \frac{65 [(R + D)^2 + 2.25 R D]}{\rho^2} \right\rfloor,

    for every margin :math:`\rho` that some row attains, if :math:`\kappa \le e m` and
    :math:`m \ge \max(2/\epsilon, 6)`. The brackets of the printed (2.20) are floors.

    Parameters
    ----------
    m : int
        Number of rows, positive.
    R : float
        Radius of the ball that holds all rows, those to come included.
    D : float
        :math:`\sqrt{\sum_i \max(0, \rho - y_i w'x_i)^2}`: how far rows fall short of the margin.
    rho : float
        The margin, positive.
    delta : float
        Probability with which the bound may fail, in (0, 1).

    Returns
    -------
    Bound
        With kappa in `dimension`.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.margin_distribution(m=40_000, R=1.0, D=0.0, rho=1.0, delta=0.05), 6)
    0.905143
    """
    _check(m=m, delta=delta, R=R, D=D)
    require_number("rho", rho, "a positive number")
    size = 65.0 * ((R + D) ** 2 + 2.25 * R * D) / rho**2
    return _covered("margin distribution, theorem 2.1", m, size, delta)


def adaptive_margin(m: int, R: float, W: float, D: float, delta: float) -> Bound:
    r"""Bound the error of an adaptive-margin machine.

    Smola et al. (2000), theorem 2.2: as :func:`margin_distribution` with

    .. math::

        \kappa = \lfloor 65 (W R + 3 D)^2 \rfloor, \qquad
        W^2 = \sum_{ij} \alpha_i \alpha_j y_i y_j k(x_i, x_j), \qquad
        D^2 = \sum_i \max(0, \xi_i - \lambda \alpha_i k(x_i, x_i))^2,

    for coefficients and slacks that are feasible for (2.10)-(2.12), if some row has a margin of
    at least 1. That row makes W R at least 1 and kappa at least 65, so some 40,000 rows are
    needed before the bound falls below 1.

    Parameters
    ----------
    m : int
        Number of rows, positive.
    R : float
        Largest :math:`\sqrt{k(x, x)}`, rows to come included.
    W : float
        Norm of the machine in feature space.
    D : float
        Its slack beyond the adaptive part of the margins, as above.
    delta : float
        Probability with which the bound may fail, in (0, 1).

    Returns
    -------
    Bound
        With kappa in `dimension`.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.adaptive_margin(m=1_000_000, R=1.0, W=1.0, D=0.0, delta=0.05), 7)
    0.0595421
    """
    _check(m=m, delta=delta, R=R, W=W, D=D)
    unmet = () if W * R >= 1.0 - ROUNDING else (f"W R >= 1, as a margin of 1 takes (is {W * R:g})",)
    return _covered("adaptive margin, theorem 2.2", m, 65.0 * (W * R + 3.0 * D) ** 2, delta, unmet)


def ordinal_margin(m: int, R: float, rho: float, delta: float, pairs: str = "disjoint") -> Bound:
    r"""Bound the preference risk of a linear utility that orders its training rows without error.

    Herbrich et al. (2000), theorem 2.2: for a utility w'x with :math:`\|w\| = 1` and n independent
    pairs of rows, each in the right order by at least :math:`\rho`,

    .. math::

        R_{\mathrm{pref}} \le \frac2n \left( k \log_2 \frac{8en}{k} \log_2(32n)
            + \log_2 \frac{8n}{\delta} \right), \qquad
        k = \left\lfloor \left( \frac{8R}{\rho} \right)^2 \right\rfloor \le e n .

    The theorem is printed with n = m - 1, for the pairs (1, 2), (2, 3), ... of m rows. These share
    rows and are not independent, so that its (2.18) is false; n = floor(m / 2) pairs share none.

    Parameters
    ----------
    m : int
        Number of rows, two at least. Pairs of equal rank have no order: where there are some, give
        twice the number of disjoint pairs of different ranks; the bound then is one on the risk
        among pairs of different ranks (``preference_risk(..., scaled=True)``).
    R : float
        Largest distance between two rows in feature space, rows to come included.
    rho : float
        The margin: the smallest difference of utilities, higher rank minus lower, over the pairs
        of different ranks. It is 1 / \|w\| for a machine that has no slack.
    delta : float
        Probability with which the bound may fail, in (0, 1).
    pairs : {"disjoint", "printed"}, default="disjoint"
        n = floor(m / 2), or m - 1 as printed, which is not proved.

    Returns
    -------
    Bound
        With k in `dimension`; infinite where k exceeds e n.

    Examples
    --------
    >>> from widemargin import bounds
    >>> round(bounds.ordinal_margin(m=1_000_000, R=1.0, rho=0.5, delta=0.05), 5)
    0.37687
    >>> bounds.ordinal_margin(m=1_000_000, R=1.0, rho=0.5, delta=0.05, pairs="printed")
    Bound(0.2091, vacuous: independent pairs (neighbours share rows))
    """
    _check(m=m, delta=delta, R=R)
    require_number("rho", rho, "a positive number")
    require(m >= 2, "m", m, "at least 2: one row makes no pair")
    require(pairs in ("disjoint", "printed"), "pairs", pairs, '"disjoint" or "printed"')
    n = m // 2 if pairs == "disjoint" else m - 1
    unmet = () if pairs == "disjoint" else ("independent pairs (neighbours share rows)",)
    name = "ordinal margin, theorem 2.2"
    k = math.floor((8.0 * R / rho) ** 2 * (1.0 + ROUNDING))
    if k > math.e * n:
        return Bound(math.inf, name, (*unmet, f"k <= e n (is {k:.4g}, n = {n})"), k)
    cover = k * math.log2(8.0 * math.e * n / k) * math.log2(32.0 * n) if k else 0.0
    return Bound(2.0 / n * (cover + math.log2(8.0 * n / delta)), name, unmet, k)


def _check(m: Any, delta: Any, **lengths: Any) -> None:
    """Check what the theorems have in common."""
    whole = isinstance(m, numbers.Integral) and not isinstance(m, bool)
    require(whole and m > 0, "m", m, "a positive integer")
    good = isinstance(delta, numbers.Real) and not isinstance(delta, bool)
    require(good and 0 < delta < 1, "delta", delta, "a probability in (0, 1)")
    for name, value in lengths.items():
        good = isinstance(value, numbers.Real) and not isinstance(value, bool)
        good = good and math.isfinite(value) and value >= 0
        require(good, name, value, "a finite number, not negative")


def _covered(name: str, m: int, size: float, delta: float, unmet: tuple[str, ...] = ()) -> Bound:
    """Return (2.19) for the kappa that `size` rounds down to.

    The term with kappa grows up to kappa = 8 m and would fall from there on, below zero in the
    end. The theorem ends at kappa = e m; beyond 8 m the number stays where it is.
    """
    kappa = math.floor(size * (1.0 + ROUNDING))
    used = min(kappa, 8 * m)
    cover = used * math.log2(8.0 * math.e * m / used) * math.log2(32.0 * m) if used else 0.0
    epsilon = 2.0 / m * (cover + math.log2(2.0 * m * (28.0 + math.log2(m)) / delta))
    if kappa > math.e * m:
        unmet = (*unmet, f"kappa <= e m (is {kappa:.4g}, m = {m})")
    if m < max(2.0 / epsilon, 6.0):
        unmet = (*unmet, f"m >= max(2 / bound, 6) (m = {m})")
    return Bound(epsilon, name, unmet, kappa)
