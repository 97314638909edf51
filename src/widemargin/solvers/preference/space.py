r"""Where a preference machine lives: vectors of its function space, and the curvature of its loss.

Newton's method needs inner products, the utilities that a vector gives the rows, and the solution
of :math:`(1 + C \Phi' L \Phi) d = r`, where :math:`\Phi` holds the features of the rows and L is
the Laplacian of the graph whose edges are the pairs on the curved part of the loss. L is never
formed: its products are sweeps over the sorted rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import FloatArray, IntArray
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.sweep import SortedRows
from widemargin.solvers.numerics.data_products import LinearRows

Trust: TypeAlias = Literal["exact", "close", "rough"]

ENOUGH_PAIRS = 30  # curved pairs for each feature: with fewer a sample's curvature is noise


def _nothing() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class Element:
    """A vector of the function space: its coefficients, and the utility of each row."""

    coef: FloatArray
    image: FloatArray = field(default_factory=_nothing)

    def plus(self, length: float, other: Element) -> Element:
        """Return self + length * other."""
        return self + length * other

    def __add__(self, other: Element) -> Element:
        coef = self.coef + other.coef
        if len(self.image) == len(other.image):
            return Element(coef, self.image + other.image)
        return Element(coef)

    def __rmul__(self, length: float) -> Element:
        return Element(length * self.coef, length * self.image)


class Space(Protocol):
    """What the descent asks of a function space."""

    def dot(self, a: Element, b: Element) -> float:
        """Return the inner product."""
        ...

    def expand(self, beta: FloatArray) -> Element:
        """Return sum_i beta_i phi(x_i); the image may be left out where nobody needs it."""
        ...

    def at(self, coef: FloatArray) -> Element:
        """Return the vector with some coefficients, with its image."""
        ...

    def prepare(self, f: FloatArray, width: float, ramp: float | None = None) -> None:
        """Get ready to precondition with the curvature at utilities f."""
        ...

    def precondition(self, r: Element) -> Element:
        """Return roughly (1 + C Phi'L Phi)^-1 r, with its image."""
        ...

    @property
    def trust(self) -> Trust:
        """Whether the preconditioner is the inverse itself, close to it, or only of its kind."""
        ...


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
        self.rows = rows
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
        rows = self.rows
        phi = features[rows.order]
        half = rows.over_lower(rows.weight[:, None] * phi, 0.0, self.far)
        half *= (-self.scale * rows.weight)[:, None]
        half += (0.5 * self.diagonal)[:, None] * phi
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

    def prepare(self, f: FloatArray, width: float, ramp: float | None = None) -> None:
        """Factorise 1 + C Phi'L Phi at utilities f of all rows."""
        rows = self.problem.sort(f[self.rows])
        curvature = Curvature(self.problem, rows, width, ramp)
        wanted = ENOUGH_PAIRS * self.features.shape[1]
        while not self.whole and width < 1.0 and curvature.n_pairs() < wanted:
            width *= 3.0  # slacks have a density; a wider band of a sample's few pairs tells it
            curvature = Curvature(self.problem, rows, width)
        self.factor = factorised(curvature.gram(self.features))

    def solve(self, r: FloatArray) -> FloatArray:
        """Return the solution of the prepared system."""
        return np.asarray(cho_solve(self.factor, r, check_finite=False))


class FeatureSpace:
    """w itself: the linear machine, or coordinates in a basis of a kernel's space."""

    def __init__(
        self, rows: LinearRows, problem: PreferenceProblem, dense: DenseCurvature | None
    ) -> None:
        self.rows, self.problem, self.dense = rows, problem, dense
        self.diagonal = np.ones(rows.n_features)

    @property
    def trust(self) -> Trust:
        """Exact where the curvature is a matrix made of all rows."""
        if self.dense is None:
            return "rough"
        return "exact" if self.dense.whole else "close"

    def dot(self, a: Element, b: Element) -> float:
        """Return the inner product of two weight vectors."""
        return float(a.coef @ b.coef)

    def expand(self, beta: FloatArray) -> Element:
        """Return X'beta, without image."""
        return Element(self.rows.combine(beta))

    def at(self, w: FloatArray) -> Element:
        """Return w with its utilities."""
        return Element(w, self.rows.dot(w))

    def prepare(self, f: FloatArray, width: float, ramp: float | None = None) -> None:
        """Factorise the matrix of the curvature, or take its diagonal without cross terms."""
        if self.dense is not None:
            self.dense.prepare(f, width, ramp)
            return
        rows = self.problem.sort(f)
        own = rows.scattered(Curvature(self.problem, rows, width, ramp).diagonal)
        active = np.flatnonzero(own)
        if len(active):
            middle = self.rows.combine(own / own.sum())
            self.diagonal = 1.0 + self.rows.spread(active, own[active], middle)

    def precondition(self, r: Element) -> Element:
        """Return the solution of the prepared system, with its image."""
        if self.dense is not None:
            return self.at(self.dense.solve(r.coef))
        return self.at(r.coef / self.diagonal)
