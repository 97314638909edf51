"""LinearSVC against LIBLINEAR: the same problems, one per class, and objectives by hand."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.exceptions import ConvergenceWarning

from widemargin import SVC, LinearSVC

OURS = {"solver", "calibration", "time_limit", "checkpoint"}


def _problem(seed: int):
    """Draw samples of two to five classes, weights and class weights, and the parameters."""
    rng = np.random.default_rng(seed)
    n, d, n_classes = int(rng.integers(20, 120)), int(rng.integers(1, 8)), int(rng.integers(2, 6))
    centres = rng.normal(size=(n_classes, d))
    codes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)])
    X = centres[codes] + rng.normal(size=(n, d)) + rng.choice([0.0, 3.0])
    X[rng.random(X.shape) < 0.3] = 0.0
    y = np.array(["a", "b", "c", "d", "e"])[codes]
    weight = rng.choice([0.5, 1.0, 2.0, 3.0], n) if seed % 2 else None
    class_weight = [None, "balanced", {"a": 3.0, "b": 0.5}][seed % 3]
    parameters = {
        "loss": str(rng.choice(["hinge", "squared_hinge"])),
        "C": float(10.0 ** rng.uniform(-2, 1)),
        "intercept_scaling": float(rng.choice([0.5, 1.0, 10.0])),
        "fit_intercept": bool(rng.random() < 0.8),
        "class_weight": class_weight,
    }
    return (sp.csr_array(X) if seed % 5 == 0 else X), y, weight, parameters


def _factors(classes, y, weight, class_weight):
    """Return the factor of each class by scikit-learn's definitions."""
    if class_weight is None:
        return dict.fromkeys(classes, 1.0)
    if class_weight == "balanced":
        mass = {c: weight[y == c].sum() for c in classes}
        return {c: weight.sum() / (len(classes) * mass[c]) for c in classes}
    return {c: class_weight.get(c, 1.0) for c in classes}


