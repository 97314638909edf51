"""The door of the mean-field solvers with defaults for tests."""

from __future__ import annotations

from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field import solve


def solved(problem, K, *, tol=1e-10, max_iter=-1, monitor=None, **options):
    """Solve the mean-field equations tightly, with the method's own number of steps."""
    return solve(problem, K, tol=tol, budget=Budget(max_iter, monitor), **options)
