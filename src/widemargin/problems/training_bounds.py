"""Bounds on the updates of the perceptron and on the training margins of AdaBoost."""

from __future__ import annotations

import math
import numbers
from typing import Any, Self

import numpy as np
from scipy.special import xlog1py, xlogy

from widemargin._base.bound import Bound, check_lengths, check_probability
from widemargin._base.typing import FloatArray
from widemargin._base.validation import require, require_number

MARGIN_ERROR = "share of training rows with a margin below rho"


def perceptron(R: float, rho: float, b: float) -> float:
    r"""Bound the number of updates of the perceptron.

    Smola et al. (2000), theorem 1.1: if a hyperplane with :math:`\|w^*\| = 1` and intercept
    :math:`b^*` has :math:`y_i (w^* \cdot x_i + b^*) \ge \rho > 0` for all samples, the perceptron
    makes, for any learning rate, at most

    .. math:: (1 + b^{*2}) (R^2 + 1) / \rho^2

    updates, where :math:`R = \max_i \|x_i\|`. The theorem is printed with :math:`\|x_i\|^2` for R,
    which the single sample x = 0.64 refutes: the perceptron makes one update, but for the
    hyperplane with :math:`b^* = w^* / 0.64` the bound would be 0.83.

    Parameters
    ----------
    R : float
        Largest norm of a sample (with a kernel, the largest :math:`\sqrt{k(x, x)}`).
    rho : float
        Smallest distance of a sample from the hyperplane, negative on the wrong side.
    b : float
        Intercept of the hyperplane whose weights have norm 1.

    Returns
    -------
    float
        Bound on the number of updates; infinite if rho is not positive.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.perceptron(R=2.0, rho=0.5, b=1.0)
    40.0
    >>> bounds.perceptron(R=2.0, rho=0.0, b=1.0)
    inf
    """
    check_lengths(R=R)
    require_number("rho", rho, "a finite number", above=-math.inf)
    require_number("b", b, "a finite number", above=-math.inf)
    if rho <= 0:
        return math.inf
    R, rho, b = float(R), float(rho), float(b)
    return (1.0 + b * b) * (R * R + 1.0) / rho / rho


class BoostingBound(Bound):
    r"""Bound on the margin error of AdaBoost, with its logarithm and its simplified form.

    Parameters
    ----------
    value, name, unmet
        As for :class:`Bound`.
    log : float
        Natural logarithm of the bound, for bounds that underflow.
    uniform : float or None
        :math:`(1 - \rho^2)^{T/2}`, (1.87), if all weighted errors are at most 1/2 - 2 rho and
        rho is positive.

    Attributes
    ----------
    log, uniform
        As above.
    of : str
        The bounded quantity: a fraction of the *training* samples.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bound = bounds.adaboost([0.1] * 10_000, rho=0.1)
    >>> float(bound), round(bound.log, 2)
    (0.0, -4009.64)
    """

    log: float
    uniform: float | None

    def __new__(
        cls,
        value: float,
        name: str,
        unmet: tuple[str, ...] = (),
        log: float = math.nan,
        uniform: float | None = None,
    ) -> Self:
        """Create a float that carries the attributes of the bound."""
        bound = super().__new__(cls, value, name, unmet, None, MARGIN_ERROR)
        bound.log, bound.uniform = log, uniform
        return bound

    def __getnewargs__(self) -> tuple[Any, ...]:
        """Return the arguments of `__new__`, for pickling."""
        return float(self), self.name, self.unmet, self.log, self.uniform


def adaboost(eps: Any, rho: float) -> BoostingBound:
    r"""Bound the fraction of training samples with a margin below rho after AdaBoost.

    Smola et al. (2000), theorem 1.12: with weighted errors :math:`\epsilon_t < 1/2` in rounds
    t = 1, ..., T of Table 1.2, the fraction of samples with a margin below rho is at most

    .. math:: \prod_{t=1}^T 2 \sqrt{\epsilon_t^{1 - \rho} (1 - \epsilon_t)^{1 + \rho}} \quad (1.86)

    and if all :math:`\epsilon_t \le 1/2 - 2 \rho` it is below :math:`(1 - \rho^2)^{T/2}`, (1.87).
    The margins are those of the weighted mean of the hypotheses, between -1 and 1.

    Parameters
    ----------
    eps : array-like of shape (n_rounds,)
        Weighted errors of the rounds, in [0, 1].
    rho : float
        The margin, in [-1, 1].

    Returns
    -------
    BoostingBound
        A bound on a fraction of the training samples, not on the error on new samples, which
        requires :func:`convex_combination` as well. The logarithm is in `log`, (1.87) in `uniform`.

    See Also
    --------
    adaboost_rounds : Number of rounds that (1.87) requires.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bound = bounds.adaboost([0.2, 0.3, 0.25], rho=0.1)
    >>> round(bound, 4), bound.of
    (0.7501, 'share of training rows with a margin below rho')
    >>> round(bound.uniform, 4)
    0.985
    """
    errors = _weighted_errors(eps)
    good = isinstance(rho, numbers.Real) and not isinstance(rho, bool) and -1 <= rho <= 1
    require(good, "rho", rho, "a number in [-1, 1], where the margins of a mean of hypotheses are")
    log = float(_log_factors(errors, float(rho)).sum())
    late = np.flatnonzero(errors >= 0.5)
    unmet: tuple[str, ...] = ()
    if len(late):
        t = int(late[0])
        unmet = (f"every weighted error below 1/2 (round {t + 1} has {errors[t]:.4g})",)
    uniform = None
    if rho > 0 and (errors <= 0.5 - 2.0 * rho).all():
        uniform = math.exp(0.5 * len(errors) * math.log1p(-(rho**2)))
    value = math.exp(log) if log < 700 else math.inf
    return BoostingBound(value, "margin error of AdaBoost, theorem 1.12", unmet, log, uniform)


