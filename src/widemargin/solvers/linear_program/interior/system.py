r"""Solve the Newton systems of the interior-point method with a low-rank kernel.

Each step requires (a, z) with

.. math::

    G z - D_2 a = r_2, \qquad G a + D_1 z = r_1,

D_1 and D_2 positive and diagonal. With :math:`G = B B' + H`, H diagonal, each sample has a 2 x 2
block [[-D_2, h], [h, D_1]], and the blocks are coupled only through the r-vectors B'a and B'z:

.. math::

    \begin{pmatrix} S_2 & I + S_{12} \\ I + S_{12} & -S_1 \end{pmatrix}
    \begin{pmatrix} B'a \\ B'z \end{pmatrix} = \ldots, \qquad
    S_1 = B' \frac{D_1}{\Delta} B,\; S_2 = B' \frac{D_2}{\Delta} B,\;
    S_{12} = B' \frac{H}{\Delta} B,\; \Delta = D_1 D_2 + H^2.

That costs three symmetric products, 3 n r^2, and an LU factorisation of order 2r. Eliminating a
alone (normal equations) would square the condition number, which the last steps do not tolerate.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dgetrf, dgetrs

from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray
from widemargin.solvers.numerics.pivoted_cholesky import LowRank

PARTS = 2  # fixed number of blocks of samples: sums do not depend on the number of threads
REFINEMENTS = 3  # most steps of iterative refinement per solve
ACCURATE = 1e-10  # relative residual below which refinement stops


Factors: TypeAlias = tuple[FloatArray, IntArray]


def factored(M: FloatArray) -> Factors:
    """Return the LU factors of a square matrix; raise LinAlgError if it is singular.

    Calls LAPACK directly, because `scipy.linalg.lu_factor` only warns about a singular matrix.
    """
    factors, pivots, info = dgetrf(M)
    if info != 0:
        raise LinAlgError("the system is singular")
    return factors, pivots


def solved(factors: Factors, right: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Solve a linear system, given the LU factors of its matrix."""
    return np.asarray(dgetrs(*factors, right, trans=int(transposed))[0])


class LowRankSystem:
    """Newton systems with G = B B' + H, B the low-rank factor of the signed kernel matrix."""

    def __init__(self, low: LowRank, shift: FloatArray, threads: int) -> None:
        self.low, self.shift, self.threads = low, shift, threads
        self.refresh()

    def refresh(self) -> None:
        """Update B and H after columns were added to the low-rank factor."""
        self.B = self.low.V
        rest = np.maximum(self.low.rest, 0.0)
        # A remainder at rounding level is noise; as part of H it would act like a diagonal.
        self.h = np.where(rest > 1e-14 * self.low.scale, rest, 0.0) - self.shift

    def product(self, v: FloatArray) -> FloatArray:
        """Return G v."""
        return np.asarray(self.B @ (self.B.T @ v) + self.h * v)

    def factor(self, D1: FloatArray, D2: FloatArray) -> None:
        """Compute and factorise the matrix of order 2r for the diagonals D1 and D2."""
        self.D1, self.D2, self.accurate = D1, D2, False
        determinant = D1 * D2 + self.h**2
        self.of_a, self.of_z = D1 / determinant, D2 / determinant
        self.of_both = self.h / determinant
        rank = self.B.shape[1]
        S1, S2, S12 = self._grams()
        core = np.empty((2 * rank, 2 * rank))
        core[:rank, :rank], core[rank:, rank:] = S2, -S1
        S12[np.diag_indices(rank)] += 1.0
        core[:rank, rank:] = core[rank:, :rank] = S12
        self.core = factored(core)

    def _grams(self) -> list[FloatArray]:
        """Return S1, S2 and S12, computed by blocks of samples on several threads."""
        parts = np.array_split(np.arange(len(self.h)), PARTS)
        found: dict[tuple[int, int], FloatArray] = {}

        def add(job: tuple[int, int]) -> None:
            span = slice(parts[job[1]][0], parts[job[1]][-1] + 1)
            weight = (self.of_a, self.of_z, self.of_both)[job[0]][span]
            found[job] = _gram(self.B[span], weight)

        for_each(add, [(which, part) for which in range(3) for part in range(PARTS)], self.threads)
        return [sum(found[which, part] for part in range(PARTS)) for which in range(3)]  # type: ignore[misc]

    def solve(self, r2: FloatArray, r1: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (a, z) with G z - D2 a = r2 and G a + D1 z = r1.

        The first solution with each factorisation is improved by iterative refinement on the whole
        system. If it needed none, later solutions with the same factorisation are not checked.
        """
        a, z = self._solve_once(r2, r1)
        if self.accurate:
            return a, z
        size = max(float(np.abs(r2).max()), float(np.abs(r1).max()), 1e-300)
        before = np.inf
        for refinement in range(REFINEMENTS + 1):
            left2 = r2 - (self.product(z) - self.D2 * a)
            left1 = r1 - (self.product(a) + self.D1 * z)
            left = max(float(np.abs(left2).max()), float(np.abs(left1).max()))
            self.accurate = refinement == 0 and left <= ACCURATE * size
            if left <= ACCURATE * size or left > 0.5 * before or refinement == REFINEMENTS:
                break
            before = left
            more_a, more_z = self._solve_once(left2, left1)
            a, z = a + more_a, z + more_z
        return a, z

    def _solve_once(self, r2: FloatArray, r1: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Solve the 2 x 2 blocks, then correct for the coupling through B'a and B'z.
        a = self.of_both * r1 - self.of_a * r2
        z = self.of_both * r2 + self.of_z * r1
        # Two matrix-vector products are faster than one product with two columns.
        sums = np.concatenate([self.B.T @ z, self.B.T @ a])
        of_a, of_z = np.split(solved(self.core, sums), 2)
        from_a, from_z = self.B @ of_a, self.B @ of_z
        a += self.of_a * from_z - self.of_both * from_a
        z -= self.of_both * from_z + self.of_z * from_a
        return a, z


def _gram(B: FloatArray, weight: FloatArray) -> FloatArray:
    """Return B' diag(weight) B as symmetric products, one per sign of the weights."""
    negative = weight < 0
    if not negative.any():
        scaled = B * np.sqrt(weight)[:, None]
        return np.asarray(scaled.T @ scaled)
    if negative.all():
        return -_gram(B, -weight)
    return _gram(B[~negative], weight[~negative]) - _gram(B[negative], -weight[negative])
