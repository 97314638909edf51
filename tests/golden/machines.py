"""The small models that are kept as files: every public estimator, and what its fit can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.naive_bayes import GaussianNB

import widemargin as wm


@dataclass(frozen=True)
class Golden:
    """A model to be kept.

    Attributes
    ----------
    fit : callable
        Takes X and y, returns the fitted machine.
    y : str
        Which of the targets of :func:`data` it learns.
    """

    fit: Callable[[Any, Any], Any]
    y: str = "two"


def data() -> dict[str, Any]:
    """Return few rows and their targets; three decimals, so that JSON has them exactly."""
    rng = np.random.default_rng(20260)
    X = rng.normal(size=(24, 3)).round(3)
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=24)
    ranks = np.digitize(score, np.quantile(score, [0.33, 0.67]))
    return {
        "X": X,
        "new": rng.normal(size=(6, 3)).round(3),
        "two": np.where(score > np.median(score), "yes", "no"),
        "three": np.array([10, 20, 30])[ranks],
        "number": score.round(3),
    }


def _machine(estimator: Any) -> Callable[[Any, Any], Any]:
    return lambda X, y: estimator.fit(X, y)


def _weighted(X: Any, y: Any) -> Any:
    weight = 1.0 + np.arange(len(y)) % 3
    return wm.SVC(class_weight="balanced", tol=1e-8).fit(X, y, sample_weight=weight)


MACHINES: dict[str, Golden] = {
    "svc_rbf": Golden(_machine(wm.SVC(C=3.0, gamma=0.4, tol=1e-10))),
    "svc_poly": Golden(_machine(wm.SVC(kernel="poly", degree=2, gamma=0.5, coef0=1.0, tol=1e-10))),
    "svc_linear": Golden(_machine(wm.SVC(kernel="linear", C=0.7, tol=1e-10))),
    "svc_squared": Golden(_machine(wm.SVC(loss="squared_hinge", C=2.0))),
    "svc_widths": Golden(_machine(wm.SVC(gamma=[0.1, 0.5, 0.0], C=2.0))),
    "svc_three": Golden(_machine(wm.SVC(C=5.0)), "three"),
    "svc_weighted": Golden(_weighted, "three"),
    "svc_sparse": Golden(lambda X, y: wm.SVC().fit(sp.csr_array(X), y)),
    "svc_tuned": Golden(lambda X, y: wm.tune(wm.SVC(), X, y)),
    "nusvc": Golden(_machine(wm.NuSVC(nu=0.4)), "three"),
    "svr": Golden(_machine(wm.SVR(C=2.0, epsilon=0.2)), "number"),
    "nusvr": Golden(_machine(wm.NuSVR(nu=0.4)), "number"),
    "one_class": Golden(_machine(wm.OneClassSVM(nu=0.3, gamma=0.4, tol=1e-10))),
    "tube_svr": Golden(_machine(wm.TubeSVR()), "number"),
    "linear_svc": Golden(_machine(wm.LinearSVC(loss="hinge", C=0.5))),
    "linear_svc_three": Golden(_machine(wm.LinearSVC(multi_class="ovo")), "three"),
    "linear_svr": Golden(_machine(wm.LinearSVR(C=2.0, epsilon=0.1)), "number"),
    "reduced_hull": Golden(_machine(wm.ReducedHullSVC())),
    "reduced_hull_three": Golden(_machine(wm.ReducedHullSVC(kernel="linear", k=0.6)), "three"),
    "loosvc": Golden(_machine(wm.LOOSVC())),
    "loosvc_squared": Golden(_machine(wm.LOOSVC(loss="squared_hinge"))),
    "adaptive": Golden(_machine(wm.AdaptiveMarginSVC(lam=0.5)), "three"),
    "lpsvc": Golden(_machine(wm.LPSVC(lam=0.3))),
    "nulpsvc": Golden(_machine(wm.NuLPSVC(nu=0.4)), "three"),
    "max_margin_1": Golden(_machine(wm.MaxMarginClassifier(norm=1, C=10.0))),
    "max_margin_2": Golden(_machine(wm.MaxMarginClassifier(norm=2, C=10.0)), "three"),
    "max_margin_inf": Golden(_machine(wm.MaxMarginClassifier(norm=np.inf, C=10.0))),
    "gp": Golden(_machine(wm.MeanFieldGPClassifier(input_noise=0.5))),
    "gp_rank": Golden(_machine(wm.MeanFieldGPClassifier(rank=4))),
    "gp_three": Golden(_machine(wm.MeanFieldGPClassifier(flip_noise=0.05)), "three"),
    "gp_regression": Golden(_machine(wm.GPRegressor(amplitude=1.0, noise=0.1)), "number"),
    "gp_regression_pivots": Golden(
        _machine(wm.GPRegressor(rank=8, amplitude=1.0, noise=0.1)), "number"
    ),
    "ordinal": Golden(_machine(wm.OrdinalSVC(C=2.0)), "three"),
    "cumulative": Golden(_machine(wm.CumulativeLinkClassifier()), "three"),
    "perceptron": Golden(_machine(wm.PerceptronClassifier(gamma=2.0)), "three"),
    "adaboost": Golden(_machine(wm.AdaBoostClassifier(n_rounds=8))),
    "adaboost_three": Golden(_machine(wm.AdaBoostClassifier(n_rounds=5)), "three"),
    "adaboost_base": Golden(_machine(wm.AdaBoostClassifier(3, base=GaussianNB()))),
    "lp_boost": Golden(_machine(wm.LPBoostClassifier(nu=0.2))),
    "lp_boost_three": Golden(_machine(wm.LPBoostClassifier(nu=0.2)), "three"),
    "rbf_net": Golden(_machine(wm.RBFNetClassifier(n_centres=3, random_state=0)), "three"),
}
