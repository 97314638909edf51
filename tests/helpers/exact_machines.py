"""Machines of the exact judge, hostile problems drawn for them, and verdicts on their fits.

`verdicts` draws a problem from a seed, fits a machine and judges each of its certificates. Regimes:
C from 1e-6 to 1e8, gamma from 1e-6 to 1e4, grids, ties, near and contradictory duplicates, scales
1e-8 to 1e8, shifts, polynomials of degree 1 to 6, weights, precomputed and callable kernels, and
fits with few steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

import widemargin as wm
from tests.helpers import (
    exact_likelihoods,
    exact_programs,
    exact_quadratic,
    exact_ranks,
    exact_votes,
)
from tests.helpers.exact_numbers import vector
from tests.helpers.exact_soft_margin import SoftProblem
from tests.helpers.exact_verdict import Truth, Verdict, judged
from widemargin import sources

TIGHT = 1e-10
FEW_STEPS = (1, 2, 5, 30)


def affine(X: Any, Z: Any) -> Any:
    """Return x'z + 1, a kernel that is called; its floats are symmetric."""
    return np.einsum("ik,jk->ij", X, Z) + 1.0


@dataclass(frozen=True)
class Machine:
    """A kind of machine: how to draw parameters, what the labels are, and its exact judge.

    Attributes
    ----------
    draw : callable
        Returns an unfitted estimator, given a generator and the scale of the samples.
    truth : callable
        Returns the exact objectives, one `Truth` per certificate.
    target : {"classes", "separable", "many", "numbers", "none"}
        What y is.
    in_parts : bool
        Whether the samples are given in parts.
    queries : bool
        Whether the samples belong to queries.
    """

    draw: Callable[[Any, float], Any]
    truth: Callable[..., list[Truth]]
    target: str = "classes"
    in_parts: bool = False
    queries: bool = False


def power(rng: Any, low: float, high: float) -> float:
    """Draw ten to a uniform power."""
    return float(10.0 ** rng.uniform(low, high))


def drawn_kernel(rng: Any, scale: float) -> dict[str, Any]:
    """Draw a kernel for samples of this scale."""
    name = rng.choice(["linear", "poly", "poly", "rbf", "rbf", "rbf", "precomputed", "callable"])
    if name == "poly":
        degree, coef0 = int(rng.integers(1, 7)), float(rng.choice([0.0, 1.0, 10.0]))
        gamma = float(rng.choice([1.0, power(rng, -6, 4)]))
        return {"kernel": "poly", "degree": degree, "coef0": coef0, "gamma": gamma}
    if name == "rbf":
        return {"kernel": "rbf", "gamma": power(rng, -6, 4) / scale**2}
    return {"kernel": affine if name == "callable" else str(name)}


