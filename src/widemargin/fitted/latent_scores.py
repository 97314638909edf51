"""Scores of latent functions, left-out ones too, and how they are read as probabilities.

Variances, and with them probabilities and leave-one-out, take one factorisation of an n x n matrix
a function. It is made at the first question and held by the record as long as the model is in
memory, but not stored with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.fitted.calibration import LIMIT
from widemargin.fitted.coupling import against_rest
from widemargin.fitted.latent import LatentFunctions, LatentTraining
from widemargin.fitted.record import KeptTraining, Record
from widemargin.solvers.mean_field import (
    LeftOut,
    MeanFieldResult,
    Posterior,
    factorise,
    fit_scale,
    leave_out,
)

ROUNDING = float(np.finfo(np.float64).eps)  # of a variance, in units of the prior one
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

    return record.hold(f"posterior {k}", find)


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
        spread = np.maximum(variance + latent.input_noise, ROUNDING * prior + TINY)
        found[:, k] *= reading.scale / np.sqrt(spread)
    return found


def probabilities(latent: LatentFunctions, fields: FloatArray) -> FloatArray:
    """Turn the scores of the functions into probabilities of the classes."""
    each = np.clip(latent.likelihood.probability(fields), LIMIT, 1 - LIMIT)
    return against_rest(each, fields)


# -- leave-one-out ----------------------------------------------------------------------------


def readings(record: Record) -> list[Reading]:
    """Return how each function becomes a probability, by its left-out fields."""

    def find(training: KeptTraining) -> list[Reading]:
        assert isinstance(training, LatentTraining)
        if not training.calibrate:
            return [Reading(1.0, "posterior") for _ in training.results]
        pairs = zip(training.results, left_out_fields(record, training), strict=True)
        return [_best_reading(result, left, training.has_choice) for result, left in pairs]

    return record.remember_kept("the scale of probabilities", find)


def left_out_fields(record: Record, training: LatentTraining) -> list[LeftOut]:
    """Return the functions at the rows, each fitted without the row."""

    def find() -> list[LeftOut]:
        latent = training.latent
        K = latent.kernel_matrix()
        numbered = enumerate(training.results)
        return [leave_out(result, posterior(record, latent, k, K), K) for k, result in numbered]

    return record.hold("left-out fields", find)


def left_out_scores(record: Record, training: LatentTraining) -> FloatArray:
    """Return the scores of the user's rows without them, a column for each function.

    Rows of weight zero have the values of the fit, which did not see them.
    """
    left, read = left_out_fields(record, training), readings(record)
    triples = zip(training.results, left, read, strict=True)
    own = [r.scale * _standardised(result, out, r.variance) for result, out, r in triples]
    data, latent = training.data, training.latent
    found = np.column_stack(own)[data.member]
    unseen = data.member < 0
    if unseen.any():
        cross, prior = latent.cross(data.outside), latent.prior_variance(data.outside)
        found[unseen] = scores(record, latent, cross, prior)
    return found


def _standardised(result: MeanFieldResult, left: LeftOut, variance: str) -> FloatArray:
    """Return the left-out means over their standard deviation, input noise included."""
    problem = result.problem
    spread = left.variance if variance == "posterior" else problem.cavity
    return left.mean / np.sqrt(spread + problem.input_noise)


def _best_reading(result: MeanFieldResult, left: LeftOut, has_choice: bool) -> Reading:
    """Return the reading under which the left-out labels are most probable."""
    problem = result.problem
    found = []
    for variance in ("posterior", "prior") if has_choice else ("posterior",):
        signed = problem.label * _standardised(result, left, variance)
        scale = fit_scale(signed, problem.weight, problem.likelihood)
        likely = problem.weight @ problem.likelihood.log_probability(scale * signed)
        found.append((float(likely), Reading(scale, variance)))
    return max(found, key=lambda pair: pair[0])[1]
