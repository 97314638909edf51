"""Result of the out-of-core solvers: a linear model, its evaluation and its multipliers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.linear_reads import Plane
from widemargin.problems.linear_scan import Evaluation
from widemargin.solvers.base import LinearResult


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Compact form of the multipliers of all samples; `dual_variables` expands it.

    Attributes
    ----------
    base : Plane
        Plane that determines the implicit multipliers: samples with a positive slack at it are at
        their caps, the others at zero.
    centre : ndarray of shape (n_features,) or None
        Vector to subtract from a sample before its slack at `base` is computed.
    part, rows, alpha : ndarray
        Explicit samples, sorted by part and row number in the part, and their multipliers.
    """

    base: Plane
    centre: FloatArray | None
    part: IntArray
    rows: IntArray
    alpha: FloatArray

    def of_part(self, number: int, cap: float = 1.0) -> Multipliers:
        """Return the multipliers of one part, in units of `cap`."""
        mine = slice(*np.searchsorted(self.part, (number, number + 1)))
        return Multipliers(
            self.base, self.centre, self.part[mine], self.rows[mine], self.alpha[mine] / cap
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class OutOfCoreResult(LinearResult):
    """Linear model with its objectives and KKT violation, evaluated over all samples.

    A threshold that is not unique is the midpoint of the interval of its optimal values. Keys of
    the entries of `history`: round, explicit_rows, violators, lower, upper and passes; for the
    squared hinge pass, primal, dual and "rows with slack".

    Attributes
    ----------
    evaluation : Evaluation
        Objectives and KKT violation at `coef` and `thresholds`, computed from all samples.
    multipliers : Multipliers or None
        Multipliers of the hinge or of reduced hulls; None for the squared hinge.
    """

    evaluation: Evaluation
    multipliers: Multipliers | None = None

    @property
    def separable(self) -> bool:
        """Whether w is not zero; False if the reduced hulls intersect."""
        return bool(self.coef.any())
