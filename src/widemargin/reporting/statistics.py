"""Statistics of a report: confidence intervals, calibration bins, projection to a plane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from widemargin._base.typing import BoolArray, FloatArray

NORMAL = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


def wilson(wrong: float, n: float) -> tuple[float, float]:
    """Return the Wilson 95 % confidence interval of a rate over n independent samples."""
    if n <= 0:
        return 0.0, 1.0
    rate, z2 = wrong / n, NORMAL**2
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def normal(errors: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the normal 95 % confidence interval of a weighted mean, clipped at 0."""
    mean = float(np.average(errors, weights=weight))
    variance = float(np.average((errors - mean) ** 2, weights=weight))
    half = NORMAL * math.sqrt(variance / max(effective_rows(weight) - 1, 1.0))
    return max(0.0, mean - half), mean + half


def effective_rows(weight: FloatArray) -> float:
    """Return the effective sample size of weighted samples."""
    return float(weight.sum() ** 2 / np.sum(weight**2))


def median_error(y: FloatArray, weight: FloatArray) -> float:
    """Return the mean absolute deviation from the median: the error of the best constant."""
    order = np.argsort(y, kind="stable")
    below = np.cumsum(weight[order])
    median = y[order][np.searchsorted(below, below[-1] / 2)]
    return float(np.average(np.abs(y - median), weights=weight))


def reliability(probability: FloatArray, happened: BoolArray, n_bins: int) -> list[dict[str, Any]]:
    """Compare predicted probabilities with observed frequencies, in bins of equal size."""
    order = np.argsort(probability, kind="stable")
    found = []
    for part in np.array_split(order, min(n_bins, len(order))):
        times = int(np.count_nonzero(happened[part]))
        low, high = wilson(times, len(part))
        found.append(
            {
                "forecast": float(probability[part].mean()),
                "observed": times / len(part),
                "low": low,
                "high": high,
                "rows": len(part),
            }
        )
    return found


def plane(X: FloatArray, names: list[str]) -> tuple[FloatArray, list[str], float]:
    """Return two coordinates of each sample, their names, and the explained share of variance.

    Up to two features are used as they are; more are projected to the first two principal
    components.
    """
    if X.shape[1] == 1:
        return np.column_stack([X[:, 0], np.zeros(len(X))]), [names[0], ""], 1.0
    if X.shape[1] == 2:
        return X.copy(), names, 1.0
    centred = X - X.mean(axis=0)
    # Both Gram matrices have the same nonzero eigenvalues: decompose the smaller one.
    if X.shape[1] <= len(X):
        values, vectors = np.linalg.eigh(centred.T @ centred)
        first = vectors[:, ::-1][:, :2]
    else:
        values, vectors = np.linalg.eigh(centred @ centred.T)
        first = centred.T @ vectors[:, ::-1][:, :2]
        first /= np.maximum(np.linalg.norm(first, axis=0), np.finfo(float).tiny)
    share = float(values[-2:].sum() / max(values.sum(), np.finfo(float).tiny))
    # The sign of a component is arbitrary: make its largest entry positive.
    largest = first[np.abs(first).argmax(axis=0), [0, 1]]
    first = first * np.where(largest < 0, -1.0, 1.0)
    return centred @ first, ["first principal component", "second principal component"], share