def _objective(model, X, y, weight, parameters, *, penalised: bool) -> list[float]:
    """Return the primal objective of each hyperplane of a one-vs-rest model."""
    X = X.toarray() if sp.issparse(X) else X
    weight = np.ones(len(y)) if weight is None else weight
    classes = np.unique(y)
    factors = _factors(classes, y, weight, parameters["class_weight"])
    found = []
    for k, c in enumerate(classes if len(classes) > 2 else classes[1:]):
        sign = np.where(y == c, 1.0, -1.0)
        others = factors[classes[0]] if len(classes) == 2 else 1.0
        cost = parameters["C"] * weight * np.where(y == c, factors[c], others)
        w, b = model.coef_[k], float(np.broadcast_to(model.intercept_, len(model.coef_))[k])
        slack = np.maximum(0.0, 1.0 - sign * (X @ w + b))
        loss = slack if parameters["loss"] == "hinge" else slack**2
        size = w @ w
        if penalised and parameters["fit_intercept"]:
            size += (b / parameters["intercept_scaling"]) ** 2
        found.append(0.5 * size + cost @ loss)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_penalised_intercept_and_one_vs_rest_are_those_of_liblinear(seed: int) -> None:
    X, y, weight, parameters = _problem(seed)
    model = LinearSVC(**parameters, tol=1e-9, max_iter=100_000).fit(X, y, weight)
    theirs = sklearn.svm.LinearSVC(
        **parameters, tol=1e-9, max_iter=200_000, dual=parameters["loss"] == "hinge", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs.fit(X, y, weight)
    assert model.coef_.shape == theirs.coef_.shape
    own = _objective(model, X, y, weight, parameters, penalised=True)
    other = _objective(theirs, X, y, weight, parameters, penalised=True)
    for certificate, ours, liblinear in zip(model.certificates_, own, other, strict=True):
        assert certificate.converged
        scale = max(1.0, ours)
        # The certificate is that of this problem: it brackets both objectives.
        assert certificate.primal == pytest.approx(ours, rel=1e-9)
        assert certificate.dual <= min(ours, liblinear) + 1e-9 * scale
        assert ours <= liblinear + 1e-8 * scale
        if parameters["loss"] == "squared_hinge":  # the other solver stops early on some
            assert liblinear <= ours + 1e-5 * scale


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_predictions_are_those_of_liblinear(loss: str, n_classes: int) -> None:
    rng = np.random.default_rng(n_classes)
    codes = rng.integers(0, n_classes, 300)
    X = 2.0 * rng.normal(size=(n_classes, 5))[codes] + rng.normal(size=(300, 5))
    model = LinearSVC(loss=loss, intercept_scaling=1, tol=1e-10).fit(X, codes)
    theirs = sklearn.svm.LinearSVC(loss=loss, tol=1e-9, max_iter=200_000, random_state=0)
    theirs.fit(X, codes)
    values, expected = model.decision_function(X), theirs.decision_function(X)
    np.testing.assert_allclose(values, expected, atol=1e-4 * np.abs(expected).max())
    clear = np.abs(expected).min(axis=-1) > 1e-3 if n_classes == 2 else slice(None)
    np.testing.assert_array_equal(model.predict(X)[clear], theirs.predict(X)[clear])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_free_intercept_and_pairs_are_the_optimum_of_svc(loss: str, n_classes: int) -> None:
    rng = np.random.default_rng(7 + n_classes)
    codes = rng.integers(0, n_classes, 120)
    X = rng.normal(size=(n_classes, 3))[codes] + rng.normal(size=(120, 3))
    model = LinearSVC(loss=loss, multi_class="ovo", C=0.7, tol=1e-9).fit(X, codes)
    kernel = SVC(kernel="linear", loss=loss, C=0.7, tol=1e-9).fit(X, codes)
    for ours, other in zip(model.certificates_, kernel.certificates_, strict=True):
        assert ours.problem == other.problem
        assert ours.primal == pytest.approx(other.primal, rel=1e-7)
        assert ours.dual <= other.primal * (1 + 1e-12)
        assert other.dual <= ours.primal * (1 + 1e-12)


def test_a_large_scaling_is_nearly_a_free_intercept() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3)) + 5.0
    y = X[:, 0] + 0.5 * rng.normal(size=200) > 5.2
    free = LinearSVC(tol=1e-10).fit(X, y).certificate_
    for scaling, distance in ((1.0, np.inf), (1e2, 1e-2), (1e4, 1e-6)):
        found = LinearSVC(tol=1e-10, intercept_scaling=scaling).fit(X, y).certificate_
        assert found.problem == "C-squared-hinge, penalised intercept"
        assert free.dual <= found.primal * (1 + 1e-12)
        assert found.primal - free.primal <= distance * free.primal


def test_the_signature_is_that_of_scikit_learn() -> None:
    ours, theirs = (
        inspect.signature(kind).parameters for kind in (LinearSVC, sklearn.svm.LinearSVC)
    )
    assert list(ours)[: len(theirs)] == list(theirs)
    assert set(ours) - set(theirs) == OURS
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind
        if name != "intercept_scaling":
            assert ours[name].default == parameter.default
    assert ours["intercept_scaling"].default is None


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_many_sparse_features_with_a_penalised_intercept(loss: str) -> None:
    """So many that conjugate gradients solve the Newton systems, about the constant feature."""
    rng = np.random.default_rng(0)
    X = sp.random_array((2_500, 3_000), density=0.01, format="csr", rng=rng)
    X.data += 1.0
    y = X @ rng.normal(size=3_000) + rng.normal(size=2_500) > 8.0
    for scaling in (0.3, 1.0, 10.0):
        parameters = {"loss": loss, "C": 0.1, "intercept_scaling": scaling}
        model = LinearSVC(**parameters, tol=1e-6).fit(X, y)
        theirs = sklearn.svm.LinearSVC(
            **parameters, tol=1e-4, max_iter=1000, dual=loss == "hinge", random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs.fit(X, y)
        parameters |= {"fit_intercept": True, "class_weight": None}
        own = _objective(model, X, y, None, parameters, penalised=True)[0]
        other = _objective(theirs, X, y, None, parameters, penalised=True)[0]
        assert model.certificate_.primal == pytest.approx(own, rel=1e-9)
        assert model.certificate_.converged
        assert model.certificate_.dual <= other * (1 + 1e-12)
        assert own <= other * (1 + 2e-6)
