"""Certificates of linear machines hold in exact arithmetic: a judge with rational numbers."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

from widemargin import LinearSVC, LinearSVR, MaxMarginClassifier

HOSTILE = [(1.0, 0.0), (1e8, 0.0), (1e-8, 0.0), (1.0, 1e8), (1e-8, 1.0)]  # scale and shift
COSTS = [1e-6, 1.0, 1e8]


def data(scale: float, shift: float, n_classes: int = 2):
    """Samples on few features, with duplicates that contradict each other."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 3)) * np.array([1.0, 0.3, 2.0])
    X[5], X[7] = X[4], X[6]
    y = rng.integers(0, n_classes, 24)
    y[:n_classes] = np.arange(n_classes)
    weight = rng.choice([0.1, 1.0, 3.7], 24)
    return scale * X + shift, y, weight


def exact(values) -> list[Fraction]:
    return [Fraction(float(v)) for v in values]


def plane_values(X, w, b) -> list[Fraction]:
    """Return w.x + b of each sample as rational numbers."""
    w, b = exact(w), Fraction(float(b))
    return [sum((Fraction(float(v)) * c for v, c in zip(x, w, strict=True)), b) for x in X]


def exact_primal(X, sign, cost, w, b, *, power, norm, constant=None) -> Fraction:
    """Return the objective of a hyperplane; `norm` is 1 for |w|_1 and 2 for half the square."""
    slacks = [max(Fraction(0), 1 - s * f)
              for s, f in zip(sign, plane_values(X, w, b), strict=True)]  # fmt: skip
    weights = exact(w)
    if constant is not None:
        weights.append(Fraction(float(b)) / Fraction(constant))
    size = sum(map(abs, weights)) if norm == 1 else sum(v * v for v in weights) / 2
    return size + sum(c * s**power for c, s in zip(cost, slacks, strict=True))


def quietly(model, *arrays):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*arrays)


@pytest.mark.parametrize(("scale", "shift"), HOSTILE)
@pytest.mark.parametrize("C", COSTS)
@pytest.mark.parametrize(
    "options",
    [
        {"loss": "hinge"},
        {"loss": "squared_hinge"},
        {"loss": "hinge", "fit_intercept": False},
        {"loss": "squared_hinge", "intercept_scaling": 0.3},
        {"loss": "squared_hinge", "penalty": "l1"},
        {"loss": "squared_hinge", "penalty": "l1", "intercept_scaling": 0.3},
    ],
)
@pytest.mark.parametrize("max_iter", [1, 1000])
def test_linear_svc(scale, shift, C, options, max_iter) -> None:
    X, y, weight = data(scale, shift)
    model = quietly(LinearSVC(C=C, max_iter=max_iter, tol=1e-6, **options), X, y, weight)
    sign = [1 if v else -1 for v in y]
    cost = [Fraction(C) * c for c in exact(weight)]
    terms = {
        "power": 1 if options["loss"] == "hinge" else 2,
        "norm": 1 if options.get("penalty") == "l1" else 2,
        "constant": options.get("intercept_scaling"),
    }
    found = exact_primal(X, sign, cost, model.coef_[0], model.intercept_[0], **terms)
    assert Fraction(model.certificate_.primal) >= found
    assert Fraction(model.certificate_.dual) <= found
    # No constant is better than the model or below the lower bound.
    levels = [0.0] if options.get("fit_intercept") is False else np.linspace(-1, 1, 41)
    constants = [exact_primal(X, sign, cost, np.zeros(3), b, **terms) for b in levels]
    assert Fraction(model.certificate_.dual) <= min(constants)
    assert found <= min(constants)


@pytest.mark.parametrize(("scale", "shift"), HOSTILE)
@pytest.mark.parametrize("C", COSTS)
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("max_iter", [1, 1000])
def test_linear_svr(scale, shift, C, loss, max_iter) -> None:
    X, y, weight = data(scale, shift)
    y = y + 0.1 * np.arange(24)
    options = {"C": C, "loss": loss, "epsilon": 0.1, "max_iter": max_iter, "tol": 1e-6}
    model = quietly(LinearSVR(**options), X, y, weight)

    def primal(w, b) -> Fraction:
        residuals = [v - f for v, f in zip(exact(y), plane_values(X, w, b), strict=True)]
        losses = [max(Fraction(0), abs(r) - Fraction(0.1)) for r in residuals]
        power = 1 if loss == "epsilon_insensitive" else 2
        terms = [Fraction(C) * c * s**power for c, s in zip(exact(weight), losses, strict=True)]
        return sum(v * v for v in exact(w)) / 2 + sum(terms)

    found = primal(model.coef_, model.intercept_[0])
    assert Fraction(model.certificate_.dual) <= found <= Fraction(model.certificate_.primal)
    constants = min(primal(np.zeros(3), b) for b in [*y, *np.linspace(y.min(), y.max(), 41)])
    assert Fraction(model.certificate_.dual) <= constants
    assert found <= constants


