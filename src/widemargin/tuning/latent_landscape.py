"""Tuning objective of Gaussian-process classifiers: leave-one-out log-loss or evidence.

The coordinates and the prior are those of :mod:`widemargin.tuning.landscape`. More than two classes
have one latent function per class (one-vs-rest), all with the same parameters. The loss J is the
mean over them, so that m J is the sum of their log-losses, or of minus their log evidences, where m
is the number of samples times the number of functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from widemargin._base.multiclass import rest_labels
from widemargin._base.typing import FloatArray, IntArray
from widemargin.estimators.gp.fit import is_calibrated
from widemargin.fitted.latent import resolved_mean_variance
from widemargin.kernels import Rows
from widemargin.problems.mean_field import naive
from widemargin.solvers import mean_field
from widemargin.solvers.base import Budget
from widemargin.tuning.landscape import Point, Scale, Slope, Surface, effective_rows
from widemargin.tuning.latent_loss import evidence_loss, left_out_loss
from widemargin.tuning.latent_response import LatentGradient
from widemargin.tuning.setup import Task

NOISE_RANGE = (-10.0, 7.0)
MEAN_RANGE = (-7.0, 7.0)
SMALLEST_GAMMA = 1e-300  # one gamma per feature may be 0
FLIP_UNIT = 0.01
MOST_FLIPS = 0.45
FIRST_FLIPS = 0.02
TOL = 1e-8  # residual of the equations; small, since the gradient assumes an exact solution
SOLVED = 1e-6  # residual above which the equations count as not solved


@dataclass
class LatentLandscape(Surface):
    """Tuning objective of Gaussian-process classifiers.

    Attributes
    ----------
    labels : list of ndarray
        Labels -1 and +1 of each latent function.
    weight : ndarray of shape (n,)
        Sample weights, those of equal samples added up.
    mean_variance : "auto" or float
        Prior variance of the constant mean, where it is not a coordinate.
    inference : {"naive", "tap", "ep"}
        Mean-field theory. TAP and EP have the same solution.
    criterion : {"loo", "evidence"}
        The loss.
    calibrate : bool
        Whether leave-one-out fields are scaled by maximum likelihood of the labels.
    """

    labels: list[FloatArray]
    weight: FloatArray
    mean_variance: Any
    inference: str
    criterion: str
    calibrate: bool
    cauchy_width: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        self.n_rows = effective_rows([self.weight] * len(self.labels))

    def evaluate(self, values: dict[str, float], theta: FloatArray) -> Slope:
        """Return the mean loss over the latent functions; infinite if one is not solved."""
        bare = self.path.kernel(theta)
        setting = values.get("mean_variance", self.mean_variance)
        offset = resolved_mean_variance(setting, bare.diagonal(), self.weight)
        K = bare + offset if offset else bare
        share = 1.0 / len(self.labels)
        loss, by_theta = 0.0, np.zeros(self.path.size)
        by_value = dict.fromkeys(values, 0.0)
        for label in self.labels:
            try:
                part = self._function_loss(K, label, values)
            except (FloatingPointError, np.linalg.LinAlgError):
                part = None
            if part is None or not np.isfinite(part.loss):
                return Slope(np.inf, by_value, np.zeros(self.path.size))
            loss += share * part.loss
            by_value["input_noise"] += share * part.by_input_noise
            by_value["flip_noise"] += share * part.by_flip_noise
            if "mean_variance" in values:
                by_value["mean_variance"] += share * part.by_constant()
            elif setting == "auto":
                part = self._with_mean(part)
            by_theta += share * self.path.gradient(theta, bare, None, part)
        return Slope(loss, by_value, by_theta)

    def _with_mean(self, part: LatentGradient) -> LatentGradient:
        """Add the derivative with respect to the diagonal whose mean is the mean's variance."""
        factor = part.factor.copy()
        factor[np.diag_indices_from(factor)] += part.by_constant() * self.weight / self.weight.sum()
        return replace(part, factor=factor)

    def _function_loss(
        self, K: FloatArray, label: FloatArray, values: dict[str, float]
    ) -> LatentGradient | None:
        """Return the loss of one latent function; None if its equations are not solved."""
        problem = naive(
            label, self.weight, np.diagonal(K).copy(), values["input_noise"], values["flip_noise"]
        )
        # The rounds of TAP are faster than sweeps, but may ignore samples of weight below 1.
        by_sweeps = self.inference != "naive" and float(self.weight.min()) < 1
        method = "sweeps" if by_sweeps else "auto"
        result = mean_field.solve(
            problem, K, tol=TOL, budget=Budget(-1), method=method, inference=self.inference
        )
        if result.residual > SOLVED:
            return None
        self_consistent = self.inference != "naive"
        if self.criterion == "evidence":
            return evidence_loss(K, result, self_consistent=self_consistent)
        return left_out_loss(K, result, self_consistent=self_consistent, calibrate=self.calibrate)


class LatentTask(Task):
    """Validated tuning request for a Gaussian-process classifier."""

    most_rows = 1_000  # every sample is a support vector
    coarse_rows = 400
    advice = 'give starts with a larger input_noise, or use inference="naive"'

    def given(self, landscape: Surface) -> tuple[dict[str, float], FloatArray]:
        """Return the parameters by name and log gamma, with the values of the estimator."""
        values = dict(landscape.fixed)
        if "mean_variance" in values:
            diagonal = Rows(self.kernel, self.data.X).diagonal()
            setting = self.model.mean_variance
            values["mean_variance"] = resolved_mean_variance(setting, diagonal, self.data.weight)
        if landscape.path.separate:  # the search starts from the values of a kernel object
            return values, landscape.base
        gamma = np.maximum(np.asarray(self.kernel.gamma, dtype=np.float64), SMALLEST_GAMMA)
        return values, np.log(gamma) + np.zeros(landscape.path.size)

    def landscape(self, rows: IntArray, observe: Callable[[Point], None]) -> LatentLandscape:
        """Return the objective on a subsample."""
        model = self.model
        path, base = self.path(rows)
        # Use the mean, as the variance of a zero sample may vanish under a polynomial kernel.
        unit = float(path.kernel(base).diagonal().mean()) or 1.0  # zero if all samples are zero
        flips = (0.0, float(np.log1p(MOST_FLIPS / FLIP_UNIT)))
        first = float(np.log1p(FIRST_FLIPS / FLIP_UNIT))
        scales = [
            Scale("input_noise", unit, NOISE_RANGE),
            Scale("flip_noise", FLIP_UNIT, flips, shift=1.0, start=first),
            Scale("mean_variance", unit, MEAN_RANGE),
        ]
        fixed = {"input_noise": float(model.input_noise), "flip_noise": float(model.flip_noise)}
        if "mean_variance" in self.names:
            fixed["mean_variance"] = unit
        return LatentLandscape(
            path,
            base,
            [scale for scale in scales if scale.name in self.names],
            fixed,
            self.prior,
            observe,
            rest_labels(self.codes[rows], len(self.factors)),
            self.data.weight[rows],
            model.mean_variance,
            model.inference,
            self.criterion,
            is_calibrated(model.calibrate, model.inference),
        )
