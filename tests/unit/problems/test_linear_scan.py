"""Linear machines by sums over reads: the same problems as those with a box for every sample."""

from __future__ import annotations

import numpy as np
import pytest

from widemargin.problems.linear_reads import FloatSums
from widemargin.problems.linear_scan import LinearProblem, wrong_by
from widemargin.problems.reduced_hull import reduced_hulls
from widemargin.problems.soft_margin import c_classification


def _case(kind: str, intercept: bool):
    """Two statements of one problem, and feasible multipliers, many of them at a bound."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(60, 3))
    y = np.repeat([1.0, -1.0], 30)
    weight = rng.choice([0.0, 0.5, 2.0], 60)
    cap = 0.2 if kind == "hull" else 0.7
    if kind == "hull":
        boxes = reduced_hulls(y, cap * weight)
    else:
        boxes = c_classification(y, cap * weight, squared=False, intercept=intercept)
    start = y * rng.choice([0.0, 0.4, 1.0], 60) * cap * weight
    alpha = y * boxes.repair(start)
    return X, y, weight, LinearProblem(kind, cap, intercept), boxes, alpha


@pytest.mark.parametrize(("kind", "intercept"), [("hinge", True), ("hinge", False), ("hull", True)])
def test_objectives_and_violation_are_those_of_the_boxes(kind: str, intercept: bool) -> None:
    X, y, weight, problem, boxes, alpha = _case(kind, intercept)
    w = (alpha * y) @ X
    f, norm2 = X @ w, float(w @ w)
    s = boxes.scores(y * alpha, f)
    # Thresholds that samples on both sides disagree with, as at any point but the optimum.
    up, down = y * alpha < boxes.upper, y * alpha > boxes.lower
    ends = [
        (s[down & (boxes.group == g)].min(), s[up & (boxes.group == g)].max())
        for g in range(boxes.n_groups)
    ]
    thresholds = np.array([0.4 * low + 0.6 * high for low, high in ends])
    t = -thresholds if kind == "hull" else thresholds
    slack = problem.plane(w, t).slack(X @ w, y)
    loss = float(weight @ np.maximum(slack, 0.0))
    assert problem.primal(w, t, loss) == pytest.approx(boxes.primal(f, norm2, thresholds))
    assert problem.dual(w, float(alpha.sum())) == pytest.approx(boxes.dual(y * alpha, norm2))
    violation = boxes.kkt_violation(y * alpha, f)
    assert violation > 0.1
    wrong = wrong_by(slack, y, alpha, problem.cap * weight)
    assert problem.violation(wrong) == pytest.approx(violation)
    if kind != "hull":
        assert problem.name == boxes.name


@pytest.mark.parametrize("intercept", [True, False])
def test_the_bound_of_the_squared_hinge_is_a_dual_objective(intercept: bool) -> None:
    X, y, weight, _, _, _ = _case("hinge", intercept)
    problem = LinearProblem("squared_hinge", 0.7, intercept)
    used = weight > 0
    boxes = c_classification(y[used], 0.7 * weight[used], squared=True, intercept=intercept)
    xi = np.maximum(0.0, 1.0 - y * (X @ [0.2, 0.1, -0.3] + 0.1 * intercept))
    mine = np.stack([y > 0, y < 0]).astype(float)
    plane, t = problem.published(np.array([0.2, 0.1, -0.3]), np.array([0.1]), None)
    sums = FloatSums(plane, squared=True, centred=False)
    sums.add(X, y, weight, plane.slack(X @ plane.w, y), weight * xi)
    bound = problem.evaluation(plane, t, sums.result()).dual
    alpha = weight * xi
    if intercept:
        alpha /= mine.T @ (mine @ alpha)
    b = (y * alpha)[used]
    expansion = b @ X[used]
    values = [
        boxes.dual(scale * b, scale**2 * float(expansion @ expansion))
        for scale in np.geomspace(1e-3, 1e3, 20_001)
    ]
    assert bound == pytest.approx(max(values), rel=1e-6)
    assert bound >= max(values) * (1 - 1e-11)
    if intercept:
        assert abs(b.sum()) < 1e-12
    assert problem.name == boxes.name
