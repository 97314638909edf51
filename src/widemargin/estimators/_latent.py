"""What a fitted Gaussian-process classifier knows of its latent functions, found when asked.

Fitting solves for the posterior means. Variances, and with them probabilities and leave-one-out,
take one factorisation of an n x n matrix a machine; it is made at the first question and kept as
long as the model is in memory, but not stored with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._threads import worker_threads
from widemargin._typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._validation import TrainingSet
from widemargin.assess.loo import LOOResult
from widemargin.assess.record import Record
from widemargin.estimators._kernel_machine import _same_container
from widemargin.kernels import Rows
from widemargin.solvers.mean_field import (
    LeftOut,
    MeanFieldResult,
    Posterior,
    factorise,
    fit_scale,
    leave_out,
)

TIE = 1e-9  # a left-out field of this size says nothing: far from all rows it is 0 but for rounding
METHOD = "linear_response"
FACTORS = "posterior "  # questions whose answers are large and quickly found again


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


class LatentRecord(Record):
    """The latent functions of a fit: one for two classes, else one a class.

    Parameters
    ----------
    data : TrainingSet
        The training rows.
    rows : Rows
        The same rows seen through the kernel.
    offset : float
        Variance of the constant mean, a constant that is added to the kernel.
    results : list of MeanFieldResult
        The solutions.
    codes : ndarray
        Class of each given row; -1 where its class has no weight.
    calibrate : bool
        Whether fields are scaled to the leave-one-out labels.
    has_choice : bool
        Whether calibration may choose the variance: the naive theory's is k(x, x).
    """

    def __init__(
        self,
        data: TrainingSet,
        rows: Rows,
        offset: float,
        results: list[MeanFieldResult],
        codes: IntArray,
        calibrate: bool,
        has_choice: bool,
    ) -> None:
        super().__init__(None)
        self.X, self.kernel, self.centre = rows.X, rows.kernel, rows.centre
        self.index, self.member, self.outside = data.index, data.member, data.outside
        self.given_weight = data.given_weight
        self.offset, self.results, self.codes = offset, results, codes
        self.calibrate, self.has_choice = calibrate, has_choice

    # -- kernel values ---------------------------------------------------------------------

    def kernel_matrix(self) -> FloatArray:
        """Return k(rows, rows), with the variance of the mean."""
        return kernel_matrix(Rows(self.kernel, self.X, self.centre), self.offset)

    def cross(self, X: Matrix) -> tuple[FloatArray, Callable[[], FloatArray]]:
        """Return k(new rows, rows) and what gives the variances of the new rows before the fit."""
        if self.kernel.name == "precomputed":
            given = np.asarray(X[:, self.index], dtype=np.float64)
            return given + self.offset, lambda: self._constant_diagonal(len(given))
        X, own = _same_container(X, self.X)
        right = Rows(self.kernel, own, self.centre)
        with worker_threads() as threads:
            left = Rows(self.kernel, X, right.centre, threads)
            block = left.block(np.arange(left.n), right, np.arange(right.n))
        found = np.asarray(block, dtype=np.float64)
        found += self.offset
        return found, lambda: left.diagonal() + self.offset

    def _constant_diagonal(self, n: int) -> FloatArray:
        diagonal = np.diagonal(self.X).astype(np.float64)
        if np.ptp(diagonal) > 1e-9 * float(np.abs(diagonal).max()):
            raise ValueError(
                'kernel="precomputed" does not tell k(x, x) of new rows, which their variance '
                "needs, and the diagonal of the training matrix is not constant: pass the kernel "
                "as a function instead"
            )
        return np.full(n, float(diagonal[0]) + self.offset)

    # -- the posterior at new rows -----------------------------------------------------------

    def mean(self, cross: FloatArray) -> FloatArray:
        """Return the posterior means at new rows, a column for each latent function."""
        return cross @ np.column_stack([result.coefficients for result in self.results])

    def variance(self, cross: FloatArray, before: FloatArray) -> FloatArray:
        """Return the posterior variances at new rows, a column for each latent function."""
        reduced = [self.posterior(k).reduction(cross) for k in range(len(self.results))]
        return np.maximum(before[:, None] - np.column_stack(reduced), 0.0)

    def posterior(self, k: int, K: FloatArray | None = None) -> Posterior:
        """Return the factorised posterior of a latent function; K spares a kernel matrix."""

        def find() -> Posterior:
            known = self.kernel_matrix() if K is None else K
            return factorise(known, self.results[k].precision())

        return self.remember_any(f"{FACTORS}{k}", find)

    # -- leave-one-out -----------------------------------------------------------------------

    def left_out(self) -> list[LeftOut]:
        """Return the latent functions at the rows, each fitted without the row."""
        return self.remember_any("left-out fields", self._find_left_out)

    def _find_left_out(self) -> list[LeftOut]:
        K = self.kernel_matrix()
        numbered = enumerate(self.results)
        return [leave_out(result, self.posterior(k, K), K) for k, result in numbered]

    def readings(self) -> list[Reading]:
        """Return how each latent function becomes a probability."""
        return self.remember_any("readings", self._find_readings)

    def _find_readings(self) -> list[Reading]:
        if not self.calibrate:
            return [Reading(1.0, "posterior") for _ in self.results]
        pairs = zip(self.results, self.left_out(), strict=True)
        return [_best_reading(result, left, self.has_choice) for result, left in pairs]

    def scores(self, cross: FloatArray, before: FloatArray) -> FloatArray:
        """Return the fields of new rows whose normal distribution function is the probability."""
        mean, noise = self.mean(cross), self.results[0].problem.input_noise
        for k, reading in enumerate(self.readings()):
            variance = before
            if reading.variance == "posterior":
                variance = np.maximum(before - self.posterior(k).reduction(cross), 0.0)
            mean[:, k] *= reading.scale / np.sqrt(variance + noise)
        return mean

    def left_out_scores(self) -> FloatArray:
        """Return the standardised left-out fields of the given rows, a column a function.

        Rows of weight zero have the values of the fit, which did not see them.
        """
        return self.remember_any("left-out scores", self._find_left_out_scores)

    def _find_left_out_scores(self) -> FloatArray:
        triples = zip(self.results, self.left_out(), self.readings(), strict=True)
        own = [r.scale * _standardised(result, left, r.variance) for result, left, r in triples]
        scores = np.column_stack(own)[self.member]
        unseen = self.member < 0
        if unseen.any():
            scores[unseen] = self._outside_scores()
        return scores

    def _outside_scores(self) -> FloatArray:
        if self.kernel.name == "precomputed":  # its columns are those of the training rows already
            cross = np.asarray(self.outside, dtype=np.float64) + self.offset
            return self.scores(cross, self._constant_diagonal(len(cross)))
        cross, diagonal = self.cross(self.outside)
        return self.scores(cross, diagonal())

    def loo(self) -> LOOResult:
        """Return leave-one-out in the terms of the other machines."""
        started = time.perf_counter()
        scores = self.left_out_scores()
        errors = _errors(scores, self.codes)
        mean = float(self.given_weight @ errors) / float(self.given_weight.sum())
        values = scores[:, 0] if scores.shape[1] == 1 else scores
        cost = {"seconds": time.perf_counter() - started}
        return LOOResult(METHOD, "estimate", mean, errors, values, cost)

    def remember(self, question: str, find: Callable[[Any], Any]) -> Any:
        """Answer what :mod:`widemargin.loo` asks of a record."""
        if question == "loo.result with method 'auto'":
            return METHOD
        if question == f"loo.result with method {METHOD!r}":
            return self.remember_any(question, self.loo)
        return self.require_training(question)

    def require_training(self, question: str) -> Any:
        """Refuse what is for other machines."""
        raise ValueError(
            f"{question} is not for mean-field machines, whose leave-one-out is the linear "
            f'response of Opper and Winther (2000), (8.41): ask for method="{METHOD}" or "auto"'
        )

    def compact(self) -> LatentRecord:
        """Return the record without what can be found again: predicting needs all rows."""
        smaller = object.__new__(LatentRecord)
        smaller.__setstate__(self.__getstate__())
        return smaller

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            state = {name: value for name, value in vars(self).items() if name != "_lock"}
            kept = {q: a for q, a in self.answers.items() if not q.startswith(FACTORS)}
            return {**state, "answers": kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        vars(self).update(state)


def kernel_matrix(rows: Rows, offset: float) -> FloatArray:
    """Return the kernel matrix of the rows plus a constant, in float64."""
    K = np.empty((rows.n, rows.n))
    with worker_threads() as rows.threads:
        rows.fill_symmetric(np.arange(rows.n), K)
        diagonal = rows.diagonal()
    K[np.diag_indices_from(K)] = diagonal  # exact, where the block has rounding errors
    if offset:
        K += offset
    return K


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


def _errors(scores: FloatArray, codes: IntArray) -> BoolArray:
    """Return which given rows are misclassified; ties count as errors."""
    if scores.shape[1] == 1:
        values = scores[:, 0]
        return np.where(codes == 1, values <= TIE, values >= -TIE) | (codes < 0)
    own = np.take_along_axis(scores, np.maximum(codes, 0)[:, None], axis=1)
    rivals = np.count_nonzero(scores >= own - TIE, axis=1)  # the class itself is among them
    return (rivals > 1) | (codes < 0)
