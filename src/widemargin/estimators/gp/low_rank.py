"""Choice of the inducing samples of a low-rank fit, and its latent functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet, require, require_integer
from widemargin.fitted.induced import InducedFunctions, features
from widemargin.kernels import Rows
from widemargin.solvers.mean_field import (
    LeftOutFields,
    LowRankCovariance,
    MeanFieldResult,
    leave_out,
)
from widemargin.solvers.numerics.pivoted_cholesky import INDEFINITE, LowRank

EXACT_ROWS = 5_000  # rank="auto" is exact for at most so many samples
MOST_RANK = 1_000  # of rank="auto"
ROWS_PER_RANK = 8  # the inducing samples are drawn from so many samples each
GOOD = 1e-3  # largest relative error of a variance at which rank="auto" stops
EXACT = 1e-10  # the same where more inducing samples would only add rounding errors
RIDGE = 1e-12  # relative ridge on the kernel matrix of the inducing samples
MATRICES = 1.5  # arrays of the size of the features that a fit holds


def check_rank(rank: Any, kernel: Any, solver: str) -> None:
    """Raise if a rank is not valid, or not possible with the kernel or the solver."""
    if rank is None:
        return
    if not (isinstance(rank, str) and rank == "auto"):
        require_integer("rank", rank, 'None, "auto" or a positive integer')
        fix = '"auto" or "newton" with rank: the others need the whole matrix'
        require(solver in ("auto", "newton"), "solver", solver, fix)
    fix = 'None with kernel="precomputed", which has no values for inducing samples'
    require(not (isinstance(kernel, str) and kernel == "precomputed"), "rank", rank, fix)


def rank_for(rank: Any, n: int, cache_size: float) -> int | None:
    """Return the largest rank of a fit to n samples, None for an exact one; check its memory."""
    if rank is None or (isinstance(rank, str) and n <= EXACT_ROWS):
        return None
    most = int(cache_size * 1e6 / (8 * n * MATRICES))
    if not isinstance(rank, str):
        if most < int(rank):
            raise ValueError(
                f"rank must be at most {most} for {n} samples and cache_size={cache_size!r} "
                f"megabytes; got rank={rank!r}. Raise cache_size if the machine has the memory"
            )
        return min(int(rank), n)
    return max(1, min(MOST_RANK, most))


@dataclass(frozen=True, eq=False)
class Induced:
    """Prior of a low-rank fit.

    Attributes
    ----------
    rows : Rows
        Inducing samples with their kernel.
    offset : float
        Variance of the constant mean.
    whitening : ndarray
        Inverse Cholesky factor of their kernel matrix.
    covariance : LowRankCovariance
        Prior covariance of the training samples.
    rest : ndarray of shape (n,)
        Prior variances that it leaves out, which count as input noise.
    error : float
        Their sum, relative to that of all prior variances.
    """

    rows: Rows
    offset: float
    whitening: FloatArray
    covariance: LowRankCovariance
    rest: FloatArray
    error: float

    def latent(
        self, data: TrainingSet, results: list[MeanFieldResult], noise: float, flips: float
    ) -> tuple[InducedFunctions, list[LeftOutFields]]:
        """Return the latent functions, and the leave-one-out fields of the training samples."""
        V, K = self.covariance.V, self.covariance
        inner, left = [], []
        for result in results:
            posterior = K.factorise(result.precision())
            inner.append(posterior.inverse)
            left.append(leave_out(result, posterior, K))
        functions = InducedFunctions(
            self.rows.X,
            self.rows.kernel,
            self.rows.centre,
            data.index,
            self.offset,
            np.column_stack([V.T @ result.coefficients for result in results]),
            np.column_stack([result.precision() for result in results]),
            noise,
            flips,
            self.whitening,
            np.array(inner),
        )
        return functions, left


def induced(rows: Rows, rank: Any, most: int, offset: float) -> Induced:
    """Choose inducing samples by randomly pivoted Cholesky on a subsample; compute the features."""
    count = min(rows.n, ROWS_PER_RANK * most)
    few = rows.part(np.sort(np.random.default_rng(0).permutation(rows.n)[:count]))
    with worker_threads() as few.threads:
        low = LowRank(few, np.ones(count), min(most, count))
        low.grow(GOOD if isinstance(rank, str) else EXACT)
        chosen = few.part(np.sort(low.pivots))
        K = chosen.block(np.arange(chosen.n), chosen, np.arange(chosen.n))
    largest = float(low.diagonal.max(initial=0.0))
    positive = float(low.rest.min(initial=0.0)) >= -INDEFINITE * largest
    fix = "symmetric and positive semi-definite (widemargin.kernels.is_mercer)"
    require(positive, "the matrix of the kernel", rows.kernel.name, fix)
    K[np.diag_indices_from(K)] += RIDGE * largest
    whitening: FloatArray = np.empty((0, 0))
    if chosen.n:  # none if all samples are zero
        whitening = np.asarray(dtrtri(dpotrf(K, lower=1, clean=1)[0], lower=1)[0], np.float64)
    V = features(rows.kernel, rows.centre, chosen.X, whitening, offset, rows.X)
    covariance, total = LowRankCovariance(V), rows.diagonal() + offset
    rest = np.maximum(total - covariance.diagonal(), 0.0)
    error = float(rest.sum() / (total.sum() or 1.0))
    return Induced(chosen, offset, whitening, covariance, rest, error)