@pytest.mark.parametrize(("scale", "shift"), HOSTILE)
@pytest.mark.parametrize("C", COSTS)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("max_iter", [1, 1000])
def test_crammer_singer(scale, shift, C, n_classes, scaling, max_iter) -> None:
    X, y, weight = data(scale, shift, n_classes)
    model = LinearSVC(
        C=C, multi_class="crammer_singer", intercept_scaling=scaling, max_iter=max_iter, tol=1e-6
    )
    quietly(model, X, y, weight)
    W, b = model.coef_, model.intercept_
    if n_classes == 2:
        W, b = np.vstack([-0.5 * W, 0.5 * W]), np.append(-0.5 * b, 0.5 * b)

    def primal(W, b) -> Fraction:
        F = [plane_values(X, w, c) for w, c in zip(W, b, strict=True)]
        total = sum(v * v for w in W for v in exact(w)) / 2
        if scaling is not None:
            total += sum((v / Fraction(scaling)) ** 2 for v in exact(b)) / 2
        for i, own in enumerate(y):
            rivals = (1 + F[k][i] - F[own][i] for k in range(n_classes) if k != own)
            total += Fraction(C) * Fraction(float(weight[i])) * max(Fraction(0), *rivals)
        return total

    found, nothing = primal(W, b), primal(np.zeros_like(W), np.zeros_like(b))
    assert Fraction(model.certificate_.dual) <= found <= Fraction(model.certificate_.primal)
    assert Fraction(model.certificate_.dual) <= nothing
    assert found <= nothing


@pytest.mark.parametrize(("scale", "shift"), HOSTILE)
@pytest.mark.parametrize("norm", [1, np.inf])
@pytest.mark.parametrize("C", COSTS)
def test_norm_margins(scale, shift, norm, C) -> None:
    X, y, weight = data(scale, shift)
    model = quietly(MaxMarginClassifier(norm=norm, C=C), X, y, weight)

    def primal(w, b) -> Fraction:
        slacks = [max(Fraction(0), 1 - (f if k else -f))
                  for k, f in zip(y, plane_values(X, w, b), strict=True)]  # fmt: skip
        sizes = [abs(v) for v in exact(w)]
        loss = sum(Fraction(C) * c * s for c, s in zip(exact(weight), slacks, strict=True))
        return (sum(sizes) if norm == 1 else max(sizes)) + loss

    found = primal(model.coef_[0], model.intercept_[0])
    constants = min(primal(np.zeros(3), b) for b in (-1.0, 1.0))
    assert Fraction(model.certificate_.dual) <= found <= Fraction(model.certificate_.primal)
    assert Fraction(model.certificate_.dual) <= constants
    assert found <= constants


@pytest.mark.parametrize("norm", [1, 1.5, 2, 3, np.inf])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_hard_margins(norm, shift) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    X = X[np.abs(X[:, 0]) > 0.2]
    y = X[:, 0] > 0
    X = X + shift
    model = quietly(MaxMarginClassifier(norm=norm, C=np.inf), X, y)
    margins = [f if k else -f for k, f in
               zip(y, plane_values(X, model.coef_[0], model.intercept_[0]), strict=True)]  # fmt: skip
    sizes = np.abs(model.coef_[0])
    size = float(sizes.max() if np.isinf(norm) else (sizes**norm).sum() ** (1 / norm))
    objective = Fraction(size) / min(margins)
    assert Fraction(model.certificate_.primal) >= objective * (1 - Fraction(1, 10**15))
    assert Fraction(model.certificate_.dual) <= objective * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_rounding_is_small_on_ordinary_data(loss) -> None:
    X, y, weight = data(1.0, 0.0)
    certificate = LinearSVC(loss=loss, tol=1e-9).fit(X, y, weight).certificate_
    assert certificate.converged
    assert 0.0 < certificate.rounding <= 1e-7
