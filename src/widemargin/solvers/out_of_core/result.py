"""Carry the result of the solvers that read their data in parts."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.linear_scan import Evaluation, Plane
from widemargin.solvers.base import LinearResult


@dataclass(frozen=True, eq=False)
class Multipliers:
    """The multipliers of all samples, in short: explicit ones, and a plane for the others.

    Attributes
    ----------
    base : Plane
        Samples of positive slack there are at their caps, others at zero.
    centre : ndarray of shape (n_features,) or None
        What is subtracted from the samples before the plane is applied to them.
    part, rows, alpha : ndarray
        The explicit samples, sorted by part and row, and their multipliers.
    """

    base: Plane
    centre: FloatArray | None
    part: IntArray
    rows: IntArray
    alpha: FloatArray


@dataclass(frozen=True, eq=False, kw_only=True)
class OutOfCoreResult(LinearResult):
    """A linear model with what a read of all samples found at it.

    The thresholds are the middle of an interval where they are not unique. Entries of `history`:
    round, explicit_rows, violators, lower, upper and passes; or pass, primal, dual and "rows with
    slack" for the squared hinge.

    Attributes
    ----------
    evaluation : Evaluation
        Objectives and KKT violation at `coef` and `thresholds`, summed up over all samples.
    multipliers : Multipliers or None
        Of the hinge and the hulls, see `dual_variables`.
    """

    evaluation: Evaluation
    multipliers: Multipliers | None = None

    @property
    def separable(self) -> bool:
        """False where reduced hulls meet, so that w = 0."""
        return bool(self.coef.any())
