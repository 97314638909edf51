r"""Low-rank approximation of a kernel matrix by randomly pivoted Cholesky.

The columns of K at r pivots, orthogonalised, give :math:`K = V V' + R` with R positive
semi-definite, so that :math:`|R_{ij}| \le \sqrt{R_{ii} R_{jj}}`: the diagonal of R, which is known
exactly, bounds the whole error. Smooth kernels of few features need a few hundred columns,
independently of the number of samples. The approximations are nested: the first s columns are that
of rank s, and columns can be added at any time.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels import Rows

BLOCK = 96  # candidates for pivots that are drawn together
WORTH_IT = 0.1  # smallest remainder of an accepted candidate, relative to the largest of its block
SAMPLE = 800  # subsample size for the estimate of the rank
INDEFINITE = 1e-8  # a remainder below minus this, relative to the diagonal, exceeds rounding errors


class LowRank:
    """Low-rank approximation diag(y) K diag(y) ~ V V' plus a diagonal, extended on demand.

    y holds the labels (signs) of the samples; V has at most max_rank columns, with random pivots.

    Attributes
    ----------
    rank : int
        Number of columns so far.
    pivots : ndarray of shape (rank,)
        The samples of the columns.
    rest : ndarray of shape (n,)
        Diagonal of the error K - V V', exact.
    exhausted : bool
        Whether `max_rank` columns were not enough, or the kernel is not positive semi-definite.
    remainder : float
        Largest entry of `rest`, relative to the largest k(x_i, x_i); infinite if the kernel is not
        positive semi-definite.
    """

    def __init__(self, rows: Rows, y: FloatArray, max_rank: int) -> None:
        self.rows, self.y, self.max_rank = rows, y, max_rank
        self.rng = np.random.default_rng(0)
        self.diagonal = rows.diagonal()
        self.scale = float(self.diagonal.max(initial=0.0))
        self.rest = self.diagonal.copy()
        self.rank = 0
        self.pivots = np.empty(0, dtype=np.intp)
        self.exhausted = False
        self.columns = np.empty((rows.n, min(max_rank, 4 * BLOCK)))

    @property
    def V(self) -> FloatArray:
        """Factor V of shape (n, rank), a view."""
        return self.columns[:, : self.rank]

    @property
    def remainder(self) -> float:
        """Largest relative error of a diagonal entry."""
        if self.scale <= 0 or self.rest.min() < -INDEFINITE * self.scale:
            return np.inf
        return float(self.rest.max()) / self.scale

    def grow(self, remainder: float) -> bool:
        """Add columns until the relative `remainder` is reached; return whether it was.

        Pivots are drawn in blocks, with probabilities proportional to `rest`, and those are
        accepted that the other pivots of the block do not approximate well (Epperly, Tropp and
        Webber, 2024): all work is products of matrices, and no two pivots are nearly equal.
        """
        while not self.exhausted and self.remainder > remainder:
            if np.isinf(self.remainder) or self.rank >= self.max_rank:
                self.exhausted = True
            else:
                self._add(self._pivots()[: self.max_rank - self.rank])
        return not self.exhausted

    def _add(self, chosen: IntArray) -> None:
        """Orthogonalise the columns of K at some pivots against V and append them."""
        first, self.rank = self.rank, self.rank + len(chosen)
        old = self.columns[:, :first]
        if self.rank > self.columns.shape[1]:
            room = np.empty((self.rows.n, min(self.max_rank, 2 * self.columns.shape[1])))
            room[:, :first] = old
            self.columns, old = room, room[:, :first]
        new = self.rows.block(np.arange(self.rows.n), self.rows, chosen)
        new *= self.y[:, None] * self.y[chosen]
        new -= old @ old[chosen].T
        block = new[chosen]
        ridge = 1e-14 * float(np.diagonal(block).max())  # rounding may make the block indefinite
        factor = np.linalg.cholesky(block + ridge * np.eye(len(block)))
        inverse = solve_triangular(factor, np.eye(len(block)), lower=True, check_finite=False)
        new = new @ inverse.T
        self.columns[:, first : self.rank] = new
        self.pivots = np.append(self.pivots, chosen)
        self.rest -= np.einsum("ij,ij->i", new, new)

    def _pivots(self) -> IntArray:
        """Draw candidates with probability ~ `rest` and select pivots among them."""
        odds = np.maximum(self.rest, 0.0).cumsum()
        drawn = np.searchsorted(odds, odds[-1] * self.rng.random(BLOCK))
        # The sample of largest error is always a candidate, since it determines `remainder`.
        candidates = np.unique(np.append(drawn, np.argmax(self.rest)))
        candidates = candidates[candidates < self.rows.n]
        block = self.rows.block(candidates, self.rows, candidates)
        block *= self.y[candidates, None] * self.y[candidates]
        return candidates[_explained_least(block - self.V[candidates] @ self.V[candidates].T)]


def _explained_least(block: FloatArray) -> IntArray:
    """Select pivots of a small matrix greedily by remainder, down to a fraction of the largest."""
    rest = np.diagonal(block).copy()
    least = WORTH_IT * rest.max()
    factor = np.zeros(block.shape)
    taken: list[int] = []
    while len(taken) < len(block):
        best = int(np.argmax(rest))
        if taken and rest[best] <= least:
            break
        k = len(taken)
        column = block[:, best] - factor[:, :k] @ factor[best, :k]
        column /= np.sqrt(max(column[best], np.finfo(float).tiny))
        factor[:, k] = column
        rest -= column**2
        rest[best] = -np.inf
        taken.append(best)
    return np.array(taken, dtype=np.intp)


def rank_estimate(rows: Rows, remainder: float) -> int:
    """Estimate the rank needed for a relative remainder from a subsample.

    Smooth kernels need hardly more columns for all samples than for a subsample. If more than half
    of the subsample would be needed, return n: the kernel matrix does not have low rank.
    """
    n = rows.n
    sample = np.random.default_rng(0).permutation(n)[: min(n, SAMPLE)]
    some = rows.X[sample]
    if rows.kernel.name == "precomputed":
        some = some[:, sample]
    few = Rows(rows.kernel, some, rows.centre, rows.threads)
    low = LowRank(few, np.ones(len(sample)), max(1, len(sample) // 2))
    enough = low.grow(remainder)
    rows.evaluations += few.evaluations
    return low.rank if enough else n