def drawn_samples(rng: Any) -> tuple[Any, float]:
    """Draw samples, and their scale."""
    n, d = int(rng.integers(4, 26)), int(rng.integers(1, 7))
    if rng.random() < 0.02:
        d = int(rng.integers(7, 41))
    kind, scale = rng.choice(["normal", "grid", "binary", "scaled", "shifted"]), 1.0
    if kind == "grid":
        X = rng.integers(-3, 4, (n, d)).astype(float)
    elif kind == "binary":
        X = rng.integers(0, 2, (n, min(d, 3))).astype(float)
    else:
        X = rng.normal(size=(n, d))
        scale = power(rng, -8, 8) if kind == "scaled" else 1.0
        X = scale * X + (1e6 if kind == "shifted" else 0.0)
    if rng.random() < 0.3:  # near or exact duplicates
        copies = rng.integers(0, n, max(1, n // 4))
        offset = float(rng.choice([0.0, 1e-9])) * scale
        X[: len(copies)] = X[copies] + offset * rng.normal(size=(len(copies), X.shape[1]))
    return X, scale


def drawn_target(rng: Any, X: Any, scale: float, target: str) -> Any:
    """Draw labels or numbers for the samples."""
    n = len(X)
    direction = rng.normal(size=X.shape[1])
    values = (X - X.mean(axis=0)) @ direction / (scale * np.linalg.norm(direction))
    if target == "numbers":
        return power(rng, -3, 3) * (values + 0.3 * rng.normal(size=n))
    noise = 0.0 if target == "separable" else float(rng.choice([0.0, 0.5, 10.0]))
    values = values + noise * rng.normal(size=n)
    several = 3 if target == "many" or (target == "classes" and rng.random() < 0.1) else 2
    y = np.argsort(np.argsort(values, kind="stable")) * several // n
    if target == "separable":
        y = (values > np.median(values)).astype(int)
    y[:several] = np.arange(several) if target != "separable" else y[:several]
    return y


def drawn_weights(rng: Any, n: int) -> Any:
    """Draw sample weights: none, small integers, or numbers over four decades."""
    kind = rng.integers(0, 4)
    if kind < 2:
        return None
    return rng.integers(1, 4, n).astype(float) if kind == 2 else 10.0 ** rng.uniform(-2, 2, n)


# ---------------------------------------------------------------- the machines


def _kernel_machine(kind: Any, **given: Any) -> Callable[[Any, float], Any]:
    """Return a drawer of an estimator with a kernel; callables among `given` draw a value."""

    def draw(rng: Any, scale: float) -> Any:
        chosen = {k: v(rng) if callable(v) else v for k, v in given.items()}
        return kind(**drawn_kernel(rng, scale), **chosen)

    return draw


def _plane(kind: Any, **given: Any) -> Callable[[Any, float], Any]:
    def draw(rng: Any, scale: float) -> Any:
        return kind(**{k: v(rng) if callable(v) else v for k, v in given.items()})

    return draw


def _cost(rng: Any) -> float:
    return power(rng, -6, 8)


def _nu(rng: Any) -> float:
    return float(rng.uniform(0.05, 0.9))


def _share(rng: Any) -> float:
    return float(rng.choice([rng.uniform(0.01, 1.0), power(rng, -9, 0), 1.0, 0.5]))


def _k(rng: Any) -> int:
    return int(rng.choice([1, 2, 4]))


def _lam(rng: Any) -> float:
    return power(rng, -4, 2)


def _width(rng: Any) -> float:
    return float(rng.choice([0.0, 0.1, power(rng, -4, 2)]))


def _loss(rng: Any) -> str:
    return str(rng.choice(["hinge", "squared_hinge"]))


def _either(*values: Any) -> Callable[[Any], Any]:
    return lambda rng: values[int(rng.integers(0, len(values)))]


def _multipliers(problem: SoftProblem, K: Any) -> Any:
    """Return coefficients of a kernel machine with the same problem, for a lower bound."""
    n, first = len(K), problem.variables[0]
    half = (problem.variables[-n].target - first.target) / 2  # 0 unless it is a tube
    squared, intercept = bool(first.ridge), bool(problem.totals)
    model: Any = wm.SVR(kernel="precomputed", epsilon=max(0.0, float(half)), tol=1e-9)
    y = [float(v.target + half) for v in problem.variables[:n]]
    if len(problem.variables) == n:
        model = wm.SVC(kernel="precomputed", loss="squared_hinge" if squared else "hinge", tol=1e-9)
    elif squared:
        return None
    sides = problem.variables[:n]
    cost = [1 / (2 * v.ridge) if squared else max(v.upper, -v.lower) for v in sides]
    try:
        model.set_params(fit_intercept=intercept).fit(
            np.array(K, dtype=float), np.array(y), sample_weight=np.array(cost, dtype=float)
        )
    except ValueError:
        return None
    beta = np.zeros(n)
    beta[model.support_] = model.dual_coef_[0]
    return vector(beta)


def _planes(model: Any, references: list[Any], X: Any, y: Any, weight: Any) -> list[Truth]:
    return exact_quadratic.planes(model, references, X, y, weight, _multipliers)


_quadratic, _programs, _likelihoods = exact_quadratic, exact_programs, exact_likelihoods
_pairs, _lp, _norms = _quadratic.kernel_pairs, _programs.programs, _programs.norm_margins
_links = _either("logit", "probit", "cloglog")
_linear = {"loss": _loss, "C": _cost}
_ordinal = _linear | {"C_scale": _either("pair", "total")}

MACHINES = {
    "SVC hinge": Machine(_kernel_machine(wm.SVC, C=_cost), _pairs),
    "SVC squared hinge": Machine(_kernel_machine(wm.SVC, C=_cost, loss="squared_hinge"), _pairs),
    "SVC no intercept": Machine(
        _kernel_machine(wm.SVC, C=_cost, loss=_loss, fit_intercept=False), _pairs
    ),
    "SVC hard": Machine(
        _kernel_machine(wm.SVC, C=np.inf, loss=_loss, fit_intercept=_either(True, False)),
        _pairs, "separable",
    ),
    "SVR hard": Machine(
        _kernel_machine(wm.SVR, C=np.inf, epsilon=_width, fit_intercept=_either(True, False)),
        _quadratic.regression, "numbers",
    ),
    "NuSVC": Machine(_kernel_machine(wm.NuSVC, nu=_nu), _pairs),
    "SVR": Machine(
        _kernel_machine(wm.SVR, C=_cost, epsilon=_width), _quadratic.regression, "numbers"
    ),
    "NuSVR": Machine(_kernel_machine(wm.NuSVR, C=_cost, nu=_nu), _quadratic.regression, "numbers"),
    "OneClassSVM": Machine(_kernel_machine(wm.OneClassSVM, nu=_nu), _quadratic.one_class, "none"),
    "LinearSVC": Machine(_plane(wm.LinearSVC, **_linear), _planes),
    "LinearSVC penalised": Machine(
        _plane(wm.LinearSVC, **_linear, intercept_scaling=1.0), _planes
    ),
    "LinearSVC l1": Machine(_plane(wm.LinearSVC, C=_cost, penalty="l1"), _programs.l1_planes),
    "LinearSVC joint": Machine(
        _plane(wm.LinearSVC, C=_cost, multi_class="crammer_singer"),
        _programs.crammer_singer, "many",
    ),
    "LinearSVC in parts": Machine(_plane(wm.LinearSVC, **_linear), _planes, in_parts=True),
    "LinearSVR": Machine(
        _plane(
            wm.LinearSVR, C=_cost, epsilon=_width,
            loss=_either("epsilon_insensitive", "squared_epsilon_insensitive"),
        ),
        _planes, "numbers",
    ),
    "ReducedHullSVC": Machine(_kernel_machine(wm.ReducedHullSVC, k=_k), _pairs, "separable"),
    "TubeSVR": Machine(_kernel_machine(wm.TubeSVR, k=_k), _quadratic.tube_hulls, "numbers"),
    "MaxMargin soft": Machine(
        _plane(wm.MaxMarginClassifier, C=_cost, norm=_either(1, np.inf, 3)), _norms
    ),
    "MaxMargin soft l2": Machine(_plane(wm.MaxMarginClassifier, C=_cost), _planes),
    "MaxMargin hard": Machine(
        _plane(wm.MaxMarginClassifier, C=np.inf, norm=_either(1, 2, 3, np.inf)), _norms,
        "separable",
    ),
    "LPSVC": Machine(_kernel_machine(wm.LPSVC, lam=_lam), _lp),
    "NuLPSVC": Machine(_kernel_machine(wm.NuLPSVC, nu=_nu), _lp),
    "LOOSVC": Machine(_kernel_machine(wm.LOOSVC), _lp),
    "AdaptiveMarginSVC": Machine(_kernel_machine(wm.AdaptiveMarginSVC, lam=_lam), _lp),
    "LOOSVC squared": Machine(_kernel_machine(wm.LOOSVC, loss="squared_hinge"), _lp),
    "AdaptiveMarginSVC squared": Machine(
        _kernel_machine(wm.AdaptiveMarginSVC, lam=_lam, loss="squared_hinge"), _lp
    ),
    "LPBoost": Machine(_plane(wm.LPBoostClassifier, nu=_share), exact_votes.votes),
    "OrdinalSVC": Machine(_kernel_machine(wm.OrdinalSVC, **_ordinal), exact_ranks.ranks, "many"),
    "OrdinalSVC ranking": Machine(
        _kernel_machine(wm.OrdinalSVC, **_ordinal, pooled_ranks=_either(False, True)),
        exact_ranks.ranks, "many", queries=True,
    ),
    "OrdinalSVC l1": Machine(
        _plane(wm.OrdinalSVC, kernel="linear", norm=1, **_ordinal | {"loss": "hinge"}),
        exact_ranks.sparse_ranks, "many",
    ),
    "CumulativeLink": Machine(
        _plane(wm.CumulativeLinkClassifier, link=_links, alpha=lambda rng: power(rng, -4, 2)),
        _likelihoods.cumulative, "many",
    ),
    "MeanFieldGP": Machine(
        _kernel_machine(wm.MeanFieldGPClassifier, input_noise=lambda rng: power(rng, -2, 1)),
        _likelihoods.mean_field,
    ),
}  # fmt: skip


# ---------------------------------------------------------------- one fit


@dataclass(frozen=True)
class Judged:
    """Outcome of one fit: its verdicts, or the message of its refusal.

    Attributes
    ----------
    model : estimator
        The model, or the unfitted estimator if the fit was refused.
    verdicts : list of Verdict
        One per certificate; empty if refused.
    refusal : str
        Message of the ValueError.
    """

    model: Any
    verdicts: list[Verdict]
    refusal: str = ""


def judge_seed(name: str, seed: int) -> Judged:
    """Draw the problem of a seed, fit the machine and judge its certificates."""
    machine = MACHINES[name]
    rng = np.random.default_rng([seed, *name.encode()])
    X, scale = drawn_samples(rng)
    y = None if machine.target == "none" else drawn_target(rng, X, scale, machine.target)
    weight = None if machine.target == "separable" else drawn_weights(rng, len(X))
    estimator = machine.draw(rng, scale)
    if rng.random() < 0.25:
        estimator.set_params(max_iter=int(rng.choice(FEW_STEPS)))
    if getattr(estimator, "kernel", None) == "precomputed":
        factor = rng.integers(-3, 4, (len(X), int(rng.integers(1, len(X) + 1))))
        X = (factor @ factor.T).astype(float)
    if getattr(estimator, "kernel", None) is affine:
        X = np.clip(np.rint(X / scale * 4), -1000, 1000)  # its floats are exact, hence a kernel
    known: dict[str, Any] = {"qid": rng.integers(0, 3, len(X))} if machine.queries else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = _fitted(machine, estimator, X, y, weight, **known)
        except ValueError as refusal:
            return Judged(estimator, [], str(refusal))
        references = _references(machine, estimator, X, y, weight, **known)
        truths = machine.truth(model, references, X, y, weight, **known)
    certificates = getattr(model, "certificates_", [model.certificate_])
    pairs = zip(certificates, truths, strict=True)
    return Judged(model, [judged(certificate, truth) for certificate, truth in pairs])


def _fitted(machine: Machine, estimator: Any, X: Any, y: Any, weight: Any, **known: Any) -> Any:
    if machine.in_parts:
        cut = len(X) // 2
        parts = [slice(None, cut), slice(cut, None)]
        weights = None if weight is None else [weight[part] for part in parts]
        data = sources.from_arrays([X[p] for p in parts], [y[p] for p in parts], weights)
        return clone(estimator).fit(data)
    return clone(estimator).fit(X, y, sample_weight=weight, **known)


def _references(
    machine: Machine, estimator: Any, X: Any, y: Any, weight: Any, **known: Any
) -> list[Any]:
    """Return models of the same machine with a small tolerance and the default of steps."""
    default = type(estimator)().max_iter
    tight = clone(estimator).set_params(tol=TIGHT, max_iter=default)
    if hasattr(tight, "epsilon") and tight.epsilon == "auto":
        return []
    try:
        return [_fitted(machine, tight, X, y, weight, **known)]
    except ValueError:
        return []
