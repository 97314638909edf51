r"""Finish a small hinge problem exactly by a quadratic program over the pairs at the kink.

Near the optimum nearly all pairs can be fixed at a bound: on the flat part of the hinge the dual
variable is 0, on the sloped part :math:`C s_i s_j`. The dual variables of the few pairs whose slack
is close to zero solve a box QP (:mod:`widemargin.solvers.numerics.box_qp`) in the features.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.bounds import dual_terms
from widemargin.problems.preference.pair_sums import DualPoint, Listed, SortedRows
from widemargin.solvers.numerics.box_qp import BoxQP, solve_box_qp

REACH = 3.0  # pairs with a slack within this many smoothing widths of the kink are variables
WIDEST = 0.05  # with a wider zone, pairs outside it may still change sides
PER_FEATURE = 1  # pairs per feature up to which a QP is cheaper than further Newton steps
FEW_PAIRS = 300  # number of pairs that is always accepted


def polish(
    problem: PreferenceProblem, features: FloatArray, f: FloatArray, rows: SortedRows, width: float
) -> tuple[FloatArray, DualPoint] | None:
    """Solve the QP of the pairs near the kink at utilities f, or return None if they are too many.

    The loss of `problem` must be the hinge; `features` are those of all samples, and `rows` is
    `problem.sort(f)`. Returns the weights and the dual point.
    """
    most = max(FEW_PAIRS, PER_FEATURE * features.shape[1])
    # First try all pairs, none of which is farther from the kink: the QP is the whole problem.
    reach = 2.0 + 2.0 * float(np.abs(f).max())
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
            dual_terms(problem, settled).beta.hi @ features,
        )
    )
    return found.w, DualPoint(f, reach, Listed(upper, lower, found.s))
