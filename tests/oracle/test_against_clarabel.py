"""Small problems against an interior-point solver that shares nothing with ours."""

from __future__ import annotations

import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.awkward import Case, classification_cases, largest_nu, regression_cases
from tests.helpers.byhand import Hinge, Nu, NuTube, SquaredHinge, Tube, row_coefficients
from widemargin import SVC, SVR, NuSVC, NuSVR

RELATIVE = 1e-6
MAX_ROWS = 60
TOLERANCES = (1e-11, 1e-9, 1e-8)


def clarabel_maximum(P, t, lower, upper, equal=None, totals=None, most=None):
    """Maximise t'b - 1/2 b'Pb on a box, to about ten digits.

    Optionally with equalities ``equal @ b = totals`` and a bound ``sum |b| <= most``, where each
    variable has only one sign.
    """
    n = len(t)
    blocks, sides, cones = [], [], []
    if equal is not None:
        blocks.append(np.atleast_2d(equal))
        sides.append(np.atleast_1d(totals))
        cones.append(clarabel.ZeroConeT(len(sides[-1])))
    if most is not None:
        blocks.append(np.where(upper > 0, 1.0, -1.0)[None])
        sides.append(np.array([most]))
        cones.append(clarabel.NonnegativeConeT(1))
    eye = np.eye(n)
    for sign, bound in ((1.0, upper), (-1.0, -lower)):
        finite = np.isfinite(bound)
        blocks.append(sign * eye[finite])
        sides.append(bound[finite])
        cones.append(clarabel.NonnegativeConeT(int(finite.sum())))
    A, P = sp.csc_matrix(np.vstack(blocks)), sp.csc_matrix(np.triu(P))
    # Asked for too much it may give up far away, so it is asked for less and less. Its primal and
    # dual objectives bracket the optimum: only a tight bracket is a reference.
    brackets = [_bracket(P, -t, A, np.concatenate(sides), cones, tol) for tol in TOLERANCES]
    low, high = min(brackets, key=lambda bracket: abs(bracket[1] - bracket[0]))
    assert abs(high - low) <= RELATIVE * max(abs(low), 1e-1)
    return 0.5 * (low + high), abs(high - low)


def _bracket(P, q, A, side, cones, tol):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
    solution = clarabel.DefaultSolver(P, q, A, side, cones, settings).solve()
    return -solution.obj_val, -solution.obj_val_dual


def _small(case: Case) -> Case:
    """Return the first rows with positive weight; few enough for a dense solver."""
    rows = np.flatnonzero(case.weight > 0)[:MAX_ROWS]
    if len(set(np.sign(case.y[rows]))) < 2:  # keep both classes where one is tiny
        rows[:2] = [np.argmax(case.y), np.argmin(case.y)]
    weight = None if case.sample_weight is None else case.sample_weight[rows]
    return Case(case.name, case.X[rows], case.y[rows], case.kernel, weight, case.class_weight)


def _agree(model, case: Case, machine, reference: tuple[float, float], allowed=0.0) -> None:
    """Demand the optimum of the model's coefficients, and of its certificate."""
    optimum, width = reference
    width += allowed
    small, fold = case.merged()
    by_hand, beta = machine(small), fold(row_coefficients(model, len(case.y)))
    certificate = model.certificate_
    slack = RELATIVE * abs(optimum) + width
    assert by_hand.infeasibility(beta) < 1e-8
    assert abs(by_hand.dual(beta) - optimum) <= slack
    assert abs(certificate.dual - optimum) <= slack
    assert certificate.primal >= optimum - slack
    # A violation of v leaves a gap of at most v times the boxes: the primal has an upper end too.
    boxes = _total_cost(by_hand) + np.abs(beta).sum()
    reach = max(model.tol, certificate.kkt_violation) * boxes
    assert certificate.primal <= optimum + slack + reach


def _total_cost(by_hand) -> float:
    """Return the sum of all costs of a machine by hand."""
    return float((by_hand.weight if isinstance(by_hand, Nu) else by_hand.cost).sum())


