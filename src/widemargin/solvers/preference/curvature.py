r"""Curvature of the smoothed pairwise loss: products with a graph Laplacian, or a small matrix.

Newton's method solves :math:`(1 + C \Phi' L \Phi) d = r`, where :math:`\Phi` holds the features of
the rows and L is the Laplacian of the graph whose edges are the pairs on the curved part of the
loss. L is never formed: its products are sweeps over the sorted rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.pair_sums import SortedRows

ENOUGH_PAIRS = 30  # curved pairs for each feature: with fewer a sample's curvature is noise


class Curvature:
    """C L at some utilities: the Laplacian of the pairs where the loss is curved.

    These are the pairs in a band of some width; ramp, the width by default, is the slack over
    which their variables rise to the cap.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        rows: SortedRows,
        width: float,
        ramp: float | None = None,
    ) -> None:
        self.rows, self.width, self.ramp = rows, width, ramp
        self.far = np.inf if problem.squared else width
        self.scale = problem.C * (2.0 if problem.squared else 1.0 / (ramp or width))

    @cached_property
    def diagonal(self) -> FloatArray:
        """The diagonal of C L, rows sorted."""
        weight = self.rows.weight[:, None]
        partners = self.rows.over_lower(weight, 0.0, self.far)
        partners += self.rows.over_higher(weight, 0.0, self.far)
        return self.scale * self.rows.weight * partners[:, 0]

    def times(self, v: FloatArray) -> FloatArray:
        """Return C L v."""
        rows = self.rows
        v = v[rows.order]
        moved = (rows.weight * v)[:, None]
        across = rows.over_lower(moved, 0.0, self.far) + rows.over_higher(moved, 0.0, self.far)
        return rows.scattered(self.diagonal * v - self.scale * rows.weight * across[:, 0])

    def gram(self, features: FloatArray) -> FloatArray:
        """Return C Phi' L Phi: half of each pair's share, from its upper row, and its mirror."""
        rows, diagonal = self.rows, self.diagonal
        phi = features[rows.order]
        half = rows.over_lower(rows.weight[:, None] * phi, 0.0, self.far)
        half *= (-self.scale * rows.weight)[:, None]
        half += (0.5 * diagonal)[:, None] * phi
        product = phi.T @ half
        return np.asarray(product + product.T)

    def n_pairs(self) -> float:
        """Number of curved pairs, in units of the mean weight."""
        twice = float(self.diagonal.sum()) / self.scale
        return 0.5 * twice / float(self.rows.weight.mean()) ** 2


def factorised(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return the Cholesky factor of 1 + matrix, which is positive but for rounding."""
    place = np.diag_indices_from(matrix)
    matrix[place] += 1.0
    lift = 1e-15 * float(np.abs(matrix[place]).max())
    for _ in range(12):
        try:
            return cho_factor(matrix, lower=True, check_finite=False)
        except LinAlgError:
            matrix[place] += lift
            lift *= 10.0
    # Sums of utilities far apart have rounded all but its size away: steps by that still descend.
    return cho_factor(np.diag(np.maximum(np.abs(matrix[place]), 1.0)), lower=True)


class DenseCurvature:
    """Curvature in few features: a matrix, factorised, from all rows or from a sample of them."""

    def __init__(self, problem: PreferenceProblem, features: FloatArray, rows: IntArray) -> None:
        self.whole = len(rows) == problem.n_rows
        self.rows = rows
        self.problem = problem if self.whole else problem.restrict(rows)
        self.features = features - features.mean(axis=0)  # L does not see a constant
        self.factor: Any = None

    def prepare(self, curvature: Curvature, f: FloatArray) -> None:
        """Factorise 1 + C Phi'L Phi, given the curvature of all rows at utilities f."""
        if not self.whole:
            curvature = self._of_sample(f, curvature.width, curvature.ramp)
        self.factor = factorised(curvature.gram(self.features))

    def _of_sample(self, f: FloatArray, width: float, ramp: float | None) -> Curvature:
        rows = self.problem.sort(f[self.rows])
        curvature = Curvature(self.problem, rows, width, ramp)
        wanted = ENOUGH_PAIRS * self.features.shape[1]
        while width < 1.0 and curvature.n_pairs() < wanted:
            width *= 3.0  # slacks have a density; a wider band of a sample's few pairs tells it
            curvature = Curvature(self.problem, rows, width)
        return curvature

    def solve(self, r: FloatArray) -> FloatArray:
        """Return the solution of the prepared system."""
        return np.asarray(cho_solve(self.factor, r, check_finite=False))
