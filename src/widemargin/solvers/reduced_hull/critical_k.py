r"""Find the smallest k at which the reduced hulls are disjoint.

The reduced hulls intersect at k if the classes can share a mass of k: if there are

.. math::

    0 \le s_i \le c_i, \qquad \sum_{y_i = 1} s_i x_i = \sum_{y_i = -1} s_i x_i, \qquad
    \sum_{y_i = 1} s_i = \sum_{y_i = -1} s_i = \kappa

with :math:`\kappa \ge k` (c is the weight of each sample, 1 without weights). The largest shared
mass :math:`\kappa` is the critical k, the optimum of a linear program. Its dual is the smallest
total hinge loss,

.. math:: k_c = \min_{w, b} \; \tfrac12 \sum_i c_i \max(0, 1 - y_i (w \cdot x_i + b)),

so **any** w and b give an upper bound of k_c. The value returned here is such a bound, recomputed
from the w and b of the solver. At every k above it the hulls are disjoint.

* w = 0 gives k_c <= min(m_plus, m_minus). If that is the optimum, no common k is feasible.
* With c_i = 1 / m_plus and 1 / m_minus the shared mass is a *fraction* of the classes. It is 1 only
  if their means coincide, so a pair (k_plus, k_minus) in proportion to the classes is feasible
  whenever any pair is.
* There is one equation in x per dimension of the span of the data: per feature for the linear
  kernel, per eigenvector of the kernel matrix for others. Smooth kernels have eigenvalues of all
  sizes down to rounding, and nearest points of hulls that are apart by a billionth cannot be
  computed in float64. For nonlinear kernels the equation therefore has a tolerance of `NEAR` times
  the extent of the data in every coordinate: hulls nearer than that count as intersecting.

If the program is too large, Newton's method on k replaces it: the solution of P2 at k has the hinge
loss :math:`k' = k (1 - |w|^2 / (\theta_+ - \theta_-))`, an upper bound again, and k' determines the
next k.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from widemargin._base.typing import FloatArray
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import class_masses, shrink
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget
from widemargin.solvers.numerics.highs import solve_linear_program
from widemargin.solvers.reduced_hull.linear import (
    LINEAR_METHODS,
    resolve_method,
    solve_linear_hulls,
)
from widemargin.solvers.reduced_hull.nearest import HullResult, half_margin, solve_nearest

# Relative distance to the critical value within which an integer does not count as above it. Ties
# in the data put the critical value on integers, and the linear program is solved to 1e-9 or so;
# on the other hand, hulls at a k nearer than this would be nearer than nearest.TOUCHING.
STRICTLY = 1e-6
NEAR = 1e-5  # nonlinear kernels: hulls nearer than this, relative to the data's extent, intersect
LP_ENTRIES = 4_000_000  # entries of the constraint matrix beyond which Newton's method is faster
GRAM_ROWS = 2_000  # order of the largest kernel matrix that is decomposed into eigenvectors
SPAN = 1e-2 * NEAR**2  # coordinates of eigenvalues below this, relative to the largest, are < NEAR


@dataclass(frozen=True)
class Span:
    """Coordinates of the samples in their span, and the distance in each that counts as zero."""

    points: FloatArray  # centred, of size about 1
    near: FloatArray


def smallest_k(
    hulls: SoftMargin, rows: Rows, *, budget: Budget, method: str = "auto", seed: int = 0
) -> float | None:
    """Return the smallest common k at which the hulls are disjoint, or None.

    Parameters
    ----------
    hulls : SoftMargin
        The hulls at k = 1: the cap D of each sample is its weight.
    rows : Rows
        Samples with their kernel.
    budget, method, seed
        As for :func:`widemargin.solvers.reduced_hull.solve`.
    """
    critical = critical_mass(hulls, rows, budget, method, seed)
    return integer_above(critical, min(class_masses(hulls)))


def smallest_pair(
    hulls: SoftMargin, rows: Rows, *, budget: Budget, method: str = "auto", seed: int = 0
) -> tuple[float, float] | None:
    """Return the smallest feasible (k_plus, k_minus) in proportion to the class sizes.

    Each is the first integer above the same fraction of its class. None if the class means
    coincide: then no pair is feasible. The parameters are those of :func:`smallest_k`.
    """
    plus, minus = class_masses(hulls)
    larger = max(plus, minus)
    # Scale both classes to the mass of the larger one: Newton's method moves k by steps of 1,
    # which are then fine enough for both.
    even = replace(hulls, upper=hulls.upper * (larger / plus), lower=hulls.lower * (larger / minus))
    fraction = critical_mass(even, rows, budget, method, seed) / larger
    if fraction >= 1.0 - STRICTLY:
        return None
    k_plus, k_minus = (integer_above(fraction * most, most) or most for most in (plus, minus))
    return k_plus, k_minus


def critical_mass(
    hulls: SoftMargin, rows: Rows, budget: Budget, method: str = "auto", seed: int = 0
) -> float:
    """Return the critical k, the largest mass that the classes share, in units of the hulls' D.

    The hulls are disjoint at every k above it. It is at most the mass of the smaller class; if it
    equals that, no common k is feasible.
    """
    resolved = resolve_method(method, rows)  # reject an invalid method before any work
    smaller = min(class_masses(hulls))
    coordinates = span(rows)
    mass = None if coordinates is None else shared_mass(coordinates, hulls.upper + hulls.lower)
    if mass is not None:
        return min(smaller, mass)

    def nearest(reduced: SoftMargin) -> HullResult:
        if resolved in LINEAR_METHODS:
            return solve_linear_hulls(reduced, rows.X, resolved, budget=budget, seed=seed)
        # A rough solution suffices, as every w gives a bound. The distance is Euclidean here: NEAR
        # in each of some hundred coordinates is about 10 NEAR.
        return solve_nearest(
            reduced, rows, half_margin, tol=1e-2, touching=10.0 * NEAR, budget=budget,
            sample=method == "auto", seed=seed,
        )  # fmt: skip

    return min(smaller, _newton(hulls, smaller, nearest))


def shared_mass(span: Span, signed: FloatArray) -> float | None:
    """Solve the linear program for the shared mass; return an upper bound, or None if HiGHS fails.

    `signed` is the cap of each sample times its label.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.reduced_hull.critical_k import Span, shared_mass
    >>> points = np.array([[-2.0], [1.0], [2.0], [-1.0]])  # one of each class in the other
    >>> round(shared_mass(Span(points, np.zeros(1)), np.array([-1.0, -1.0, 1.0, 1.0])), 6)
    1.5
    """
    used = signed != 0
    mass, y = np.abs(signed[used]), np.sign(signed[used])
    directions = span.points[used].T * y[None, :]
    exact = not span.near.any()
    equations = np.vstack([directions, y]) if exact else y[None, :]
    slack = 0.5 * span.near[:, None]
    program = solve_linear_program(
        np.full(len(y), -0.5),
        A_eq=equations,
        b_eq=np.zeros(len(equations)),
        A_ub=None if exact else np.vstack([directions - slack, -directions - slack]),
        b_ub=None if exact else np.zeros(2 * len(directions)),
        bounds=np.column_stack([np.zeros(len(y)), mass]),
        method="highs-ipm",
        sharp=True,
    )
    if program.ended != "optimal":
        return None
    # The multipliers are -w / 2 and -b / 2. The hinge loss of this plane is an upper bound whatever
    # the accuracy of the solver.
    plane = -2.0 * program.equalities
    margins = plane @ equations
    if not exact:
        plus, minus = np.split(np.maximum(0.0, -2.0 * program.inequalities), 2)
        margins += (plus - minus) @ directions - 0.5 * float((plus + minus) @ span.near)
    return float(0.5 * mass @ np.maximum(0.0, 1.0 - margins))


def integer_above(critical: float, most: float) -> float | None:
    """Return the smallest feasible k: the first integer strictly above the critical value.

    `most`, the mass of the smaller class, need not be an integer with sample weights; it is
    returned if the next integer exceeds it. None if no k up to `most` is above the critical value.

    Examples
    --------
    >>> from widemargin.solvers.reduced_hull.critical_k import integer_above
    >>> [integer_above(critical, 10) for critical in (0.0, 3.2, 4 - 1e-9, 10)]
    [1, 4, 5, None]
    """
    barely = critical + STRICTLY * max(1.0, critical)
    if barely >= most:
        return None
    above = int(np.floor(barely)) + 1
    return above if above <= most else most


def span(rows: Rows) -> Span | None:
    """Return coordinates of the samples in their span; None if the program would be too large."""
    X = rows.X
    if rows.kernel.name == "linear" and X.shape[1] < rows.n:
        if rows.n * X.shape[1] > LP_ENTRIES:
            return None
        dense = X.toarray() if sp.issparse(X) else X
        points = np.asarray(dense, dtype=np.float64)
        points = points - points.mean(axis=0)
        size = np.sqrt((points**2).mean(axis=0))
        return Span(points[:, size > 0] / size[size > 0], np.zeros(np.count_nonzero(size)))
    if rows.n > GRAM_ROWS:
        return None
    everything = np.arange(rows.n)
    K = np.asarray(rows.block(everything, rows, everything), dtype=np.float64)
    K = K - K.mean(axis=0)
    K = K - K.mean(axis=1, keepdims=True)
    values, vectors = sla.eigh(0.5 * (K + K.T))
    extent = np.sqrt(max(0.0, float(K.diagonal().max())))
    kept = values > SPAN * max(float(values[-1]), np.finfo(np.float64).tiny)
    unit = np.sqrt(values[kept] / rows.n)  # root mean square of the coordinate, scaled to 1 below
    near = NEAR if rows.kernel.name != "linear" else 0.0
    return Span(vectors[:, kept] * np.sqrt(rows.n), near * extent / unit)


def _newton(hulls: SoftMargin, most: float, nearest: Callable[[SoftMargin], HullResult]) -> float:
    """Return an upper bound of the critical k for which `integer_above` is the same."""
    bound = k = most
    while True:
        found = nearest(shrink(hulls, k, k))
        if not found.separable:
            return bound
        points = found.points
        bound = min(bound, k * (1.0 - (points.eta_plus - points.eta_minus) / points.margin))
        if k <= 1.0:
            return bound
        # The smallest k that this bound admits; if that is k itself, test k - 1.
        k = min(integer_above(bound, most) or most, k - 1.0)
