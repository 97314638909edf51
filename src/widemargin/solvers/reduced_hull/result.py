"""Result of the reduced-hull solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from widemargin.problems.reduced_hull import NearestPoints
from widemargin.solvers.base import DualResult


@dataclass(frozen=True, eq=False, kw_only=True)
class HullResult(DualResult):
    """Nearest points of two reduced hulls.

    `alpha` holds the masses of the rows, negative for the negative class.

    Attributes
    ----------
    points : NearestPoints
        Thresholds and values of w.x at the nearest points.
    separable : bool
        Whether the hulls are known to be apart. If not, and the status is not that of a budget
        that ran out, they meet as far as float64 can tell.
    history : list of dict
        One entry per round of the methods that have rounds.
    """

    points: NearestPoints
    separable: bool
    history: tuple[dict[str, Any], ...] | list[dict[str, Any]] = ()