def adaboost_rounds(rho: float, margin_error: float) -> int:
    r"""Return the number of AdaBoost rounds that guarantees a given margin error.

    Smola et al. (2000), below (1.87): if all weighted errors are at most 1/2 - 2 rho, after
    :math:`T \ge (2 / \rho^2) \ln(1 / \epsilon)` rounds the fraction of training samples with a
    margin below rho is less than :math:`\epsilon`.

    Parameters
    ----------
    rho : float
        The margin, in (0, 1/4), since weighted errors are not negative.
    margin_error : float
        The required fraction of training samples, in (0, 1).

    Returns
    -------
    int
        Number of rounds.

    Examples
    --------
    >>> from widemargin import bounds
    >>> bounds.adaboost_rounds(rho=0.1, margin_error=0.05)
    600
    """
    require_number("rho", rho, "a number in (0, 1/4)")
    require(rho < 0.25, "rho", rho, "a number in (0, 1/4): weighted errors are not below zero")
    check_probability("margin_error", margin_error)
    return math.ceil(2.0 / rho**2 * -math.log(margin_error))


def _weighted_errors(eps: Any) -> FloatArray:
    """Validate the weighted errors and return them as a float64 array."""
    fix = "the weighted errors of one round or more, each in [0, 1]"
    given = np.atleast_1d(np.asarray(eps))
    require(given.dtype.kind in "fiu", "eps", eps, fix)
    errors = given.astype(np.float64)
    good = errors.ndim == 1 and errors.size > 0 and bool(((errors >= 0) & (errors <= 1)).all())
    require(good, "eps", eps, fix)
    return errors


def _log_factors(errors: FloatArray, rho: float) -> FloatArray:
    """Return the logarithm of the factor of each round in (1.86).

    With the edge g = 1 - 2 eps it is ln(1 - g^2) / 2 + rho artanh(g), which is accurate for errors
    near 1/2. For eps = 0 or 1, where artanh is infinite, the original form is used.
    """
    edge = 1.0 - 2.0 * errors
    inside = np.abs(edge) < 1.0
    found = math.log(2.0) + 0.5 * (xlogy(1.0 - rho, errors) + xlog1py(1.0 + rho, -errors))
    edge = edge[inside]
    found[inside] = 0.5 * np.log1p(-(edge**2)) + rho * np.arctanh(edge)
    return np.asarray(found)


def vote_margin(objective: float, demanded: float, nu: float, rho: float) -> Bound:
    r"""Bound the margin error of a vote with a soft margin, as LPBoost finds it.

    At most a fraction nu of the samples has a margin below the demanded one, :math:`\rho^*`, and by
    Markov's inequality at most :math:`\nu (P + \rho^*) / (\rho^* - \rho)` has one below
    :math:`\rho < \rho^*`, where P is the objective, minus the margin plus the cost of all slacks.

    Parameters
    ----------
    objective : float
        P, or an upper bound on it.
    demanded : float
        :math:`\rho^*`, at which the objective is evaluated.
    nu : float
        In (0, 1].
    rho : float
        Margin threshold.

    Returns
    -------
    Bound
        A float; 1 for rho above the demanded margin.

    Examples
    --------
    >>> from widemargin.problems.training_bounds import vote_margin
    >>> vote_margin(objective=-0.2, demanded=0.25, nu=0.3, rho=0.1)
    Bound(0.1)
    """
    require_number("rho", rho, "a finite number", above=-math.inf)
    value = 1.0
    if rho <= demanded:
        away = demanded - float(rho)
        lost = nu * max(0.0, objective + demanded)
        value = min(nu, lost / away) if away > 0.0 else nu
    return Bound(value, "nu-property of LPBoost", of=MARGIN_ERROR)
