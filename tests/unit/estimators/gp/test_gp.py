"""MeanFieldGPClassifier: attributes, probabilities, weights, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from tests.helpers.byhand import gram
from widemargin import MeanFieldGPClassifier
from widemargin.problems.mean_field import naive
from widemargin.problems.mean_field.bounds import Covariance
from widemargin.solvers.mean_field.left_out import SCALE_PRECISION

GP = MeanFieldGPClassifier
INFERENCES = ("naive", "tap", "ep")


def _moons(n=60, seed=0, noise=0.3):
    X, y = make_moons(n, noise=noise, random_state=seed)
    return X, np.array(["no", "yes"])[y]


# -- what is fitted ----------------------------------------------------------------------------


@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
@pytest.mark.parametrize("inference", INFERENCES)
def test_attributes_describe_the_model(inference, flip_noise) -> None:
    X, y = _moons()
    options = {"gamma": 1.0, "input_noise": 0.3, "mean_variance": 0.0}
    model = GP(inference=inference, flip_noise=flip_noise, **options).fit(X, y)
    sign = np.where(y == "yes", 1.0, -1.0)
    assert (model.alpha_ >= 0).all()
    mean, variance = model.predict_latent(X)
    np.testing.assert_allclose(mean, gram(X, X, gamma=1.0) @ (sign * model.alpha_), atol=1e-10)
    # the variance of Opper and Winther: k - k'(K + v + Omega)^-1 k, Omega possibly negative
    K = gram(X, X, gamma=1.0)
    whole = K + np.diag(0.3 + model.omega_)
    np.testing.assert_allclose(variance, 1 - np.diagonal(K @ np.linalg.solve(whole, K)), atol=1e-8)
    assert model.residual_ <= 1e-10
    assert isinstance(model.log_evidence_, float)
    assert model.n_iter_ >= 1
    if inference == "naive" and flip_noise == 0:
        assert model.certificate_.converged
        assert abs(model.certificate_.relative_gap) <= 1e-10
        assert model.certificate_.primal == pytest.approx(model.log_evidence_, abs=1e-9)
    else:
        assert model.certificate_ is None
        assert model.certificates_ == []


def test_the_certificate_follows_from_alpha_and_the_data() -> None:
    """Recomputed here from what a user can see; a spoilt alpha_ gives a bad one."""
    X, y = _moons()
    weight = np.tile([1.0, 2.0, 0.5], 20)
    model = GP(gamma=1.0, input_noise=0.3, mean_variance=0.0).fit(X, y, sample_weight=weight)
    sign, K = np.where(y == "yes", 1.0, -1.0), gram(X, X, gamma=1.0)
    problem = naive(sign, weight, np.ones(len(y)), 0.3)

    def certified(alpha):
        A = sign * alpha
        return problem.certificate("by hand", A, Covariance(K), tol=1e-10, n_iter=1)

    ours, theirs = model.certificate_, certified(model.alpha_)
    assert ours.primal == pytest.approx(theirs.primal, rel=1e-11)
    assert ours.dual == pytest.approx(theirs.dual, rel=1e-11)
    assert ours.kkt_violation == pytest.approx(theirs.kkt_violation, abs=1e-13)
    assert ours.kkt_violation == model.residual_
    spoilt = certified(np.where(np.arange(len(y)) == 7, 1.01, 1.0) * model.alpha_)
    assert spoilt.kkt_violation > 1e-4
    assert spoilt.gap > 1e-7 > abs(theirs.gap)
    assert spoilt.dual < theirs.dual < spoilt.primal


def test_tap_and_expectation_propagation_are_the_same_model() -> None:
    X, y = _moons()
    new = _moons(seed=1)[0]
    for flip_noise in (0.0, 0.1):
        options = {"gamma": 1.0, "input_noise": 0.3, "flip_noise": flip_noise, "tol": 1e-11}
        tap = GP(inference="tap", **options).fit(X, y)
        ep = GP(inference="ep", solver="sweeps", **options).fit(X, y)
        for ours, theirs in zip(tap.predict_latent(new), ep.predict_latent(new), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-8)
        assert ep.log_evidence_ == pytest.approx(tap.log_evidence_, abs=1e-8)
        np.testing.assert_allclose(ep.loo_proba_, tap.loo_proba_, rtol=0, atol=1e-7)


@pytest.mark.parametrize("inference", INFERENCES)
def test_flip_noise_converges_or_says_so(inference) -> None:
    X, y = _moons(80)
    y[::10] = "no"
    for flip_noise in (0.1, 0.25, 0.4):
        for input_noise in (0.01, 1.0):
            model = GP(
                inference=inference, gamma=1.0, flip_noise=flip_noise, input_noise=input_noise
            )
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                model.fit(X, y)
            assert (model.residual_ > 1e-10) == (len(said) == 1)
            assert all(issubclass(w.category, ConvergenceWarning) for w in said)
            P = model.predict_proba(X)
            assert np.isfinite(P).all()
            assert P.min() >= flip_noise - 1e-12


@pytest.mark.parametrize("calibrate", [False, True])
@pytest.mark.parametrize("flip_noise", [0.0, 0.1])
def test_probabilities_follow_from_the_latent_function(flip_noise, calibrate) -> None:
    X, y = _moons()
    new = _moons(seed=1)[0]
    options = {"gamma": 1.0, "input_noise": 0.3, "mean_variance": 0.0}
    model = GP(flip_noise=flip_noise, calibrate=calibrate, **options).fit(X, y)
    mean, variance = model.predict_latent(new)
    [reading] = model.readings_
    assert (reading.scale == 1.0) != calibrate
    assert calibrate or reading.variance == "posterior"
    spread = variance if reading.variance == "posterior" else 1.0
    z = reading.scale * mean / np.sqrt(spread + 0.3)
    np.testing.assert_allclose(model.decision_function(new), z, rtol=1e-12)
    expected = flip_noise + (1 - 2 * flip_noise) * norm.cdf(z)
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], expected, rtol=1e-10)
    np.testing.assert_array_equal(model.predict(new), model.classes_[(z > 0).astype(int)])
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), model.predict_proba(new))


def test_three_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = GP(input_noise=0.1).fit(X, y)
    scores, P = model.decision_function(X), model.predict_proba(X)
    assert scores.shape == P.shape == (150, 3)
    assert model.alpha_.shape == model.omega_.shape == (3, 150)
    assert model.log_evidence_.shape == (3,)
    assert len(model.certificates_) == 3
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))
    np.testing.assert_array_equal(model.predict(X), P.argmax(axis=1))
    assert model.score(X, y) > 0.95
    assert model.loo_proba_.shape == (150, 3)
    wrong = model.loo_proba_.argmax(axis=1) != y
    assert model.loo_error_ == pytest.approx(wrong.mean())
    # each latent function is the one of the class against the rest
    single = GP(input_noise=0.1, gamma=model.gamma_).fit(X, y == 1)
    np.testing.assert_allclose(single.alpha_, model.alpha_[1], atol=1e-9)
    assert single.log_evidence_ == pytest.approx(model.log_evidence_[1])


def test_a_constant_mean_is_a_constant_added_to_the_kernel() -> None:
    X, y = _moons()
    new = _moons(seed=1)[0]
    by_option = GP(gamma=1.0, mean_variance=2.5).fit(X, y)
    by_kernel = GP(kernel=lambda A, B: gram(A, B, gamma=1.0) + 2.5, mean_variance=0.0).fit(X, y)
    assert by_option.log_evidence_ == pytest.approx(by_kernel.log_evidence_)
    np.testing.assert_allclose(
        by_option.predict_proba(new), by_kernel.predict_proba(new), rtol=1e-8
    )
    assert abs(by_option.log_evidence_ - GP(gamma=1.0).fit(X, y).log_evidence_) > 1e-3


def test_the_variance_of_the_mean_is_that_of_the_kernel_by_default() -> None:
    X, y = _moons()
    model = GP(gamma=1.0).fit(X, y)
    assert model.mean_variance_ == 1.0
    named = GP(gamma=1.0, mean_variance=1.0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), named.predict_proba(X))
    weight = np.arange(60.0) % 3
    linear = GP(kernel="linear").fit(X, y, sample_weight=weight)
    assert linear.mean_variance_ == pytest.approx(np.average((X**2).sum(axis=1), weights=weight))
    assert GP(mean_variance=0).fit(X, y).mean_variance_ == 0


def test_a_constant_mean_finds_one_class_around_the_other() -> None:
    """Far from all samples the prior alone predicts; with mean 0 it is undecided."""
    rng = np.random.default_rng(10)
    y = rng.integers(0, 2, 800)
    X = np.where(y == 0, 2.0, 1.0)[:, None] * rng.normal(size=(800, 20)) + 0.2 * y[:, None]
    error = {}
    for variance in (0.0, "auto"):
        model = GP(mean_variance=variance).fit(X[:150], y[:150])
        error[variance] = 1 - model.score(X[150:], y[150:])
    assert error["auto"] < 0.06 < 0.2 < error[0.0]


def test_the_prior_speaks_far_from_the_data() -> None:
    X, y = _moons()
    model = GP(gamma=1.0, mean_variance=0.0).fit(X, y)
    mean, variance = model.predict_latent(np.array([[1e3, 1e3]]))
    assert mean[0] == 0
    assert variance[0] == pytest.approx(1.0)
    assert model.predict_proba([[1e3, 1e3]])[0, 1] == pytest.approx(0.5)


@pytest.mark.parametrize("inference", INFERENCES)
def test_the_reading_is_the_one_that_leave_one_out_prefers(inference) -> None:
    """Any other scale, and for the naive theory the other variance, has a larger log-loss."""
    X, y = _moons(100)
    options = {"gamma": 1.0, "input_noise": 0.2, "mean_variance": 0.0, "calibrate": True}
    model = GP(inference=inference, **options).fit(X, y)
    record = model._record_
    [reading], [left] = model.readings_, record.model.left_out_fields(record)
    sign = np.where(y == "yes", 1.0, -1.0)[model._latent_.index]
    posterior = sign * left.mean / np.sqrt(left.variance + 0.2)
    fields = {"posterior": posterior}
    if inference == "naive":
        fields["prior"] = sign * left.mean / np.sqrt(1.2)

    def loss(scale, z):
        return -norm.logcdf(scale * z).sum()

    def penalised(scale, z):
        return loss(scale, z) + 0.5 * SCALE_PRECISION * np.log(scale) ** 2

    scales = np.exp(np.linspace(-3, 3, 601))
    best = {n: scales[np.argmin([penalised(s, z) for s in scales])] for n, z in fields.items()}
    own = fields[reading.variance]
    assert reading.scale == pytest.approx(best[reading.variance], rel=0.02)
    for factor in (0.9, 0.99, 1.01, 1.1):
        assert penalised(reading.scale, own) < penalised(factor * reading.scale, own)
    for name, z in fields.items():
        assert loss(reading.scale, own) <= loss(best[name], z) + 1e-2


def test_calibration_improves_badly_scaled_means() -> None:
    X, y = make_moons(300, noise=0.35, random_state=0)
    new, truth = make_moons(2_000, noise=0.35, random_state=1)
    raw = GP(gamma=1.0, input_noise=0.05, calibrate=False).fit(X, y)
    scaled = GP(gamma=1.0, input_noise=0.05).fit(X, y)
    assert log_loss(truth, scaled.predict_proba(new)) < log_loss(truth, raw.predict_proba(new))
    np.testing.assert_array_equal(raw.predict(new), scaled.predict(new))


# -- inputs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", INFERENCES)
def test_weights_repetitions_and_order_give_the_same_model(inference) -> None:
    X, y = _moons()
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, len(y))
    rows = rng.permutation(np.repeat(np.arange(len(y)), weight))
    model = GP(inference=inference, gamma=1.0)
    weighted = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(X[rows], y[rows])
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert weighted.log_evidence_ == repeated.log_evidence_
    assert weighted.loo_error_ == pytest.approx(repeated.loo_error_)
    first = weighted.loo_proba_[rows]
    np.testing.assert_array_equal(first, repeated.loo_proba_)
    unseen = weight == 0
    np.testing.assert_allclose(
        weighted.loo_proba_[unseen], weighted.predict_proba(X[unseen]), rtol=1e-12
    )
    assert not weighted.alpha_[unseen].any()
    totals = np.bincount(rows, repeated.alpha_, len(y))
    np.testing.assert_allclose(weighted.alpha_, totals, rtol=1e-12)


def test_fractional_weights_lie_between() -> None:
    X, y = _moons()
    weight = np.ones(len(y))
    evidence = []
    for first in (1e-9, 0.5, 1.0, 1.5, 2.0):
        weight[0] = first
        evidence.append(GP(gamma=1.0).fit(X, y, sample_weight=weight).log_evidence_)
    assert evidence[0] == pytest.approx(GP(gamma=1.0).fit(X[1:], y[1:]).log_evidence_, abs=1e-6)
    assert (np.diff(evidence) < 0).all()


def test_kernels_and_containers_agree() -> None:
    X, y = _moons()
    new = _moons(seed=1)[0]
    named = GP(gamma=1.0).fit(X, y)
    expected = named.predict_proba(new)
    by_function = GP(kernel=lambda A, B: gram(A, B, gamma=1.0)).fit(X, y)
    np.testing.assert_allclose(by_function.predict_proba(new), expected, rtol=1e-8)
    by_matrix = GP(kernel="precomputed").fit(gram(X, X, gamma=1.0), y)
    np.testing.assert_allclose(
        by_matrix.predict_proba(gram(new, X, gamma=1.0)), expected, rtol=1e-8
    )
    sparse = GP(gamma=1.0).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_proba(new), expected, rtol=1e-8)
    np.testing.assert_allclose(named.predict_proba(sp.csr_array(new)), expected, rtol=1e-8)
    vector = GP(gamma=[1.0, 1.0]).fit(X, y)
    np.testing.assert_allclose(vector.predict_proba(new), expected, rtol=1e-10)


def test_contradictory_rows_work() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]])
    y = [0, 1, 0, 1, 1]
    for inference in INFERENCES:
        model = GP(inference=inference, input_noise=0.1).fit(X, y)
        P = model.predict_proba([[0.0], [1.0]])[:, 1]
        assert P[1] > 0.5
        assert P[0] == pytest.approx(0.5, abs=0.2)
        assert model.residual_ <= 1e-10


# -- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_noise": -1.0}, "input_noise must be"),
        ({"input_noise": np.nan}, "input_noise must be"),
        ({"flip_noise": 0.5}, "flip_noise must be"),
        ({"flip_noise": -0.1}, "flip_noise must be"),
        ({"mean_variance": -1.0}, "mean_variance must be"),
        ({"mean_variance": "scale"}, "mean_variance must be"),
        ({"inference": "laplace"}, "inference must be"),
        ({"solver": "adatron"}, "solver must be"),
        ({"solver": "table", "inference": "tap"}, "Table 8.1 is for the naive"),
        ({"solver": "table", "inference": "ep"}, "Table 8.1 is for the naive"),
        ({"solver": "sweeps"}, "expectation propagation solves TAP"),
        ({"calibrate": "yes"}, "calibrate must be"),
        ({"tol": 0.0}, "tol must be"),
        ({"cache_size": 0.01}, "cache_size must be at least"),
        ({"kernel": "linear", "input_noise": 0.0}, "input_noise"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "finite numbers"),
    ],
)
def test_bad_parameters_are_named(options, message) -> None:
    X, y = _moons()
    X[0] = 0.0
    with pytest.raises(ValueError, match=message):
        GP(**options).fit(X, y)


def test_bad_kernels_are_refused() -> None:
    _, y = _moons(4)
    with pytest.raises(ValueError, match="positive semi-definite"):
        GP(kernel="precomputed").fit(np.ones((4, 4)) - 2 * np.eye(4), y)
    X, y = _moons()
    with pytest.raises(ValueError, match="positive semi-definite"):
        GP(kernel=lambda A, B: -gram(A, B)).fit(X, y)
    with pytest.raises(ValueError, match="positive semi-definite"):
        GP(kernel="sigmoid", coef0=-1.0).fit(X, y)
    _, y = _moons(4)
    with pytest.raises(ValueError, match="square"):
        GP(kernel="precomputed").fit(np.ones((4, 3)), y)
    uneven = GP(kernel="precomputed").fit(np.diag([1.0, 2.0, 3.0, 4.0]), y)
    assert len(uneven.predict(np.eye(4))) == 4
    with pytest.raises(ValueError, match="as a function"):
        uneven.predict_proba(np.eye(4))


def test_no_noise_needs_separable_classes() -> None:
    X, y = np.array([[0.0], [0.0], [1.0]]), [0, 1, 1]
    for inference in INFERENCES:
        with pytest.raises(ValueError, match="give a positive input_noise"):
            GP(inference=inference, input_noise=0.0).fit(X, y)


@pytest.mark.parametrize("options", [{"max_iter": 1}, {"time_limit": 1e-9}])
def test_what_does_not_converge_says_so(options) -> None:
    X, y = _moons()
    with pytest.warns(ConvergenceWarning, match=r"equations are met to .* \(asked: 1e-10\)"):
        model = GP(gamma=1.0, input_noise=0.01, **options).fit(X, y)
    assert model.residual_ > 1e-10
    assert not model.certificate_.converged
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("seed", [2, 15, 31])
def test_a_model_that_did_not_converge_still_has_probabilities(seed) -> None:
    """Labels that nothing explains: without a row, what is left is no distribution everywhere."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 2)), rng.integers(0, 2, 40)
    with pytest.warns(ConvergenceWarning, match="lower flip_noise or raise input_noise"):
        model = GP(gamma=0.05, input_noise=1e-3, flip_noise=0.2, mean_variance=0.0).fit(X, y)
    for P in (model.loo_proba_, model.predict_proba(X)):
        assert np.isfinite(P).all()
        np.testing.assert_allclose(P.sum(axis=1), 1.0)
    assert 0 < model.loo_error_ <= 1


def test_unfitted_models_have_no_leave_one_out() -> None:
    assert not hasattr(GP(), "loo_error_")
    with pytest.raises(NotFittedError):
        GP().predict_latent([[0.0]])


def test_verbose_shows_a_bar(capsys) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    GP(verbose=1).fit(StandardScaler().fit_transform(X), y)
    assert "MeanFieldGPClassifier" in capsys.readouterr().out
