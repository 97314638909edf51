r"""Out-of-core linear models: data in parts, read in a few passes.

=============  ==================================  ============================================
problem        method                              passes over the data
=============  ==================================  ============================================
hinge, hull    "implicit" (`implicit`): to a gap   about four to the exact solution
               of tol (hinge), exact (hull)
squared_hinge  "newton" (`squared`): to a duality  one per Newton step, about five from the
               gap of tol                          solution of a subsample
=============  ==================================  ============================================

The problems are those of :mod:`widemargin.problems.linear_scan`; each has one method, which
"auto" selects. Both methods solve a subsample in memory and then correct its solution; both save
checkpoints.
"""

from __future__ import annotations

from widemargin._base.typing import FloatArray
from widemargin.problems.linear_scan import LinearProblem
from widemargin.solvers.base import Budget, LinearResult, Store
from widemargin.solvers.out_of_core.implicit import Observer, solve_implicit
from widemargin.solvers.out_of_core.proof import proved
from widemargin.solvers.out_of_core.result import OutOfCoreResult
from widemargin.solvers.out_of_core.scan import multipliers
from widemargin.solvers.out_of_core.squared import solve_squared, start_of_sample
from widemargin.solvers.out_of_core.start import draw_sample
from widemargin.sources.protocol import Source

__all__ = ["OutOfCoreResult", "draw_sample", "dual_variables", "solve"]


def solve(
    problem: LinearProblem,
    data: Source,
    *,
    tol: float,
    budget: Budget,
    start: LinearResult | None = None,
    method: str = "auto",
    seed: int = 0,
    centre: FloatArray | None = None,
    checkpoint: Store | None = None,
    observe: Observer | None = None,
) -> OutOfCoreResult:
    """Solve a linear large-margin problem over data in parts.

    Parameters
    ----------
    problem : LinearProblem
        Problem and cap.
    data : Source
        Samples with labels -1 and +1 and weights; samples of weight zero are ignored.
    tol : float
        Largest relative duality gap. Reduced hulls are solved exactly; so is the hinge if tol is
        at most 1e-9.
    budget : Budget
        Largest number of rounds (or passes of "newton"), and the monitor, which is called with
        (round, relative gap) after every round, and between steps of a round once a bound is
        known.
    start : LinearResult, optional
        Model for a warm start, instead of the solution of a subsample.
    method : {"auto", "implicit", "newton"}
        "auto": see the table.
    seed : int
        Seed of the subsample; it changes the iterates, not the result.
    centre : ndarray of shape (n_features,), optional
        "implicit": subtracted from the samples internally. Data far from the origin are centred
        in any case.
    checkpoint : object with load() and save(dict), optional
        Stores the state after every round. A run that finds a state resumes from it and ends with
        the same result to the last bit.
    observe : callable, optional
        "implicit": called after every round with a progress message, the number of the round and
        the relative gap.

    Returns
    -------
    result : OutOfCoreResult
        Model, objectives and history.

    Raises
    ------
    InfeasibleSums
        If, for reduced hulls, the caps of a class sum to less than one.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import sources
    >>> from widemargin.problems.linear_scan import LinearProblem
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.out_of_core import solve
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((20_000, 3))
    >>> y = np.where(X[:, 0] + 0.5 * rng.standard_normal(20_000) > 0, 1.0, -1.0)
    >>> source = sources.from_arrays(X, y).binary(1.0, -1.0)
    >>> found = solve(LinearProblem("hinge", 1.0), source, tol=1e-9, budget=Budget(100))
    >>> found.status, found.evaluation.gap < 1e-12, found.passes < 6
    ('converged', True, True)
    """
    if not sum(data.sizes):
        raise ValueError("source has no rows")
    only = "newton" if problem.kind == "squared_hinge" else "implicit"
    if method not in ("auto", only):
        raise ValueError(f'method must be "auto" or "{only}" for {problem.name}; got {method!r}')
    if only == "newton":
        passes = 0.0
        if start is None:
            start, passes = start_of_sample(problem, data, seed)
        found = solve_squared(
            problem, data, tol=tol, budget=budget, start=start, checkpoint=checkpoint, passes=passes
        )
    else:
        found = solve_implicit(
            problem, data, tol=tol, budget=budget, start=start, seed=seed, centre=centre,
            checkpoint=checkpoint, observe=observe,
        )  # fmt: skip
    if problem.kind == "hull" or found.status == "stopped":  # its time is over
        return found
    return proved(problem, data, found, tol)


def dual_variables(
    problem: LinearProblem, data: Source, result: OutOfCoreResult
) -> list[FloatArray]:
    """Return the multipliers of all samples, one array per part: 0 <= alpha <= cap * weight.

    For the hinge and reduced hulls; `data` must be the source that was solved, in the same parts.
    """
    short = result.multipliers
    assert short is not None
    arguments = []
    for k, size in enumerate(data.sizes):
        mine = short.of_part(k)
        arguments.append((size, short.base, problem.cap, mine.rows, mine.alpha, short.centre))
    return data.run(multipliers, arguments)
