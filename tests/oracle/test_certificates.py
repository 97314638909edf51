"""The certificate of a fit equals a recomputation by hand, and is what it says it is."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from tests.helpers.awkward import Case, classification_cases, largest_nu, regression_cases
from tests.helpers.byhand import Hinge, Nu, NuTube, SquaredHinge, Tube, rounding, row_coefficients
from widemargin import SVC, SVR, Certificate, LinearSVC, NuSVC, NuSVR

CLOSE = 1e-9
COSTS = (1e-3, 1.0, 1e2)


def _fit(model, case: Case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(case.X, case.y, sample_weight=case.sample_weight)


def _check(model, case: Case, machine) -> None:
    """Compare every number of the certificate with the one computed here."""
    small, fold = case.merged()
    by_hand, beta = machine(small), fold(row_coefficients(model, len(case.y)))
    c = model.certificate_
    if np.any(getattr(model, "rho_", 1.0)):
        close = {"rel": CLOSE, "abs": CLOSE + c.rounding}
        assert c.primal == pytest.approx(by_hand.primal(beta), **close)
    else:  # a nu machine without a margin is certified as w = 0
        assert 0.0 <= c.primal <= CLOSE
    # The certificate takes the best multiple of the dual variables.
    assert c.dual >= by_hand.dual(beta) - CLOSE * max(1.0, abs(c.primal)) - c.rounding
    assert c.dual <= c.primal
    assert c.gap == pytest.approx(c.primal - c.dual, rel=1e-12)
    assert c.relative_gap == pytest.approx(c.gap / max(1.0, abs(c.primal)), rel=1e-12)
    assert c.n_iter == np.max(model.n_iter_)
    assert c.n_iter >= 1
    assert not c.converged or c.kkt_violation <= model.tol
    if hasattr(by_hand, "kkt"):
        assert c.kkt_violation == pytest.approx(by_hand.kkt(beta), rel=1e-6, abs=1e-8)


def _combinations(cases, values):
    return [pytest.param(c, v, id=f"{c}-{v:g}") for c in cases for v in values]


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("case", "C"), _combinations(classification_cases(), COSTS))
def test_classification(case: Case, C: float, loss: str, intercept: bool) -> None:
    model = SVC(
        **case.kernel, C=C, loss=loss, fit_intercept=intercept, class_weight=case.class_weight
    )
    machine = Hinge if loss == "hinge" else SquaredHinge
    _check(_fit(model, case), case, lambda c: machine(c.K, c.y, C * c.cost, intercept))


@pytest.mark.parametrize(
    ("case", "share"),
    _combinations([c for c in classification_cases() if c.class_weight is None], (0.1, 0.6)),
)
def test_nu(case: Case, share: float) -> None:
    nu = share * largest_nu(case)
    model = _fit(NuSVC(**case.kernel, nu=nu), case)
    _check(model, case, lambda c: Nu(c.K, c.y, c.weight, nu))


@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize(("case", "C"), _combinations(regression_cases(), COSTS))
def test_epsilon_tube(case: Case, C: float, intercept: bool) -> None:
    model = _fit(SVR(**case.kernel, C=C, fit_intercept=intercept), case)
    _check(model, case, lambda c: Tube(c.K, c.y, C * c.weight, 0.1, intercept))


@pytest.mark.parametrize(("case", "C"), _combinations(regression_cases(), COSTS))
def test_nu_tube(case: Case, C: float) -> None:
    model = _fit(NuSVR(**case.kernel, C=C, nu=0.4), case)
    _check(model, case, lambda c: NuTube(c.K, c.y, C * c.weight, 0.4))


@pytest.mark.parametrize("n", [500, 5200])
def test_the_intercept_is_the_midpoint_of_the_best_ones(n: int) -> None:
    """The certified primal is that of the model as it predicts, intercept included."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 4))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0, 1.0, -1.0)
    case = Case("rows", X, y, {"kernel": "rbf", "gamma": 0.3})
    model = SVC(**case.kernel).fit(X, y)
    by_hand = Hinge(case.K, y, np.ones(n))
    at_intercept = by_hand.primal_at(row_coefficients(model, n), model.intercept_[0])
    c = model.certificate_
    assert c.primal == pytest.approx(at_intercept, rel=CLOSE, abs=c.rounding)


