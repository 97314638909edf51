r"""Approximate a kernel matrix by V V' plus a diagonal: pivoted Cholesky on a few columns.

Pivoted Cholesky: the columns of r rows, orthogonalised, give :math:`K = V V' + R` with R positive
semi-definite, so that :math:`|R_{ij}| \le \sqrt{R_{ii} R_{jj}}` and the diagonal of R, which is
known exactly, bounds all of it. Smooth kernels of few features need a few hundred columns, however
many rows there are. The columns are nested: the first s of them are the answer for rank s, and
more can be added at any time.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from widemargin._base.typing import FloatArray, IntArray
from widemargin.kernels import Rows

BLOCK = 96  # candidates for pivots that are looked at together
WORTH_IT = 0.1  # a candidate is taken if it still has this share of the block's largest remainder
SAMPLE = 800  # rows from which the rank is estimated
INDEFINITE = 1e-8  # a remainder below minus this, relative to the diagonal, is not rounding


class LowRank:
    """diag(y) K diag(y) ~ V V' + a diagonal, as accurate as was asked for so far.

    y holds the signs of the rows of V; at most max_rank columns are used, whose pivots are drawn.

    Attributes
    ----------
    rank : int
        Columns so far.
    rest : ndarray of shape (n,)
        What V V' lacks of the diagonal, exactly.
    exhausted : bool
        Whether `max_rank` columns were not enough, or the kernel is not positive semi-definite.
    remainder : float
        The largest of `rest`, relative to the largest k(x_i, x_i); infinite if the kernel is not
        positive semi-definite.
    """

    def __init__(self, rows: Rows, y: FloatArray, max_rank: int) -> None:
        self.rows, self.y, self.max_rank = rows, y, max_rank
        self.rng = np.random.default_rng(0)
        self.diagonal = rows.diagonal()
        self.scale = float(self.diagonal.max(initial=0.0))
        self.rest = self.diagonal.copy()
        self.rank = 0
        self.exhausted = False
        self.columns = np.empty((rows.n, min(max_rank, 4 * BLOCK)))

    @property
    def V(self) -> FloatArray:
        """The factor, of shape (n, rank); a view."""
        return self.columns[:, : self.rank]

    @property
    def remainder(self) -> float:
        """What V V' lacks, at most."""
        if self.scale <= 0 or self.rest.min() < -INDEFINITE * self.scale:
            return np.inf
        return float(self.rest.max()) / self.scale

    def grow(self, remainder: float) -> bool:
        """Add columns until no remainder exceeds this share of the largest k(x_i, x_i).

        Pivots are drawn in blocks, with the remainder as probability, and those kept that the
        others of the block do not explain (Epperly, Tropp and Webber, 2024): all work is products
        of matrices, and no two pivots are close to each other. Returns whether the remainder was
        reached.
        """
        while not self.exhausted and self.remainder > remainder:
            if np.isinf(self.remainder) or self.rank >= self.max_rank:
                self.exhausted = True
            else:
                self._add(self._pivots()[: self.max_rank - self.rank])
        return not self.exhausted

    def _add(self, chosen: IntArray) -> None:
        """Orthogonalise the columns of some rows against those at hand, and append them."""
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
        ridge = 1e-14 * float(np.diagonal(block).max())  # definite but for rounding
        factor = np.linalg.cholesky(block + ridge * np.eye(len(block)))
        inverse = solve_triangular(factor, np.eye(len(block)), lower=True, check_finite=False)
        new = new @ inverse.T
        self.columns[:, first : self.rank] = new
        self.rest -= np.einsum("ij,ij->i", new, new)

    def _pivots(self) -> IntArray:
        """Draw candidates by their remainder and keep those that the others do not explain."""
        odds = np.maximum(self.rest, 0.0).cumsum()
        drawn = np.searchsorted(odds, odds[-1] * self.rng.random(BLOCK))
        candidates = np.unique(np.append(drawn, np.argmax(self.rest)))
        candidates = candidates[candidates < self.rows.n]
        block = self.rows.block(candidates, self.rows, candidates)
        block *= self.y[candidates, None] * self.y[candidates]
        return candidates[_explained_least(block - self.V[candidates] @ self.V[candidates].T)]


def _explained_least(block: FloatArray) -> IntArray:
    """Return pivots of a small matrix, largest remainder first, as long as they are worth it."""
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
    """Estimate how many columns a remainder needs, from a sample of the rows.

    Smooth kernels need hardly more columns for all rows than for the sample. Where more than half
    of the sample is needed, the answer is n: the kernel has no small rank.
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
