"""Preconditioned conjugate gradients for positive definite linear systems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

V = TypeVar("V")


class Solved(NamedTuple):
    """Solution, number of matrix-vector products, and whether the goal was reached."""

    x: Any
    n_products: int
    reached: bool


def conjugate_gradients(
    times: Callable[[V], V],
    right: V,
    precondition: Callable[[V], V],
    *,
    goal: Callable[[float], float],
    most: int,
    dot: Callable[[Any, Any], Any] = np.dot,
    plain_residual: bool = False,
) -> Solved:
    """Solve A x = right by conjugate gradients from x = 0.

    Parameters
    ----------
    times, precondition : callable
        Return A v, and an approximate solution z of A z = r.
    right : vector
        Right-hand side: an array, or any object with addition and multiplication by scalars.
    goal : callable
        Maps the squared norm of the initial residual to the squared norm at which to stop.
    most : int
        Largest number of products with A.
    dot : callable
        Inner product.
    plain_residual : bool
        Whether the squared norm of a residual r is r.r; otherwise it is r.z with z preconditioned.

    Returns
    -------
    Solved
        If the curvature p.Ap is not positive, the iteration stops and the goal counts as reached:
        only rounding errors remain, or values have overflowed.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients
    >>> A, right = np.diag([1.0, 2.0, 4.0]), np.ones(3)
    >>> found = conjugate_gradients(A.dot, right, np.copy, goal=lambda size: 1e-20 * size, most=9)
    >>> found.x.round(9), found.n_products, found.reached
    (array([1.  , 0.5 , 0.25]), 3, True)
    """
    r: Any = right
    r = 1.0 * r  # a copy
    z: Any = precondition(r)
    x: Any = 0.0 * z
    p = 1.0 * z
    rz = float(dot(r, z))
    size = float(dot(r, r)) if plain_residual else rz
    enough = goal(size)
    n_products = 0
    while size > enough:
        if n_products == most:
            return Solved(x, n_products, False)
        n_products += 1
        image: Any = times(p)
        curvature = float(dot(p, image))
        if not curvature > 0.0:
            break
        length = rz / curvature
        x += length * p
        r += -length * image
        z = precondition(r)
        rz, last = float(dot(r, z)), rz
        p = z + (rz / last) * p
        size = float(dot(r, r)) if plain_residual else rz
    return Solved(x, n_products, True)
