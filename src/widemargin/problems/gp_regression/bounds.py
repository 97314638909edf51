r"""Bounds on the minimum of minus the log posterior density that hold in exact arithmetic.

The primal objective is a sum of enclosed terms. The dual needs :math:`1'\beta = 0` for a flat prior
of the mean, which holds up to rounding only. With :math:`\delta = 1'\beta` and u = 1/n, the bound
is that of :math:`\beta - \delta u`, which sums to zero in exact arithmetic:

.. math::

    a D(\beta - \delta u) = a D(\beta) - \delta\, u'(y - K\beta - \tau\beta)
    - \tfrac12 \delta^2 \bigl(u'Ku + u'\mathrm{diag}(\tau)u\bigr),
    \qquad u'Ku \le \Bigl(\frac1n \sum_i q_i\Bigr)^2 ,

where q are majorants, :math:`|k(x_i, x_j)| \le q_i q_j`. The lower bound assumes that K is positive
semi-definite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from widemargin._base.double_double import U
from widemargin._base.enclosure import Enclosure
from widemargin._base.products import gamma
from widemargin._base.typing import FloatArray
from widemargin.certificate import Bracket
from widemargin.kernels import Rows
from widemargin.kernels.sums import enclosed_sum, majorants, rough_errors, roundings

if TYPE_CHECKING:
    from widemargin.problems.gp_regression import GPRegression


def bracket(
    problem: GPRegression,
    coefficients: FloatArray,
    mean: float,
    rows: Rows,
    values: FloatArray,
    *,
    blur: float,
    precise: bool,
) -> Bracket:
    """Return bounds on the minimum of E; parameters as for `GPRegression.certificate`."""
    size = majorants(rows)
    beta, y = Enclosure.exact(coefficients), Enclosure.exact(problem.target)
    f = _fields(rows, coefficients, values, size, precise=precise)
    weight = Enclosure.exact(problem.weight).blurred(blur)
    with np.errstate(all="ignore"):
        ridge = Enclosure.exact(problem.noise) / (weight * problem.amplitude)
        norm, away = f.dot(coefficients), y - f - mean
        primal = norm * 0.5 + (away * away / ridge).sum() * 0.5
        dual = beta.dot(y) - norm * 0.5 - (beta * beta * ridge).sum() * 0.5
        total = beta.sum()
        if np.isfinite(problem.mean_variance) and problem.has_mean:
            spread = Enclosure.exact(problem.mean_variance) / problem.amplitude
            primal = primal + Enclosure.exact(mean) * mean / (spread * 2.0)
            dual = dual - total * total * spread * 0.5
        elif problem.has_mean:
            left = (y - f - beta * ridge).sum()
            n = len(coefficients)
            share = total / float(n)
            most = (float(size.sum()) ** 2 + n * float(ridge.sum().upper())) * (1.0 + 4.0 * n * U)
            dual = dual - share * left - share * share * Enclosure.exact(0.5 * most)
        # The optimum of a sum of squares is not negative.
        return Bracket.of(primal / problem.amplitude, dual / problem.amplitude, trivial=0.0)


def _fields(
    rows: Rows, coefficients: FloatArray, values: FloatArray, size: FloatArray, *, precise: bool
) -> Enclosure:
    """Return K beta, in float64 or in more digits."""
    n = len(coefficients)
    if precise:
        used = np.flatnonzero(coefficients)
        return enclosed_sum(
            rows, np.arange(n), used, coefficients[used], values, size=size, precise=True
        )
    # The product was computed from rounded kernel values, in any order.
    factor = gamma(n + 6.0 + roundings(rows, 1))
    return Enclosure.within(values, rough_errors(coefficients, size, size, factor))
