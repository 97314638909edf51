"""One-vs-one: labels of any kind, scores that agree with predictions, LIBSVM's layout."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.svm
from sklearn.datasets import load_digits, load_iris

from tests.helpers.byhand import gram
from widemargin import SVC, LinearSVC, NuSVC

CLASSIFIERS = {
    "SVC": SVC,
    "squared": lambda **k: SVC(loss="squared_hinge", **k),
    "origin": lambda **k: SVC(fit_intercept=False, **k),
    "NuSVC": NuSVC,
}


def _four_classes(n: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n)
    centres = np.array([[0, 0], [2, 0], [0, 2], [2.5, 2.5]])
    return centres[y] + rng.normal(size=(n, 2)), y


@pytest.mark.parametrize("name", [*CLASSIFIERS, "LinearSVC"])
@pytest.mark.parametrize("data", ["iris", "four_classes", "two_classes"])
def test_predictions_are_the_largest_scores(name: str, data: str) -> None:
    X, y = load_iris(return_X_y=True) if data == "iris" else _four_classes()
    if data == "two_classes":
        X, y = X[y < 2], y[y < 2]
    model = (CLASSIFIERS | {"LinearSVC": LinearSVC})[name]().fit(X, y)
    rng = np.random.default_rng(1)
    fresh = rng.uniform(X.min() - 2, X.max() + 2, size=(500, X.shape[1]))
    scores = model.decision_function(fresh)
    if data == "two_classes":
        assert scores.shape == (500,)
        chosen = (scores > 0).astype(int)
    else:
        assert scores.shape == (500, len(model.classes_))
        chosen = scores.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(fresh), model.classes_[chosen])


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("labels", ["strings", "objects", "negative", "floats", "booleans"])
def test_labels_of_any_kind(name: str, labels: str) -> None:
    X, y = _four_classes()
    if labels == "booleans":
        X, y = X[y < 2], y[y < 2]
    kinds = {
        "strings": np.array(["pear", "apple", "fig", "quince"]),
        "objects": np.array(["pear", "apple", "fig", "quince"], dtype=object),
        "negative": np.array([-7, 3, 0, -1]),
        "floats": np.array([2.0, 1.0, 4.0, 3.0]),
        "booleans": np.array([True, False]),
    }
    named = kinds[labels][y]
    model = CLASSIFIERS[name]().fit(X, named)
    np.testing.assert_array_equal(model.classes_, np.unique(named))
    assert model.predict(X).dtype == model.classes_.dtype
    assert set(model.predict(X)) <= set(named)
    assert model.score(X, named) > 0.6


def test_renaming_the_labels_in_order_changes_no_score() -> None:
    X, y = _four_classes()
    plain = SVC().fit(X, y).decision_function(X)
    renamed = SVC().fit(X, np.array(["a", "b", "c", "d"])[y]).decision_function(X)
    np.testing.assert_array_equal(plain, renamed)


@pytest.mark.parametrize("data", ["iris", "digits"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_predictions_agree_with_scikit_learn(data: str, kernel: str) -> None:
    """Ties of votes are broken otherwise there, so nearly all rows, not all."""
    X, y = (load_iris if data == "iris" else load_digits)(return_X_y=True)
    half = len(y) // 2
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:half], order[half:]
    ours = SVC(kernel=kernel).fit(X[train], y[train]).predict(X[test])
    theirs = sklearn.svm.SVC(kernel=kernel).fit(X[train], y[train]).predict(X[test])
    assert np.mean(ours == theirs) >= 0.99


def _by_class_and_row(model, y) -> np.ndarray:
    """Return the order of the support vectors by class, then by row; they must stand by class.

    LIBSVM lists a class's rows in the order of the data; ours may stand in another one.
    """
    of_class = y[model.support_]
    assert (np.diff(of_class) >= 0).all()
    return np.lexsort((model.support_, of_class))


def _libsvm_layout_is_equal(ours, theirs, X, y, atol: float) -> None:
    mine, other = _by_class_and_row(ours, y), _by_class_and_row(theirs, y)
    np.testing.assert_array_equal(ours.support_[mine], theirs.support_[other])
    np.testing.assert_array_equal(ours.n_support_, theirs.n_support_)
    np.testing.assert_array_equal(ours.support_vectors_, X[ours.support_])
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    np.testing.assert_allclose(ours.dual_coef_[:, mine], theirs.dual_coef_[:, other], atol=atol)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=atol)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_dual_coefficients_have_libsvms_layout(n_classes: int) -> None:
    X, y = _four_classes()
    X, y = X[y < n_classes], y[y < n_classes]
    options = {"C": 2.0, "gamma": 0.7, "tol": 1e-7}
    ours, theirs = SVC(**options).fit(X, y), sklearn.svm.SVC(**options).fit(X, y)
    _libsvm_layout_is_equal(ours, theirs, X, y, 2e-5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_nu_coefficients_are_scaled_as_in_libsvm(n_classes: int) -> None:
    X, y = _four_classes()
    X, y = X[y < n_classes], y[y < n_classes]
    options = {"nu": 0.4, "gamma": 0.7, "tol": 1e-8}
    ours, theirs = NuSVC(**options).fit(X, y), sklearn.svm.NuSVC(**options).fit(X, y)
    _libsvm_layout_is_equal(ours, theirs, X, y, 1e-4)


def test_each_pair_is_the_binary_machine_of_its_rows() -> None:
    X, y = _four_classes()
    model = SVC(gamma=0.5).fit(X, y)
    pairs = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    assert len(model.certificates_) == len(model.intercept_) == len(pairs)
    for k, (i, j) in enumerate(pairs):
        rows = (y == i) | (y == j)
        alone = SVC(gamma=0.5).fit(X[rows], y[rows])
        assert alone.certificate_.dual == pytest.approx(model.certificates_[k].dual, rel=1e-6)
        beta = _pair_coefficients(model, i, j)
        of_pair = gram(X, model.support_vectors_, gamma=0.5) @ beta + model.intercept_[k]
        # LIBSVM's pair is positive for its first class, the binary machine for the second.
        np.testing.assert_allclose(-of_pair, alone.decision_function(X), atol=5e-3)


def _pair_coefficients(model, i: int, j: int) -> np.ndarray:
    """Read pair (i, j) out of LIBSVM's (n_classes - 1, n_SV) layout."""
    ends = np.cumsum(np.concatenate([[0], model.n_support_]))
    beta = np.zeros(ends[-1])
    beta[ends[i] : ends[i + 1]] = model.dual_coef_[j - 1, ends[i] : ends[i + 1]]
    beta[ends[j] : ends[j + 1]] = model.dual_coef_[i, ends[j] : ends[j + 1]]
    return beta


