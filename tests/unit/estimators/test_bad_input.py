"""Bad input raises an error that names the argument, before any kernel value is computed."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from tests.helpers.byhand import gram
from widemargin import LOOSVC, LPSVC, SVC, SVR, AdaptiveMarginSVC, LinearSVC, NuLPSVC, NuSVC, NuSVR

QUADRATIC = [SVC, NuSVC, SVR, NuSVR]
LINEAR_PROGRAMS = [LOOSVC, AdaptiveMarginSVC, LPSVC, NuLPSVC]
KERNEL_MACHINES = [*QUADRATIC, *LINEAR_PROGRAMS]
CLASSIFIERS = [SVC, NuSVC, LinearSVC, *LINEAR_PROGRAMS]
ALL = [*KERNEL_MACHINES, LinearSVC]
by_name = pytest.mark.parametrize


class Recorder:
    """A kernel that remembers whether it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, A, B):
        self.calls += 1
        return gram(A, B, "rbf", 0.5)


def _data(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, np.arange(n) % 2


def _learnable() -> tuple[np.ndarray, np.ndarray]:
    """Return rows that a plane through the origin separates: no machine has to complain."""
    X, _ = _data()
    return X, (X[:, 0] > 0).astype(int)


def refused(machine, params, X, y, match: str, **fit) -> None:
    """Demand a ValueError that matches, and no kernel value before it."""
    recorder = Recorder()
    if machine is not LinearSVC and "kernel" not in params:
        params = {**params, "kernel": recorder}
    with pytest.raises(ValueError, match=match):
        machine(**params).fit(X, y, **fit)
    assert recorder.calls == 0


# ---------------------------------------------------------------- data


@by_name("machine", ALL)
@by_name("store", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@by_name(("value", "match"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nan_and_infinity_in_x(machine, store, value, match) -> None:
    X, y = _data()
    X[3, 1] = value
    refused(machine, {}, store(X), y, match)


@by_name("machine", [SVR, NuSVR])
@by_name("value", [np.nan, np.inf])
def test_nan_and_infinity_in_y(machine, value) -> None:
    X, _ = _data()
    y = X[:, 0].copy()
    y[5] = value
    refused(machine, {}, X, y, "NaN|infinity")


@by_name("machine", ALL)
def test_empty_arrays(machine) -> None:
    refused(machine, {}, np.empty((0, 3)), np.empty(0), "0 sample|minimum of 1")
    refused(machine, {}, np.empty((5, 0)), np.arange(5) % 2, r"0 feature\(s\)")


@by_name("machine", ALL)
def test_shapes(machine) -> None:
    X, y = _data()
    refused(machine, {}, X, y[:-1], "inconsistent numbers of samples")
    refused(machine, {}, X[:, 0], y, "2D array")
    refused(machine, {}, X, np.c_[y, y], "1d array|multi-output|bad input shape|y should be")


@by_name("machine", CLASSIFIERS)
def test_one_class(machine) -> None:
    X, _ = _data()
    refused(machine, {}, X, np.zeros(20), "class")
    refused(machine, {}, X, np.array(["same"] * 20), "class")


@by_name("machine", CLASSIFIERS)
def test_one_class_after_zero_weights(machine) -> None:
    X, y = _data()
    refused(machine, {}, X, y, "class", sample_weight=np.where(y == 0, 0.0, 1.0))


@by_name("machine", CLASSIFIERS)
def test_continuous_labels(machine) -> None:
    X, _ = _data()
    refused(machine, {}, X, X[:, 0], "continuous")


@by_name("machine", [SVR, NuSVR])
def test_constant_target_is_fitted_by_a_constant(machine) -> None:
    """A regressor has an answer for constant y: no error, no warning, the constant."""
    X, _ = _data()
    model = machine().fit(X, np.full(20, 4.5))
    np.testing.assert_allclose(model.predict(X), 4.5, atol=1e-9)
    assert model.certificate_.converged


# ---------------------------------------------------------------- weights


@by_name("machine", ALL)
@by_name(
    ("weight", "match"),
    [
        (np.full(20, -1.0), "negative|positive|Negative"),
        (np.r_[np.ones(19), -0.5], "negative|positive|Negative"),
        (np.zeros(20), "zero"),
        (np.r_[np.ones(19), np.nan], "NaN"),
        (np.r_[np.ones(19), np.inf], "infinity"),
        (np.ones(19), "sample_weight|shape"),
        (np.ones((20, 2)), "1D array|sample_weight"),
    ],
    ids=["all_negative", "negative", "zero", "nan", "infinite", "short", "matrix"],
)
def test_sample_weight(machine, weight, match) -> None:
    X, y = _data()
    refused(machine, {}, X, y, match, sample_weight=weight)


@by_name("machine", [SVC, LinearSVC, LOOSVC, AdaptiveMarginSVC, LPSVC])
def test_class_weight(machine) -> None:
    X, y = _data()
    refused(machine, {"class_weight": {0: 1.0, 7: 2.0}}, X, y, "class_weight.*7|7.*class_weight")
    refused(machine, {"class_weight": "equal"}, X, y, "class_weight")
    refused(machine, {"class_weight": {0: -1.0}}, X, y, "class_weight")


def test_the_nu_program_takes_no_class_weight() -> None:
    with pytest.raises(TypeError, match="class_weight"):
        NuLPSVC(class_weight="balanced")


# ---------------------------------------------------------------- parameters

WRONG = [
    *[(m, "tol", v) for m in ALL for v in (0.0, -1e-3, np.nan, "tight")],
    *[(m, "C", v) for m in (SVC, SVR, NuSVR, LinearSVC) for v in (0.0, -1.0, np.nan, "1")],
    *[(m, "nu", v) for m in (NuSVC, NuSVR) for v in (0.0, -0.1, 1.5, np.nan)],
    *[(m, "lam", v) for m in (AdaptiveMarginSVC, LPSVC) for v in (-0.1, np.nan, np.inf, "1", True)],
    *[(NuLPSVC, "nu", v) for v in (-0.1, 1.5, np.nan, "0.2", True)],
    *[(m, "calibration", "platt") for m in CLASSIFIERS],
    *[(SVR, "epsilon", v) for v in (-0.1, np.nan)],
    *[(m, "max_iter", v) for m in ALL for v in (0, -2, 1.5)],
    *[(m, "time_limit", v) for m in ALL for v in (0.0, -1.0)],
    *[(m, "cache_size", v) for m in KERNEL_MACHINES for v in (0, -5)],
    *[(m, "loss", "hinges") for m in (SVC, LinearSVC)],
    *[(m, "fit_intercept", "yes") for m in (SVC, SVR, LinearSVC)],
    (SVC, "solver", "magic"),
    *[(m, "random_state", "seed") for m in ALL],
]


@by_name(("machine", "name", "value"), WRONG, ids=[f"{m.__name__}-{n}-{v}" for m, n, v in WRONG])
def test_parameters_out_of_range(machine, name, value) -> None:
    X, y = _data()
    refused(machine, {name: value}, X, y, rf"\b{name}\b")


WRONG_KERNELS = [
    ({"kernel": "rgb"}, "kernel"),
    ({"kernel": 3}, "kernel"),
    ({"kernel": "rbf", "gamma": 0.0}, "gamma"),
    ({"kernel": "rbf", "gamma": -1.0}, "gamma"),
    ({"kernel": "rbf", "gamma": np.nan}, "gamma"),
    ({"kernel": "rbf", "gamma": np.inf}, "gamma"),
    ({"kernel": "rbf", "gamma": "scales"}, "gamma"),
    ({"kernel": "rbf", "gamma": [1.0, 2.0]}, "gamma"),
    ({"kernel": "rbf", "gamma": [1.0, 2.0, -1.0]}, "gamma"),
    ({"kernel": "poly", "gamma": [1.0, 2.0, 3.0]}, "gamma"),
    ({"kernel": "poly", "degree": -1}, "degree"),
    ({"kernel": "poly", "coef0": np.nan}, "coef0"),
]


@by_name("machine", KERNEL_MACHINES)
@by_name(("params", "match"), WRONG_KERNELS, ids=lambda v: str(v) if isinstance(v, dict) else "")
def test_kernel_parameters(machine, params, match) -> None:
    X, y = _data()
    refused(machine, params, X, y, rf"\b{match}\b")


def test_a_solver_that_does_not_exist_is_refused_and_not_ignored() -> None:
    X, y = _data()
    refused(SVC, {"solver": "simplex"}, X, y, r"(?s)\bsolver\b.*simplex")


# ---------------------------------------------------------------- nu


def _unbalanced() -> tuple[np.ndarray, np.ndarray]:
    X, _ = _data()
    return X, np.repeat([0, 1], [17, 3])


def test_infeasible_nu_names_the_largest_feasible_one() -> None:
    X, y = _unbalanced()
    refused(NuSVC, {"nu": 0.5}, X, y, r"(?s)\bnu\b.*0\.3")
    NuSVC(nu=0.3).fit(X, y)  # 2 * 3 / 20 is feasible


def test_infeasible_nu_counts_weights() -> None:
    X, y = _unbalanced()
    weight = np.where(y == 1, 2.0, 1.0)  # 2 * 6 / 23 = 0.52...
    NuSVC(nu=0.5).fit(X, y, sample_weight=weight)
    refused(NuSVC, {"nu": 0.55}, X, y, r"(?s)\bnu\b.*0\.52", sample_weight=weight)


def test_infeasible_nu_of_a_pair_of_classes() -> None:
    X, _ = _data()
    y = np.repeat([0, 1, 2], [10, 8, 2])  # worst pair: 2 * 2 / 12
    refused(NuSVC, {"nu": 0.5}, X, y, r"(?s)\bnu\b.*0\.33")


# ---------------------------------------------------------------- unused parameters

UNUSED = [
    ({"kernel": "rbf", "degree": 2}, "degree"),
    ({"kernel": "rbf", "coef0": 1.0}, "coef0"),
    ({"kernel": "linear", "degree": 2}, "degree"),
    ({"kernel": "linear", "coef0": 1.0}, "coef0"),
    ({"kernel": "linear", "gamma": 0.5}, "gamma"),
    ({"kernel": "linear", "gamma": "auto"}, "gamma"),
    ({"kernel": "precomputed", "gamma": 0.5}, "gamma"),
    ({"kernel": "precomputed", "degree": 2}, "degree"),
    ({"kernel": lambda A, B: A @ B.T, "gamma": 0.5}, "gamma"),
    ({"kernel": lambda A, B: A @ B.T, "coef0": 0.5}, "coef0"),
]


@by_name("machine", KERNEL_MACHINES)
@by_name(("params", "match"), UNUSED, ids=[f"{p['kernel']!s:.11}-{m}" for p, m in UNUSED])
def test_a_parameter_that_the_kernel_does_not_use_is_warned_about(machine, params, match) -> None:
    X, y = _learnable()
    data = X @ X.T if params["kernel"] == "precomputed" else X
    with pytest.warns(UserWarning, match=rf"\b{match}\b"):
        machine(**params).fit(data, y)


@by_name("machine", KERNEL_MACHINES)
@by_name("kernel", ["linear", "poly", "rbf", "precomputed", "callable"])
def test_defaults_are_silent(machine, kernel) -> None:
    X, y = _learnable()
    data = X @ X.T if kernel == "precomputed" else X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own = (lambda A, B: A @ B.T) if kernel == "callable" else kernel
        machine(kernel=own).fit(data, y)


def test_sigmoid_is_said_not_to_be_mercer() -> None:
    X, y = _data()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SVC(kernel="sigmoid", gamma=1.0, coef0=-1.0).fit(X, y)
    assert any("Mercer" in str(w.message) or "definite" in str(w.message) for w in caught)
    assert np.isfinite(model.decision_function(X)).all()


# ---------------------------------------------------------------- own kernels


@by_name("machine", KERNEL_MACHINES)
def test_a_precomputed_matrix_must_be_square(machine) -> None:
    _, y = _data()
    refused(machine, {"kernel": "precomputed"}, np.ones((20, 19)), y, "square|precomputed")


@by_name("machine", KERNEL_MACHINES)
def test_a_precomputed_matrix_for_prediction_has_a_column_for_each_row(machine) -> None:
    X, y = _data()
    model = machine(kernel="precomputed").fit(gram(X, X, gamma=0.5), y)
    model.predict(gram(X[:2], X, gamma=0.5))
    with pytest.raises(ValueError, match=r"19.*20|20.*19"):
        model.predict(np.ones((2, 19)))


@by_name("machine", QUADRATIC)
@by_name("asymmetric", [False, True], ids=["indefinite", "asymmetric"])
def test_an_indefinite_matrix_is_warned_about_and_not_certified(machine, asymmetric) -> None:
    X, y = _data(40)
    K = gram(X, X, "rbf", 0.5) - 0.5 * np.eye(40) * (not asymmetric)
    if asymmetric:
        K[3, 4] += 0.5
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = machine(kernel="precomputed").fit(K, y)
    messages = [str(w.message) for w in caught]
    assert [m for m in messages if "definite" in m or "symmetric" in m]
    assert not [m for m in messages if "ran out" in m or "was reached" in m], "no budget ended"
    assert not [w for w in caught if issubclass(w.category, RuntimeWarning)]
    assert model.certificate_.converged is False
    assert np.isfinite(model.predict(K).astype(float)).all()
    assert np.isfinite(model.dual_coef_).all()


@by_name("machine", KERNEL_MACHINES)
@by_name("shape", ["transposed_sum", "vector", "scalar"])
def test_a_function_of_the_wrong_shape(machine, shape) -> None:
    X, y = _data()
    own = {
        "transposed_sum": lambda A, B: np.ones((len(A), len(B) + 1)),
        "vector": lambda A, B: np.ones(len(A)),
        "scalar": lambda A, B: 1.0,
    }
    with pytest.raises(ValueError, match=r"kernel.*shape"):
        machine(kernel=own[shape]).fit(X, y)


@by_name("machine", KERNEL_MACHINES)
def test_a_function_that_returns_nan(machine) -> None:
    X, y = _data()
    with pytest.raises(ValueError, match="kernel"):
        machine(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(X, y)


@by_name("machine", KERNEL_MACHINES)
def test_an_error_inside_the_function_reaches_the_user(machine) -> None:
    X, y = _data()

    def broken(A, B):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        machine(kernel=broken).fit(X, y)


# ---------------------------------------------------------------- prediction


@by_name("machine", ALL)
def test_wrong_number_of_features_at_prediction(machine) -> None:
    X, y = _data()
    model = machine().fit(X, y)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 3), np.nan))


@by_name("machine", ALL)
def test_prediction_before_fitting(machine) -> None:
    with pytest.raises(NotFittedError):
        machine().predict(np.ones((2, 3)))


@by_name("machine", ALL)
def test_a_failed_fit_leaves_no_model(machine) -> None:
    X, y = _data()
    model = machine(tol=-1.0)
    with pytest.raises(ValueError, match="tol"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


# ---------------------------------------------------------------- budgets


def _hard(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.integers(0, 2, n)


BUDGETED = [SVC, NuSVC, SVR, NuSVR]


@by_name("machine", BUDGETED)
def test_an_exhausted_budget_gives_a_model_a_warning_and_its_numbers(machine) -> None:
    X, y = _hard()
    with pytest.warns(ConvergenceWarning) as caught:
        model = machine(tol=1e-6, max_iter=7).fit(X, y)
    assert len(caught) == 1
    message = str(caught[0].message)
    c = model.certificate_
    assert c.converged is False
    assert c.kkt_violation > 1e-6
    assert c.primal >= c.dual
    assert 1 <= c.n_iter <= 7
    np.testing.assert_array_equal(model.n_iter_, [c.n_iter])
    for number in (c.relative_gap, c.kkt_violation):
        assert _contains(message, number), f"{number} is not in {message!r}"
    assert "1e-06" in message
    assert "scale" in message
    assert np.isfinite(model.predict(X).astype(float)).all()


def _contains(message: str, number: float) -> bool:
    """Whether the number stands in the message, rounded to two digits or more."""
    forms = {f"{number:.{digits}{kind}}" for digits in range(1, 5) for kind in "eg"}
    return any(form in message for form in forms)


def test_linear_machine_has_the_same_manners() -> None:
    X, y = _hard(2000)
    with pytest.warns(ConvergenceWarning) as caught:
        model = LinearSVC(loss="hinge", tol=1e-10, max_iter=1).fit(X * [1, 1e3, 1], y)
    assert model.certificate_.converged is False
    assert model.certificate_.primal >= model.certificate_.dual
    assert _contains(str(caught[0].message), model.certificate_.relative_gap)


@by_name("machine", BUDGETED)
def test_a_time_limit_ends_a_fit(machine) -> None:
    """A limit far below the need: the fit ends as an exhausted budget does."""
    X, y = _hard(3000)
    with pytest.warns(ConvergenceWarning, match="time_limit") as caught:
        model = machine(tol=1e-9, time_limit=1e-3).fit(X, y)
    assert not re.search("max_iter was reached|default budget", str(caught[0].message))
    assert model.certificate_.converged is False
    assert model.certificate_.primal >= model.certificate_.dual


def test_enough_budget_is_silent() -> None:
    X, y = _hard()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SVC(max_iter=1_000_000, time_limit=600.0).fit(X, y).certificate_.converged
