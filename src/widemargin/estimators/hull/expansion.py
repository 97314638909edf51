"""Rescale a solution of the reduced-hull problem to that of the equivalent SVC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin.certificate import Certificate
from widemargin.estimators._base.proof import Proof
from widemargin.estimators.hull.sizes import Sizes
from widemargin.estimators.svm.expansion import Expansion
from widemargin.fitted.by_path import Machine
from widemargin.problems.reduced_hull import NearestPoints, equivalent_cost
from widemargin.problems.soft_margin import SoftMargin, c_classification
from widemargin.solvers.reduced_hull import HullResult

AT_BOUND = 1e-9  # relative distance from the upper bound that is attributed to rounding
NEEDS_THETA = (
    "need cut='theta': leave-one-out is that of the machine at its equivalent C, whose boundary "
    "is the middle of the thresholds; this model has cut='hull'"
)


@dataclass(frozen=True)
class HullExpansion(Expansion):
    """Kernel expansion of one pair of classes, with its reduced hulls."""

    sizes: Sizes
    hulls: SoftMargin
    points: NearestPoints
    outlier: BoolArray  # one entry per sample of the pair
    history: list[dict[str, Any]]
    theta: FloatArray | None = None  # theta+ and theta- for the samples as given by the user
    coef: FloatArray | None = None  # weights of a linear model

    @classmethod
    def of(
        cls,
        found: HullResult,
        certificate: Certificate,
        unit: float,
        chosen: IntArray,
        hulls: SoftMargin,
        sizes: Sizes,
        cut: str,
    ) -> HullExpansion:
        """Return the solution divided by `unit`, half the margin, so that its margin is 1."""
        alpha, points = found.alpha, found.points
        at_bound = np.abs(alpha) >= (1.0 - AT_BOUND) * (hulls.upper - hulls.lower)
        beyond = points.slack(hulls, found.f) > AT_BOUND * unit
        label = np.where(hulls.group == 0, 1.0, -1.0)
        problem = c_classification(label, equivalent_cost(hulls, 2.0 * unit))
        used = np.flatnonzero(alpha)
        return cls(
            rows=chosen[used],
            beta=alpha[used] / unit,
            intercept=-points.cut(cut) / unit,
            thresholds=np.array([-points.theta_plus, -points.theta_minus]),
            proof=Proof.of(certificate),
            status=found.status,
            machine=Machine(chosen, problem, alpha / unit, -points.cut("theta") / unit, held="C"),
            sizes=sizes,
            hulls=hulls,
            points=points,
            outlier=at_bound & beyond,
            history=list(found.history),
            norm2=points.norm2 / (unit * unit),
        )