def test_linear_machine_has_a_row_for_each_pair_or_class() -> None:
    X, y = _four_classes()
    model = LinearSVC(multi_class="ovo").fit(X, y)
    assert model.coef_.shape == (6, 2)
    assert model.intercept_.shape == (6,)
    rest = LinearSVC().fit(X, y)
    assert rest.coef_.shape == (4, 2)
    assert rest.intercept_.shape == (4,)
    binary = LinearSVC().fit(X[y < 2], y[y < 2])
    assert binary.coef_.shape == (1, 2)
    np.testing.assert_allclose(
        binary.decision_function(X), X @ binary.coef_[0] + binary.intercept_[0], rtol=1e-10
    )


def test_class_weights_of_several_classes() -> None:
    """A heavy class is predicted more often; "balanced" equals the weights it stands for."""
    X, y = _four_classes()
    plain = SVC(C=0.1).fit(X, y).predict(X)
    heavy = SVC(C=0.1, class_weight={2: 20.0}).fit(X, y).predict(X)
    assert (heavy == 2).sum() > (plain == 2).sum()
    counts = np.bincount(y)
    balanced = SVC(class_weight="balanced").fit(X, y)
    written = SVC(class_weight=dict(enumerate(len(y) / (4 * counts)))).fit(X, y)
    np.testing.assert_allclose(
        balanced.decision_function(X), written.decision_function(X), atol=1e-6
    )
