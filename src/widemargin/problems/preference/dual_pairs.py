"""Dual points of the pairwise problem of :mod:`widemargin.problems.preference`.

There are as many dual variables as comparable pairs, too many to hold. A point is told by the
utilities that place the pairs, and by the few pairs near the kink of the loss; what is needed of it
are sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Listed:
    """Some pairs, by their rows, with their dual variables."""

    upper: IntArray
    lower: IntArray
    values: FloatArray


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Dual variables of all pairs, told by few numbers.

    Attributes
    ----------
    f : ndarray of shape (n_rows,)
        Utilities that place the pairs: z = 1 - (f_i - f_j).
    width : float
        Hinge: mu, the variable of a pair rises from 0 to its cap while z rises from 0 to mu. With
        `listed`: pairs with z > mu are at their cap, pairs with z <= -mu are zero, and those
        between are listed. Not used by the squared hinge, whose variable is 2 C s_i s_j z_+.
    listed : Listed, optional
        Every pair with -mu < z <= mu.
    """

    f: FloatArray
    width: float = 0.0
    listed: Listed | None = None


@dataclass(frozen=True, eq=False)
class Response:
    """What a dual point comes to: sums over its pairs.

    Attributes
    ----------
    beta : ndarray of shape (n_rows,)
        Expansion coefficients.
    total : float
        The dual objective without its norm.
    loss : float
        C times the loss of all pairs at the utilities of the point.
    smoothed : float
        The same of the smoothed loss (nan for a point with listed pairs, which has none).
    """

    beta: FloatArray
    total: float
    loss: float
    smoothed: float = np.nan
