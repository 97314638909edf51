"""Tuning objective of Gaussian-process regression: leave-one-out log density or evidence.

The coordinates and the prior are those of :mod:`widemargin.tuning.landscape`, with two scalar
parameters: log a - log a_0 and log s - log s_0, where a_0 is the variance of the targets divided by
the mean of k(x, x), and s_0 a tenth of the variance of the targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.gp_regression import GPRegression
from widemargin.tuning.landscape import Point, Scale, Slope, Surface, effective_rows
from widemargin.tuning.regression.loss import evidence_loss, left_out_loss
from widemargin.tuning.setup import Task

AMPLITUDE_RANGE = (-9.0, 12.0)
NOISE_RANGE = (-16.0, 5.0)
NOISE_SHARE = 0.1


@dataclass
class RegressionLandscape(Surface):
    """Tuning objective of Gaussian-process regression.

    Attributes
    ----------
    target, weight : ndarray of shape (n,)
        Targets and sample weights.
    mean_variance : float
        Prior variance of the constant mean.
    criterion : {"loo", "evidence"}
        The loss.
    """

    target: FloatArray
    weight: FloatArray
    mean_variance: float
    criterion: str

    def __post_init__(self) -> None:
        self.n_rows = effective_rows([self.weight])

    def evaluate(self, values: dict[str, float], theta: FloatArray) -> Slope:
        """Return the loss and its derivatives; infinite if the matrix is not positive definite."""
        K = self.path.kernel(theta)
        amplitude, noise = values["amplitude"], values["noise"]
        problem = GPRegression(self.target, self.weight, amplitude, noise, self.mean_variance)
        loss = evidence_loss if self.criterion == "evidence" else left_out_loss
        try:
            found = loss(problem, K)
        except np.linalg.LinAlgError:
            found = None
        if found is None or not np.isfinite(found.loss):
            return Slope(np.inf, dict.fromkeys(values, 0.0), np.zeros(self.path.size))
        by_value = {
            "amplitude": found.by_amplitude / amplitude,
            "noise": found.by_noise / noise,
        }
        return Slope(found.loss, by_value, self.path.gradient(theta, K, None, found))


class RegressionTask(Task):
    """Validated tuning request for Gaussian-process regression."""

    most_rows = 1_000  # one evaluation takes about 0.2 s
    coarse_rows = 400
    numeric = True
    advice = "give starts with a larger noise"

    def read_targets(self) -> None:
        """Real-valued targets need no preparation."""

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw a random subsample of at most `size` samples."""
        n = len(self.data.y)
        return np.arange(n) if n <= size else np.sort(rng.permutation(n)[:size])

    def landscape(self, rows: IntArray, observe: Callable[[Point], None]) -> RegressionLandscape:
        """Return the objective on a subsample."""
        model, data = self.model, self.data
        path, base = self.path(rows)
        share = data.weight / data.weight.sum()
        spread = float(share @ (data.y - share @ data.y) ** 2)
        spread = spread or float(share @ data.y**2) or 1.0  # constant targets have no scale
        unit = spread / (float(path.kernel(base).diagonal().mean()) or 1.0)
        scales = [
            Scale("amplitude", unit, AMPLITUDE_RANGE),
            Scale("noise", NOISE_SHARE * spread, NOISE_RANGE),
        ]
        flat = isinstance(model.mean_variance, str)
        return RegressionLandscape(
            path,
            base,
            [scale for scale in scales if scale.name in self.names],
            {scale.name: _number(getattr(model, scale.name), scale.unit) for scale in scales},
            self.prior,
            observe,
            data.y[rows],
            data.weight[rows],
            np.inf if flat else float(model.mean_variance),
            self.criterion,
        )


def _number(value: Any, instead: float) -> float:
    """Return the value of a hyperparameter, or a number that is not used if it is "auto"."""
    return instead if isinstance(value, str) else float(value)