def test_two_points_have_a_known_solution() -> None:
    """x = -1 and +1, linear kernel: w = 1, b = 0, objective 1/2."""
    model = SVC(kernel="linear", C=10.0, tol=1e-9).fit([[-1.0], [1.0]], [0, 1])
    np.testing.assert_allclose(model.dual_coef_, [[-0.5, 0.5]])
    np.testing.assert_allclose(model.intercept_, [0.0], atol=1e-12)
    assert model.certificate_.primal == pytest.approx(0.5)
    assert model.certificate_.dual == pytest.approx(0.5)


def test_unequal_bounded_classes_take_the_midpoint_of_the_interval() -> None:
    """With tiny C all rows are bounded and b is free on an interval: its midpoint is taken."""
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    y = np.array([-1, -1, 1, 1])
    C = 1e-3
    model = SVC(kernel="linear", C=C).fit(X, y)
    w = C * 6.0  # sum of C y x
    # minimise sum max(0, 1 - y (w x + b)): flat between the two middle breakpoints y - w x
    knots = np.sort(y - w * X.ravel())
    assert model.intercept_[0] == pytest.approx(0.5 * (knots[1] + knots[2]), abs=1e-12)


def test_worst_certificate_of_a_multiclass_model() -> None:
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    assert len(model.certificates_) == 3
    assert all(isinstance(c, Certificate) for c in model.certificates_)
    worst = max(model.certificates_, key=lambda c: c.relative_gap)
    assert model.certificate_.relative_gap == worst.relative_gap
    assert len(model.n_iter_) == 3


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [True, False], ids=["intercept", "origin"])
@pytest.mark.parametrize("C", [1e-2, 1.0, 30.0])
@pytest.mark.parametrize("name", ["overlap", "separable", "scaled_feature", "weights", "balanced"])
def test_linear_machine_against_its_kernel_form(name, C, intercept, loss) -> None:
    """Both bracket one optimum: primal - dual across machines is at most the sum of gaps."""
    case = next(c for c in classification_cases() if c.name == name)
    options = {"C": C, "loss": loss, "fit_intercept": intercept, "class_weight": case.class_weight}
    linear = _fit(LinearSVC(**options), case)
    kernel = _fit(SVC(kernel="linear", **options), case)
    machine = Hinge if loss == "hinge" else SquaredHinge
    w = linear.coef_.ravel()
    b = float(np.ravel(linear.intercept_)[0]) if intercept else 0.0
    xi = np.maximum(0.0, 1.0 - case.y * (case.X @ w + b))
    primal = 0.5 * w @ w + C * case.cost @ (xi if loss == "hinge" else xi**2)
    by_hand = machine(case.X @ case.X.T, case.y, C * case.cost, intercept)
    beta = row_coefficients(kernel, len(case.y))
    v = case.X.T @ beta
    # |X'beta|^2 keeps digits that beta'K beta loses where a feature is a thousand times larger.
    dual = by_hand.dual(beta) + 0.5 * (beta @ by_hand.K @ beta - v @ v)
    rounding_error = rounding(by_hand.K, beta, C * case.cost)[1]
    slack = 1e-9 * max(1.0, abs(primal)) + rounding_error
    assert linear.certificate_.primal == pytest.approx(primal, rel=CLOSE, abs=CLOSE)
    assert linear.certificate_.gap >= -slack
    assert dual <= primal + slack
    gaps = max(linear.certificate_.gap, 0.0), max(kernel.certificate_.gap, 0.0)
    assert primal - dual <= sum(gaps) + slack
    # Strong convexity: a gap bounds the distance to the one optimal w.
    distance = np.linalg.norm(w - v)
    assert distance <= np.sqrt(2 * gaps[0]) + np.sqrt(2 * gaps[1]) + np.sqrt(2 * slack)
    assert linear.certificate_.relative_gap <= 1e-2
