"""Gaussian-process classifiers: scores and probabilities, left-out ones by linear response.

Variances, and with them probabilities and leave-one-out, take one factorisation of an n x n matrix
per function. It is made when it is first needed and held by the record as long as the model is in
memory, but not stored with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

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
    Posterior,
    factorise,
    fit_scale,
)

TINY = 1e-300  # a variance whose root is a number


@dataclass(frozen=True)
class Reading:
    """How a latent function is read as a probability.

    Attributes
    ----------
    scale : float
        Factor of the latent mean.
    variance : {"posterior", "prior"}
        Which variance, plus the input noise, the mean is divided by the square root of. The naive
        theory knows a row's variance before the fit only, and at times that is the better guide.
    """

    scale: float
    variance: str


# -- new rows ---------------------------------------------------------------------------------


def posterior(
    record: Record, latent: LatentFunctions, k: int, K: FloatArray | None = None
) -> Posterior:
    """Return the factorised posterior of a function; K spares the computation of the matrix."""

    def find() -> Posterior:
        return factorise(latent.kernel_matrix() if K is None else K, latent.precision[:, k])

    return record.held(f"posterior {k}", find)


def posterior_variances(
    record: Record, latent: LatentFunctions, cross: FloatArray, prior: FloatArray
) -> FloatArray:
    """Return the variances of new rows, a column for each function.

    `cross` are the covariances of the new rows with the training rows, `prior` their variances
    before the fit.
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
    """Return the fields of new rows whose normal distribution function is the probability."""
    found = latent.mean(cross)
    for k, reading in enumerate(readings(record)):
        by_fit = reading.variance == "posterior"
        variance = _variance(record, latent, k, cross, prior) if by_fit else prior
        # Without noise there may be no variance: none is known better than to rounding.
        spread = np.maximum(variance + latent.input_noise, EPS * prior + TINY)
        found[:, k] *= reading.scale / np.sqrt(spread)
    return found


def probabilities(latent: LatentFunctions, fields: FloatArray) -> FloatArray:
    """Turn the scores of the functions into probabilities of the classes."""
    each = np.clip(latent.likelihood.probability(fields), LIMIT, 1 - LIMIT)
    return against_rest(each, fields)


# -- leave-one-out ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LatentTraining(FittedModel):
    """A fit of latent functions, as leave-one-out needs it.

    Attributes
    ----------
    latent : LatentFunctions
        What prediction needs.
    results : list of MeanFieldResult
        The solution for each function.
    calibrate : bool
        Whether means are scaled to the left-out labels.
    has_choice : bool
        Whether calibration may choose the variance: the naive theory takes that of the prior for
        the one that a row has without itself.
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
        """Return the only method there is."""
        return "linear_response"

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Return the scores of the user's samples without them, a column per function.

        One factorisation leaves out all samples alike. Those of weight zero have the values of
        the fit, which did not see them.
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
        """Return the functions at the rows, each fitted without the row."""

        def compute() -> list[LeftOutFields]:
            K = self.latent.kernel_matrix()
            return [
                mean_field.leave_out(result, posterior(record, self.latent, k, K), K)
                for k, result in enumerate(self.results)
            ]

        return record.held("left-out fields", compute)

    def best_readings(self, record: Record) -> list[Reading]:
        """Return how each function becomes a probability, by its left-out fields."""
        if not self.calibrate:
            return [Reading(1.0, "posterior") for _ in self.results]
        pairs = zip(self.results, self.left_out_fields(record), strict=True)
        return [_best_reading(result, left, self.has_choice) for result, left in pairs]

    def most_suspicious(self, count: int) -> BoolArray:
        """Mark the samples with the largest embedding strengths.

        Flip noise treats a wrong label as noise instead of fitting it: there, those with the least
        margin.
        """
        data, results = self.data, self.results
        if self.latent.flip_noise > 0:
            size = np.max([-r.problem.label * r.field for r in results], axis=0)
        else:
            size = np.max([np.abs(r.coefficients) / data.weight for r in results], axis=0)
        given = np.append(size, -np.inf)[data.member]
        return first_in(np.argsort(-given, kind="stable"), count)


def readings(record: Record) -> list[Reading]:
    """Return how each function becomes a probability; a compact model knows it."""
    purpose = "the scale of probabilities"

    def compute() -> list[Reading]:
        return cast(LatentTraining, record.require(purpose)).best_readings(record)

    return record.cached(purpose, compute)


def _standardised(result: MeanFieldResult, left: LeftOutFields, variance: str) -> FloatArray:
    """Return the left-out means over their standard deviation, input noise included."""
    problem = result.problem
    spread = left.variance if variance == "posterior" else problem.cavity
    return left.mean / np.sqrt(spread + problem.input_noise)


def _best_reading(result: MeanFieldResult, left: LeftOutFields, has_choice: bool) -> Reading:
    """Return the reading under which the left-out labels are most probable."""
    problem = result.problem
    found = []
    for variance in ("posterior", "prior") if has_choice else ("posterior",):
        signed = problem.label * _standardised(result, left, variance)
        scale = fit_scale(signed, problem.weight, problem.likelihood)
        likely = problem.weight @ problem.likelihood.log_probability(scale * signed)
        found.append((float(likely), Reading(scale, variance)))
    return max(found, key=lambda pair: pair[0])[1]
