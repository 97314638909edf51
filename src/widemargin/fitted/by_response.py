"""Probabilities and leave-one-out of Gaussian-process classifiers, by linear response.

Variances, and hence probabilities and leave-one-out, require one factorisation of an n x n matrix
per latent function. The record computes it on first use and caches it in memory; it is not
pickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from widemargin._base.tolerances import EPS
from widemargin._base.typing import BoolArray, FloatArray
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import FittedModel, LeftOutValues, first_in
from widemargin.fitted.calibration import LIMIT
from widemargin.fitted.coupling import against_rest
from widemargin.fitted.latent import LatentFunctions
from widemargin.fitted.record import Record
from widemargin.solvers import mean_field
from widemargin.solvers.mean_field import (
    LeftOutFields,
    MeanFieldResult,
    fit_scale,
)

# Names of held results.
POSTERIOR = "posterior {}"
LEFT_OUT = "left-out fields"
TINY = 1e-300  # lower bound of a variance, so that its square root is not zero

_Kept = TypeVar("_Kept")


@dataclass(frozen=True)
class Reading:
    """Map from a latent function to a probability.

    Attributes
    ----------
    scale : float
        Factor of the latent mean.
    variance : {"posterior", "prior"}
        Variance that standardises the mean, after the input noise is added. The naive mean-field
        theory uses the prior variance, under which the leave-one-out labels are sometimes more
        probable.
    """

    scale: float
    variance: str


# -- new samples ------------------------------------------------------------------------------


def posterior(record: Record, latent: LatentFunctions, k: int, K: FloatArray | None = None) -> Any:
    """Return the factorised posterior of latent function k; K is the kernel matrix if known."""
    return record.held(POSTERIOR.format(k), partial(latent.posterior, k, K))


def keep_posteriors(record: Record, results: list[MeanFieldResult]) -> None:
    """Store the posteriors that the solver has computed, for predictions from memory."""
    for k, result in enumerate(results):
        if result.posterior is not None:
            result.posterior.invert()
            record.held(POSTERIOR.format(k), partial(_same, result.posterior))


def keep_left_out(record: Record, left: list[LeftOutFields]) -> None:
    """Store leave-one-out fields that are known already."""
    record.held(LEFT_OUT, partial(_same, left))


def _same(found: _Kept) -> _Kept:
    return found


def posterior_variances(
    record: Record, latent: LatentFunctions, cross: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return the posterior variances of new samples, one column per latent function.

    `cross` holds the prior covariances of the new samples with the training samples, `prior` the
    prior variances of the new samples.
    """
    each = range(latent.n_functions)
    return np.column_stack([_variance(record, latent, k, cross, prior) for k in each])


def _variance(
    record: Record, latent: LatentFunctions, k: int, cross: FloatArray, prior: FloatArray
) -> FloatArray:
    return np.maximum(prior - posterior(record, latent, k).reduction(cross), 0.0)


