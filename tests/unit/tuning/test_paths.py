"""Regularisation paths: each value is a fit of its own, only found from its neighbour."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning

from widemargin import LOOSVC, LPSVC, SVC, AdaptiveMarginSVC, NuLPSVC, loo, regularisation_path
from widemargin.fitted.program import ProgramMachine

X, Y = make_moons(80, noise=0.4, random_state=1)
CASES = [
    (AdaptiveMarginSVC(gamma=1.0), "lam", [2.0, 0.5, 1.0, 4.0]),
    (LPSVC(gamma=1.0), "lam", [2.0, 0.1, 10.0]),
    (AdaptiveMarginSVC(gamma=1.0, loss="squared_hinge"), "lam", [2.0, 0.5, 4.0]),
    (NuLPSVC(gamma=1.0), "nu", [0.5, 0.3, 0.7]),
]
cases = pytest.mark.parametrize(("machine", "name", "values"), CASES)


@cases
def test_every_value_is_a_fit(machine, name, values):
    path = regularisation_path(machine, X, Y, values)
    assert path.parameter == name
    np.testing.assert_array_equal(path.values, values)
    sign = np.where(Y == 1, 1, -1)
    for k, value in enumerate(values):
        model = clone(machine).set_params(**{name: value}).fit(X, Y)
        certificate = model.certificate_
        assert path.objective[k] == pytest.approx(certificate.primal, rel=2e-6)
        assert path.dual[k] <= path.objective[k] + 1e-12
        assert path.dual[k] == pytest.approx(path.objective[k], rel=2e-6)
        assert path.converged[k]
        assert path.n_support[k] == len(model.support_)
        assert path.training_error[k] == pytest.approx(1 - model.score(X, Y))
        assert path.slack[k] == pytest.approx(model.slack_.sum(), rel=1e-5)
        assert path.loo_bound[k] == pytest.approx(loo.error(model, "support_vectors"))
        # k(x, x) = 1: (2.2) leaves out alpha_i itself.
        rest = sign * model.decision_function(X) - model.alpha_
        assert path.expression[k] == pytest.approx(np.mean(rest <= 1e-9))
    assert path.loo_error is None
    assert path.loo_kind is None


@cases
def test_leave_one_out_on_request(machine, name, values):
    path = regularisation_path(machine, X[:50], Y[:50], values[:2], leave_one_out=True)
    for k, value in enumerate(values[:2]):
        model = clone(machine).set_params(**{name: value}).fit(X[:50], Y[:50])
        assert path.loo_error[k] == pytest.approx(loo.error(model))
    kind = "exact at fixed lam" if name == "nu" else "exact"
    assert path.loo_kind == (kind, kind)
    assert (path.loo_bound >= path.loo_error).all()
    assert len(str(path).splitlines()) == 3


def test_monotone_and_flat_beyond_lam_max():
    model = AdaptiveMarginSVC(gamma=1.0).fit(X, Y)
    lam = np.array([0.1, 0.3, 1.0, 3.0, 1.01 * model.lam_max_, 2 * model.lam_max_])
    path = regularisation_path(AdaptiveMarginSVC(gamma=1.0), X, Y, lam)
    assert (np.diff(path.objective) >= -1e-6 * path.objective[1:]).all()
    assert (path.n_support[:4] > 0).all()
    assert not path.n_support[4:].any()
    np.testing.assert_array_equal(path.objective[4:], len(Y))
    np.testing.assert_array_equal(path.loo_bound[4:], 1.0)


def test_several_classes_and_weights():
    X, y = load_iris(return_X_y=True)
    count = np.random.default_rng(0).integers(1, 3, 50)
    machine = LPSVC(gamma=0.5)
    weighted = regularisation_path(machine, X[::3], y[::3], [0.5, 2.0], sample_weight=count)
    copied = regularisation_path(
        machine, np.repeat(X[::3], count, axis=0), np.repeat(y[::3], count), [0.5, 2.0]
    )
    for name in ("objective", "slack", "n_support", "training_error", "loo_bound", "expression"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(copied, name), rtol=1e-7)
    for k, lam in enumerate((0.5, 2.0)):
        model = LPSVC(lam=lam, gamma=0.5).fit(X[::3], y[::3], sample_weight=count)
        total = sum(certificate.primal for certificate in model.certificates_)
        assert weighted.objective[k] == pytest.approx(total, rel=2e-6)
        wrong = model.predict(X[::3]) != y[::3]
        assert weighted.training_error[k] == pytest.approx(count @ wrong / count.sum())


def test_starts_are_handed_on(monkeypatch):
    started = []
    moved = ProgramMachine.moved

    def watch(self, problem, rows):
        started.append(self.result)
        found = moved(self, problem, rows)
        started.append(found.result)
        return found

    monkeypatch.setattr(ProgramMachine, "moved", watch)
    regularisation_path(AdaptiveMarginSVC(gamma=1.0), X, Y, [2.0, 0.5, 1.0])
    assert len(started) == 4  # two moves, from the smallest lam upwards
    assert started[2] is started[1]


def test_the_estimator_stays_as_it_is():
    machine = AdaptiveMarginSVC(lam=7.0, gamma=1.0)
    regularisation_path(machine, X, Y, [1.0])
    assert machine.lam == 7.0
    assert not hasattr(machine, "classes_")


def test_unfinished_fits_are_named():
    with pytest.warns(ConvergenceWarning) as caught:  # the first value is an ordinary fit
        path = regularisation_path(AdaptiveMarginSVC(gamma=1.0, tol=1e-15), X, Y, [1.0, 3.0])
    assert "tol=1e-15 at lam=" in str(caught[-1].message)
    assert not path.converged.all()
    assert (path.dual <= path.objective).all()


@pytest.mark.parametrize("estimator", [LOOSVC(), SVC(), None])
def test_other_machines_are_refused(estimator):
    with pytest.raises(ValueError, match="estimator must be AdaptiveMarginSVC"):
        regularisation_path(estimator, X, Y, [1.0])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "values must be a list of values of lam"),
        (1.0, "values must be a list of values of lam"),
        ([1.0, -2.0], "lam must be"),
        ([np.nan], "lam must be"),
    ],
)
def test_bad_values(values, message):
    with pytest.raises(ValueError, match=message):
        regularisation_path(LPSVC(), X, Y, values)


def test_bad_switch():
    with pytest.raises(ValueError, match="leave_one_out must be True or False"):
        regularisation_path(LPSVC(), X, Y, [1.0], leave_one_out="yes")
