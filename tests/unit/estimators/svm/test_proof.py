"""Certificates computed when they are first read."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons, make_regression
from sklearn.exceptions import NotFittedError

from widemargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from widemargin.estimators.svm import proof


@pytest.fixture
def computed(monkeypatch):
    """Return a list that grows with each certificate that is computed."""
    calls = []
    plain = proof.Solution.certificate

    def noted(self):
        calls.append(self)
        return plain(self)

    monkeypatch.setattr(proof.Solution, "certificate", noted)
    return calls


MODELS = [SVC(), SVC(loss="squared_hinge"), SVC(kernel="linear"), NuSVC(nu=0.3), SVR(), NuSVR()]


@pytest.mark.parametrize("model", [*MODELS, OneClassSVM(nu=0.3)], ids=repr)
def test_a_clear_fit_computes_its_certificate_when_it_is_read(model, computed):
    X, y = make_moons(100, noise=0.3, random_state=0)
    model.fit(X, y)
    assert computed == []
    first = model.certificate_
    assert len(computed) == 1
    assert first.converged
    assert first.dual <= first.primal
    assert model.certificate_ is first
    assert model.certificates_ == [first]
    assert len(computed) == 1


@pytest.mark.parametrize("model", MODELS[:4], ids=repr)
def test_it_is_that_of_a_fit_that_certifies_at_once(model, monkeypatch):
    X, y = load_iris(return_X_y=True)
    later = copy.deepcopy(model).fit(X, y)
    monkeypatch.setattr(proof, "CLEAR_GAP", -1.0)
    at_once = model.fit(X, y)
    for one, other in zip(later.certificates_, at_once.certificates_, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=1e-9, abs=1e-9)
        assert one.dual == pytest.approx(other.dual, rel=1e-9, abs=1e-9)
        assert (one.n_iter, one.converged) == (other.n_iter, other.converged)


def test_fits_in_doubt_certify_at_once(computed):
    rng = np.random.default_rng(0)
    X, y = 30 * rng.normal(size=(50, 2)), rng.choice([-1, 1], size=50)
    with pytest.warns(UserWarning, match="did not converge"):
        SVC(C=100, kernel="poly", degree=5, gamma=1.0, max_iter=1000).fit(X, y)
    assert computed == []  # the eager way does not use the deferred one
    with pytest.warns(UserWarning, match="did not converge"):
        model = SVC(max_iter=3).fit(X, y)
    assert not vars(model)["_proofs_"][0].converged


def test_later_parameters_do_not_change_it():
    X, y = make_moons(100, noise=0.3, random_state=0)
    expected = SVC().fit(X, y).certificate_
    model = SVC().fit(X, y)
    model.set_params(C=100.0, tol=1e-9, kernel="linear")
    assert model.certificate_ == expected


def test_copies_pickles_and_compact_models_hold_the_certificate():
    X, y = load_iris(return_X_y=True)
    model = SVC().fit(X, y)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.compact()):
        assert "_proofs_" not in vars(other)
        assert other.certificates_ == model.certificates_
        assert other.certificate_ == model.certificate_
    loaded = pickle.loads(pickle.dumps(model)).fit(X[:100], y[:100])
    assert loaded.certificates_ == SVC().fit(X[:100], y[:100]).certificates_


def test_threads_compute_it_once(computed):
    X, y = make_regression(200, 5, random_state=0)
    model = SVR().fit(X, y / y.std())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: model.certificate_, range(32)))
    assert len(computed) == 1
    assert len(set(map(id, found))) == 1


def test_before_a_fit_there_is_none():
    assert not hasattr(SVC(), "certificate_")
    with pytest.raises(NotFittedError):
        _ = SVC().certificates_