def scores(
    record: Record, latent: LatentFunctions, cross: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return the standardised fields of new samples, the arguments of the likelihood."""
    found = latent.mean(cross)
    for k, reading in enumerate(readings(record)):
        by_fit = reading.variance == "posterior"
        variance = _variance(record, latent, k, cross, prior) if by_fit else prior
        # Without noise the variance may vanish; it is only accurate to rounding of the prior.
        spread = np.maximum(variance + latent.input_noise, EPS * prior + TINY)
        found[:, k] *= reading.scale / np.sqrt(spread)
    return found


def probabilities(latent: LatentFunctions, fields: FloatArray) -> FloatArray:
    """Return the class probabilities, given the standardised fields."""
    each = np.clip(latent.likelihood.probability(fields), LIMIT, 1 - LIMIT)
    return against_rest(each, fields)


# -- leave-one-out ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LatentTraining(FittedModel):
    """Fitted Gaussian-process classifier, with leave-one-out by linear response.

    Attributes
    ----------
    latent : LatentFunctions
        The latent functions, for prediction.
    results : list of MeanFieldResult
        The mean-field solution of each latent function.
    calibrate : bool
        Whether latent means are scaled by maximum likelihood of the left-out labels.
    has_choice : bool
        Whether calibration also selects the variance: the naive theory replaces the variance
        without the sample by that of the prior.
    """

    data: TrainingSet
    latent: LatentFunctions
    results: list[MeanFieldResult]
    calibrate: bool
    has_choice: bool

    methods: ClassVar[tuple[str, ...]] = ("linear_response",)
    method_advice: ClassVar[str] = (
        "auto or linear_response: these equations have no solution path, and to train again "
        "without each row would tell little more than Opper and Winther (2000), (8.41)"
    )

    def auto_method(self) -> str:
        """Return "linear_response", the only method."""
        return "linear_response"

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Return the leave-one-out scores of the user's samples, one column per function.

        One factorisation serves all samples, so `chosen` is ignored. Samples of zero weight get
        their fitted scores.
        """
        left, read = self.left_out_fields(record), readings(record)
        triples = zip(self.results, left, read, strict=True)
        own = [r.scale * _standardised(result, out, r.variance) for result, out, r in triples]
        data, latent = self.data, self.latent
        found = np.column_stack(own)[data.member]
        unseen = data.member < 0
        if unseen.any():
            cross, prior = latent.cross(data.outside), latent.prior_variance(data.outside)
            found[unseen] = scores(record, latent, cross, prior)
        return LeftOutValues(found)

    def left_out_fields(self, record: Record) -> list[LeftOutFields]:
        """Return leave-one-out means and variances of the latent functions."""

        def compute() -> list[LeftOutFields]:
            latent = self.latent
            K = latent.covariance(self.data.X)
            found = []
            for k, result in enumerate(self.results):
                own = latent.posterior_at_samples(k, K) or posterior(record, latent, k, K)
                found.append(mean_field.leave_out(result, own, K))
            return found

        return record.held(LEFT_OUT, compute)

    def best_readings(self, record: Record) -> list[Reading]:
        """Fit the map to probabilities of each latent function to its leave-one-out fields."""
        if not self.calibrate:
            return [Reading(1.0, "posterior") for _ in self.results]
        pairs = zip(self.results, self.left_out_fields(record), strict=True)
        return [_best_reading(result, left, self.has_choice) for result, left in pairs]

    def most_suspicious(self, count: int) -> BoolArray:
        """Return a mask of the samples with the largest embedding strengths.

        With flip noise, a wrong label is explained as noise and has a small coefficient; the
        samples with the smallest margins are returned instead.
        """
        data, results = self.data, self.results
        if self.latent.flip_noise > 0:
            size = np.max([-r.problem.label * r.field for r in results], axis=0)
        else:
            size = np.max([np.abs(r.coefficients) / data.weight for r in results], axis=0)
        given = np.append(size, -np.inf)[data.member]
        return first_in(np.argsort(-given, kind="stable"), count)


def readings(record: Record) -> list[Reading]:
    """Return the map to probabilities of each latent function, cached for compact models."""
    purpose = "the scale of probabilities"

    def compute() -> list[Reading]:
        return cast(LatentTraining, record.require(purpose)).best_readings(record)

    return record.cached(purpose, compute)


def _standardised(result: MeanFieldResult, left: LeftOutFields, variance: str) -> FloatArray:
    """Return leave-one-out means divided by their standard deviations, with input noise."""
    problem = result.problem
    spread = left.variance if variance == "posterior" else problem.cavity
    return left.mean / np.sqrt(spread + problem.input_noise)


def _best_reading(result: MeanFieldResult, left: LeftOutFields, has_choice: bool) -> Reading:
    """Return the map of maximum likelihood of the left-out labels."""
    problem = result.problem
    found = []
    for variance in ("posterior", "prior") if has_choice else ("posterior",):
        signed = problem.label * _standardised(result, left, variance)
        scale = fit_scale(signed, problem.weight, problem.likelihood)
        likely = problem.weight @ problem.likelihood.log_probability(scale * signed)
        found.append((float(likely), Reading(scale, variance)))
    return max(found, key=lambda pair: pair[0])[1]