def _fit(model, case: Case):
    with warnings.catch_warnings():
        # 1e-8 may be out of reach of rounding; the objective is judged all the same.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(case.X, case.y, sample_weight=case.sample_weight)


def _combinations(cases, values):
    return [pytest.param(_small(c), v, id=f"{c}-{v:g}") for c in cases for v in values]


CLASSES = classification_cases()
CURVES = regression_cases()


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize(("case", "C"), _combinations(CLASSES, (1e-2, 1.0, 1e2)))
def test_classification(case: Case, C: float, intercept: bool, loss: str) -> None:
    cost = C * case.cost
    cap = cost if loss == "hinge" else np.full(len(cost), np.inf)
    P = case.K if loss == "hinge" else case.K + np.diag(1.0 / (2.0 * cost))
    lower, upper = np.where(case.y > 0, 0.0, -cap), np.where(case.y > 0, cap, 0.0)
    equality = (np.ones(len(cost)), 0.0) if intercept else ()
    optimum = clarabel_maximum(P, case.y, lower, upper, *equality)
    options = {"C": C, "loss": loss, "fit_intercept": intercept, "tol": 1e-8}
    model = _fit(SVC(**case.kernel, class_weight=case.class_weight, **options), case)
    kind = Hinge if loss == "hinge" else SquaredHinge
    _agree(model, case, lambda c: kind(c.K, c.y, C * c.cost, intercept), optimum)


@pytest.mark.parametrize(
    ("case", "share"), _combinations([c for c in CLASSES if c.class_weight is None], (0.1, 0.6))
)
def test_nu(case: Case, share: float) -> None:
    nu = share * largest_nu(case)
    half = 0.5 * nu * case.weight.sum()
    optimum = clarabel_maximum(
        case.K,
        np.zeros(len(case.y)),
        np.where(case.y > 0, 0.0, -case.weight),
        np.where(case.y > 0, case.weight, 0.0),
        np.array([case.y > 0, case.y < 0], dtype=float),
        np.array([half, -half]),
    )
    model = _fit(NuSVC(**case.kernel, nu=nu, tol=1e-8), case)
    # Zero is the optimum where the reduced hulls meet: then agree to the gap that tol allows.
    allowed = model.tol * nu * case.weight.sum()
    _agree(model, case, lambda c: Nu(c.K, c.y, c.weight, nu), optimum, allowed)


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize(("case", "C"), _combinations(CURVES, (1e-2, 1.0, 1e2)))
def test_epsilon_tube(case: Case, C: float, intercept: bool) -> None:
    cost, n = C * case.weight, len(case.y)
    zero = np.zeros(n)
    equality = (np.ones(2 * n), 0.0) if intercept else ()
    optimum = clarabel_maximum(
        np.tile(case.K, (2, 2)),
        np.concatenate([case.y - 0.1, case.y + 0.1]),
        np.concatenate([zero, -cost]),
        np.concatenate([cost, zero]),
        *equality,
    )
    model = SVR(**case.kernel, C=C, epsilon=0.1, fit_intercept=intercept, tol=1e-8)
    _agree(_fit(model, case), case, lambda c: Tube(c.K, c.y, C * c.weight, 0.1, intercept), optimum)


@pytest.mark.parametrize(("case", "C"), _combinations(CURVES, (1e-2, 1.0, 1e2)))
def test_nu_tube(case: Case, C: float) -> None:
    nu, cost, n = 0.4, C * case.weight, len(case.y)
    zero = np.zeros(n)
    optimum = clarabel_maximum(
        np.tile(case.K, (2, 2)),
        np.concatenate([case.y, case.y]),
        np.concatenate([zero, -cost]),
        np.concatenate([cost, zero]),
        np.ones(2 * n),
        0.0,
        most=nu * cost.sum(),
    )
    model = _fit(NuSVR(**case.kernel, C=C, nu=nu, tol=1e-8), case)
    _agree(model, case, lambda c: NuTube(c.K, c.y, C * c.weight, nu), optimum)
