"""Kernel objects: values and derivatives against scikit-learn's, use in the estimators, tuning."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.gaussian_process.kernels as theirs
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor

from widemargin import (
    LOOSVC,
    LPSVC,
    SVC,
    SVR,
    GPRegressor,
    MeanFieldGPClassifier,
    NuSVC,
    OneClassSVM,
    OrdinalSVC,
    ReducedHullSVC,
    TubeSVR,
    loo,
    tune,
)
from widemargin.kernels import (
    RBF,
    Constant,
    DotProduct,
    Kernel,
    Matern,
    Periodic,
    RationalQuadratic,
    Rows,
    White,
)
from widemargin.kernels.objects import converted
from widemargin.kernels.objects.questions import (
    gradients,
    log_parameters,
    own_values,
    with_log_parameters,
)

KERNELS = [
    theirs.RBF(0.7),
    theirs.RBF([0.7, 2.0]),
    theirs.Matern(0.7, nu=0.5),
    theirs.Matern([0.7, 1.2], nu=1.5),
    theirs.Matern(0.7, nu=2.5),
    theirs.Matern([0.7, 1.2], nu=np.inf),
    theirs.RationalQuadratic(0.8, 0.6),
    theirs.ExpSineSquared(1.2, 2.3),
    theirs.DotProduct(0.5),
    theirs.ConstantKernel(2.0) * theirs.RBF(0.5) + theirs.WhiteKernel(0.3),
    (theirs.RBF(1.0) + theirs.WhiteKernel(0.2))
    * (theirs.ConstantKernel(2.0) + theirs.WhiteKernel(0.4)),
    theirs.DotProduct(0.5, "fixed") ** 2,
    theirs.RationalQuadratic(0.8, 0.6, alpha_bounds="fixed"),
]


def drawn(n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    X[3] = X[4] = X[2]
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.2 * rng.normal(size=n)
    y[4] = y[3]
    return X, y, rng.normal(size=(9, 2))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_values_and_derivatives_are_those_of_scikit_learn(kernel):
    X, _, Z = drawn(12)
    ours = converted(kernel)
    K, gradient = kernel(X, eval_gradient=True)
    np.testing.assert_allclose(ours(X), K, atol=1e-14)
    np.testing.assert_allclose(ours(X, Z), kernel(X, Z), atol=1e-14)
    np.testing.assert_allclose(ours(X, X), kernel(X, X), atol=1e-14)
    np.testing.assert_allclose(own_values(ours, X), kernel.diag(X), atol=1e-14)
    changes = list(gradients(ours, X))
    assert len(changes) == len(log_parameters(ours)) == gradient.shape[2]
    np.testing.assert_allclose(np.exp(np.sort(log_parameters(ours))), np.exp(np.sort(kernel.theta)))
    for place, change in enumerate(changes):
        step = 1e-6 * np.eye(len(changes))[place]
        theta = log_parameters(ours)
        high, low = (with_log_parameters(ours, theta + sign * step)(X) for sign in (1, -1))
        np.testing.assert_allclose(change, (high - low) / 2e-6, atol=1e-8)
    np.testing.assert_array_equal(ours(sp.csr_array(X)), ours(X))
    assert pickle.loads(pickle.dumps(ours)) == ours


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_rows_have_the_noise_on_their_diagonal_only(kernel):
    X, _, Z = drawn(30)
    ours = converted(kernel)
    rows = Rows(Kernel("callable", function=ours), X)
    K, everything = ours(X), np.arange(30)
    some, beta = np.array([7, 3, 4, 0]), np.arange(1.0, 31.0)
    np.testing.assert_allclose(rows.matrix(), K, rtol=1e-12)
    np.testing.assert_allclose(rows.diagonal(), np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(rows.block(some, rows, everything), K[some], rtol=1e-12)
    np.testing.assert_allclose(rows.symmetric_sum(everything, beta), K @ beta, rtol=1e-10)
    summed = rows.weighted_sum(some, rows, everything, beta)
    np.testing.assert_allclose(summed, K[some] @ beta, rtol=1e-10)
    part = rows.part(some)
    np.testing.assert_allclose(part.matrix(), K[np.ix_(some, some)], rtol=1e-12)
    new = Rows(rows.kernel, Z)
    cross = new.block(np.arange(9), rows, everything)
    np.testing.assert_allclose(cross, ours(Z, X), rtol=1e-12)


NOISY = Constant(2.0) * RBF(1.1) + White(0.3)
ESTIMATORS = [
    SVC(tol=1e-8),
    SVC(loss="squared_hinge"),
    NuSVC(tol=1e-8),
    SVR(tol=1e-8),
    TubeSVR(tol=1e-8),
    OneClassSVM(tol=1e-8),
    ReducedHullSVC(tol=1e-8),
    LPSVC(),
    LOOSVC(),
    OrdinalSVC(),
    MeanFieldGPClassifier(),
    GPRegressor(amplitude=1.0, noise=0.1),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("kernel", [Matern(1.3, nu=2.5) + 0.5, NOISY], ids=str)
def test_estimators_take_an_object_as_its_matrix(estimator, kernel):
    X, y, Z = drawn()
    if kernel is not NOISY:  # equal samples are merged, which a matrix does not allow
        X = X + 0.1 * np.arange(40.0)[:, None]
    if isinstance(estimator, OrdinalSVC):
        y = np.digitize(y, [-0.7, 0.7])
    elif not isinstance(estimator, SVR | TubeSVR | GPRegressor):
        y = (y > 0).astype(int)
    own = clone(estimator).set_params(kernel=kernel).fit(X, y)
    given = clone(estimator).set_params(kernel="precomputed").fit(kernel(X), y)
    ask = "decision_function" if hasattr(own, "decision_function") else "predict"
    values = getattr(own, ask)(Z)
    np.testing.assert_allclose(values, getattr(given, ask)(kernel(Z, X)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(loo.error(own), loo.error(given), atol=1e-4)
    pairs = (own.certificate_, given.certificate_), (given.certificate_, own.certificate_)
    for one, other in pairs if own.certificate_ is not None else ():
        assert one.dual <= other.primal + 1e-9 * abs(other.primal)


def test_a_regressor_with_an_object_is_scikit_learns():
    X, y, Z = drawn()
    kernel = theirs.ConstantKernel(2.0) * theirs.Matern(1.1) + theirs.WhiteKernel(0.3)
    model = GPRegressor(kernel=kernel, amplitude=1.0, noise=1e-10, mean_variance=0.0).fit(X, y)
    peer = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    for option in ("return_std", "return_cov"):
        ours, expected = (m.predict(Z, **{option: True}) for m in (model, peer))
        for mine, other in zip(ours, expected, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-8)
    assert model.log_evidence_ == pytest.approx(peer.log_marginal_likelihood_value_, rel=1e-9)
    tuned = tune(model, X, y, criterion="evidence", prior=0.0)
    best = GaussianProcessRegressor(kernel).fit(X, y)
    assert tuned.log_evidence_ >= best.log_marginal_likelihood_value_ - 0.1


@pytest.mark.parametrize(
    ("model", "criterion"),
    [
        (SVC(kernel=2.0 * Matern([1.0, 2.0], nu=2.5)), "loo"),
        (MeanFieldGPClassifier(kernel=RBF() * Constant(2.0) + 0.5), "loo"),
        (MeanFieldGPClassifier(kernel=NOISY, inference="tap"), "evidence"),
        (GPRegressor(kernel=RationalQuadratic() + White(0.1)), "loo"),
        (GPRegressor(kernel=RBF() * Periodic(periodicity=3.0)), "evidence"),
    ],
    ids=str,
)
def test_tuning_follows_the_gradient(model, criterion):
    X, y, _ = drawn()
    y = y if isinstance(model, GPRegressor) else (y > 0).astype(int)
    tuned = tune(model, X, y, criterion=criterion, prior=0.0)
    trace = tuned.tuning_.trace
    best = min(trace, key=lambda entry: entry["loss"])
    assert best["loss"] < trace[0]["loss"]
    assert type(tuned.kernel) is type(model.kernel)
    moved = log_parameters(tuned.kernel) != log_parameters(model.kernel)
    kept = "as given" in tuned.tuning_.message  # fewer leave-one-out errors, though a larger loss
    assert not moved.any() if kept else moved.all()


@pytest.mark.parametrize("kernel", [RBF([1.0, 2.0]) * 1.5 + White(0.2), NOISY + DotProduct(0.3)])
def test_the_gradient_of_the_objective(kernel):
    from widemargin.tuning.regression import RegressionTask

    X, y, _ = drawn(20)
    model = GPRegressor(kernel=kernel, amplitude=1.0, noise=0.1)
    for criterion in ("loo", "evidence"):
        task = RegressionTask(model, frozenset({"kernel"}), X, y, None, 1.0, criterion)
        landscape = task.landscape(np.arange(20), lambda point: None)
        x = np.linspace(-0.3, 0.4, len(log_parameters(kernel)))
        _, gradient = landscape(x)
        for place in range(len(x)):
            step = 1e-5 * np.eye(len(x))[place]
            difference = (landscape(x + step)[0] - landscape(x - step)[0]) / 2e-5
            assert gradient[place] == pytest.approx(difference, abs=1e-7)


def test_fixed_hyperparameters_are_not_tuned():
    X, y, _ = drawn()
    kernel = Constant(3.0, fixed=("value",)) * RBF(1.0)
    tuned = tune(GPRegressor(kernel=kernel, amplitude=1.0), X, y)
    assert tuned.kernel.left.value == 3.0
    assert tuned.kernel.right.length_scale != 1.0
    with pytest.raises(ValueError, match="params must be"):
        tune(GPRegressor(kernel=RBF(1.0, fixed=("length_scale",))), X, y, ("kernel", "noise"))


def test_repr_is_an_expression():
    kernel = (Constant(2.0) + White(0.1)) * RBF([1.0, 2.0])
    expected = "(Constant(value=2.0) + White(noise=0.1)) * RBF(length_scale=(1.0, 2.0))"
    assert repr(kernel) == expected
    names = {kind.__name__: kind for kind in (Constant, White, RBF)}
    assert eval(expected, names) == kernel


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RBF(0.0), "length_scale must be"),
        (lambda: RBF([1.0, -1.0]), "length_scale must be"),
        (lambda: Matern(nu=2.0), "nu must be"),
        (lambda: Constant(np.inf), "value must be"),
        (lambda: RBF() + np.nan, "kernel must be"),
        (lambda: RBF() * -1.0, "value must be"),
        (lambda: RBF(fixed=("gamma",)), "fixed must be"),
        (lambda: RBF([1.0, 2.0])(np.ones((3, 4))), "length_scale must be"),
        (lambda: converted(theirs.PairwiseKernel()), "kernel must be"),
        (lambda: converted(theirs.Matern(nu=0.7)), "nu must be"),
        (lambda: converted(theirs.RBF() ** 0.5), "exponent must be"),
    ],
)
def test_invalid_kernels_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
