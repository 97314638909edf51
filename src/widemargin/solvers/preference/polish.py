r"""Finish a small hinge problem exactly: a quadratic program over the pairs at the kink.

Near the optimum nearly every pair is known to be on the flat part of the hinge, with variable 0,
or on its slope, with variable :math:`C s_i s_j`. The few with a slack within some width of zero
are decided by the quadratic program of :mod:`widemargin.solvers.numerics.box_qp` in the features.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.pair_sums import DualPoint, Listed, SortedRows
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp

REACH = 3.0  # smoothing widths around the kink from which pairs are taken
WIDEST = 0.05  # a wider zone says little about the pairs outside of it
PER_FEATURE = 1  # pairs for each feature, up to which a program is cheaper than further steps
FEW_PAIRS = 300  # pairs that are always few


def polish(
    problem: PreferenceProblem, features: FloatArray, f: FloatArray, rows: SortedRows, width: float
) -> tuple[FloatArray, DualPoint] | None:
    """Return weights and a dual point near utilities f, or None if too many pairs are near.

    `problem` has the hinge, `features` are those of all rows, and rows are `problem.sort(f)`.
    """
    most = max(FEW_PAIRS, PER_FEATURE * features.shape[1])
    reach = 2.0 + 2.0 * float(np.abs(f).max())  # all pairs
    near = rows.pairs_near_kink(reach, most)
    if near is None and width <= WIDEST:
        reach = REACH * width
        near = rows.pairs_near_kink(reach, most)
    if near is None or len(near[0]) == 0:
        return None
    upper, lower = near
    settled = DualPoint(f, reach, Listed(upper, lower, np.zeros(len(upper))))
    found = solve_box_qp(
        BoxQP(
            features[upper] - features[lower],
            np.zeros((len(upper), 0)),
            np.zeros(0),
            np.ones(len(upper)),
            problem.C * problem.weight[upper] * problem.weight[lower],
            problem.evaluate_point(settled).beta @ features,
        )
    )
    return found.w, DualPoint(f, reach, Listed(upper, lower, found.s))
