r"""Newton's method for cumulative ordinal regression, jointly in weights and thresholds.

Problem: :mod:`widemargin.problems.cumulative`. A step solves

.. math::

    \begin{pmatrix} X'BX + \alpha I & X'L \\ L'X & T \end{pmatrix}
    \begin{pmatrix} \Delta w \\ \Delta \theta \end{pmatrix} = -\nabla J

with T tridiagonal, so the q - 1 thresholds are eliminated in O(q). The step is shortened if two
thresholds would meet or J does not decrease. The remaining system for w is a d x d matrix for few
features and is solved by conjugate gradients for many; with fewer samples than features, the
problem is first solved in a rotated space of at most n features.

The run ends when the bound on J minus its optimum meets the tolerance (alpha > 0). Without a
penalty there is no such bound: the run ends when the decrease predicted for a step is below the
tolerance *and* the step hardly changes the utilities. If the ranks are separable, the predicted
decrease tends to zero while the utilities keep growing, and J has no minimum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray, Matrix
from widemargin._base.validation import require_choice
from widemargin.certificate import gap_scale, relative_gap
from widemargin.problems.cumulative import CumulativeProblem, Slopes
from widemargin.solvers.base import Budget, LinearResult, Status
from widemargin.solvers.cumulative.rows import CentredRows
from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients

__all__ = ["CumulativeResult", "solve"]

FEW_FEATURES = 300  # the d x d Hessian is formed for at most this many features
FEW_ROWS = 1500  # the Hessian, or the Gram matrix of the samples, is formed up to this size
STILL = 1e-4  # without a penalty: largest change of an argument of the link at convergence
PATIENCE = 6  # steps below the tolerance that still change utilities: the ranks are separable
DEPENDENT = 1e-13  # relative eigenvalue of the scaled Hessian that counts as zero
SETTLING = 30  # Newton steps in the thresholds alone, without reading X; three usually suffice


@dataclass(frozen=True, eq=False, kw_only=True)
class CumulativeResult(LinearResult):
    """Fitted cumulative model.

    Attributes
    ----------
    likelihood : float
        Log-likelihood of the model.
    separated : bool
        Whether the ranks are separable, so that the likelihood has no maximum.
    n_dependent : int
        Number of directions of w, those of constant features included, on which the likelihood does
        not depend (without a penalty; 0 where no Hessian was formed).
    constant : ndarray of shape (n_features,)
        Whether a feature is constant.
    """

    likelihood: float
    separated: bool
    n_dependent: int
    constant: BoolArray


@dataclass(frozen=True)
class _Point:
    w: FloatArray
    thresholds: FloatArray
    utility: FloatArray
    objective: float


@dataclass(frozen=True)
class _Around:
    """Derivatives of J at a point, and of h(w), the minimum of J over the thresholds."""

    slopes: Slopes
    gradient: FloatArray  # of h
    above: float  # J - h


@dataclass(frozen=True)
class _State:
    """Iterate of the Newton loop, with the reason for stopping if there is one."""

    point: _Point
    status: Status | None = None
    separated: bool = False
    n_dependent: int = 0


@dataclass(frozen=True)
class _Step:
    w: FloatArray
    thresholds: FloatArray
    utility: FloatArray
    promise: float  # decrease of J predicted by the quadratic model
    n_dependent: int = 0


def solve(
    problem: CumulativeProblem,
    data: Matrix,
    *,
    tol: float,
    budget: Budget,
    start: CumulativeResult | None = None,
    method: str = "auto",
) -> CumulativeResult:
    """Maximise the (penalised) likelihood.

    Parameters
    ----------
    problem : CumulativeProblem
        Ranks, weights, link and penalty.
    data : ndarray or CSR matrix of shape (n, d)
        Samples, float32 or float64; read in place.
    tol : float
        Bound on J - optimum relative to max(1, J); without a penalty, on the decrease predicted
        for the last step.
    budget : Budget
        Newton steps, and a monitor that is called after each of them with (steps, relative gap or
        predicted decrease).
    start : CumulativeResult, optional
        Model for a warm start.
    method : {"auto", "matrix", "gram", "conjugate_gradients"}
        Linear algebra of a step: "matrix" forms the d x d Hessian, "gram" rotates the data of few
        samples to at most n features, "conjugate_gradients" forms no matrix. "auto" takes the
        first of them that is cheap.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.cumulative import CumulativeProblem
    >>> from widemargin.solvers.base import Budget
    >>> from widemargin.solvers.cumulative import solve
    >>> X = np.array([[0.0], [1.0], [1.0], [2.0], [3.0]])
    >>> problem = CumulativeProblem("logit", np.array([0, 0, 1, 1, 1]), np.ones(5), alpha=1.0)
    >>> result = solve(problem, X, tol=1e-9, budget=Budget(50))
    >>> result.coef.round(3), result.thresholds.round(3), result.status
    (array([0.862]), array([0.717]), 'converged')
    """
    require_choice("method", method, ("auto", "matrix", "gram", "conjugate_gradients"))
    n, d = data.shape
    if method == "auto":
        if d <= FEW_FEATURES or d <= n <= FEW_ROWS:
            method = "matrix"
        else:
            method = "gram" if n <= FEW_ROWS else "conjugate_gradients"
    with worker_threads() as threads:
        rows = CentredRows(data, problem.weight, threads)
        if start is None:
            point = _point(problem, rows, np.zeros(d), problem.start())
        else:
            shifted = start.thresholds - float(rows.centre @ start.coef)
            point = _point(problem, rows, start.coef, shifted)
        if method == "gram":
            point = _turned_start(problem, rows, point, tol, budget, threads)
        state = _newton(problem, rows, point, tol, budget, matrix=method == "matrix")
        return _result(problem, rows, state, tol, budget)


def _point(
    problem: CumulativeProblem, rows: CentredRows, w: FloatArray, thresholds: FloatArray
) -> _Point:
    utility = rows.dot(w)
    return _Point(w, thresholds, utility, problem.objective(utility, thresholds, _norm2(w)))


def _turned_start(
    problem: CumulativeProblem,
    rows: CentredRows,
    start: _Point,
    tol: float,
    budget: Budget,
    threads: int,
) -> _Point:
    """Solve in the span of the samples; return the optimum up to rounding."""
    Z, back = rows.turned()
    few = CentredRows(Z, problem.weight, threads)
    origin = _point(problem, few, np.zeros(Z.shape[1]), start.thresholds)
    # A tighter tolerance, so that the result usually still meets `tol` after rotating back.
    state = _newton(problem, few, origin, 0.1 * tol, budget, matrix=True)
    return _point(problem, rows, rows.combine(back @ state.point.w), state.point.thresholds)


def _newton(
    problem: CumulativeProblem,
    rows: CentredRows,
    point: _Point,
    tol: float,
    budget: Budget,
    *,
    matrix: bool,
) -> _State:
    """Take Newton steps until the run converges, stalls or exhausts the budget."""
    state, idle = _State(point), 0
    while True:
        point = state.point
        around = _around(problem, rows, point)
        scale = gap_scale(point.objective)
        gap = point.objective - problem.lower_bound(point.objective, around.above, around.gradient)
        if problem.alpha > 0 and gap <= tol * scale:
            return replace(state, status="converged")
        step = _direction(problem, rows, around, matrix=matrix)
        moved = _descend(problem, point, step)
        if moved is None:
            return replace(state, status="stalled")
        state = _State(moved, n_dependent=step.n_dependent)
        going = budget.spend(1, (gap if problem.alpha > 0 else step.promise) / scale)
        if problem.alpha == 0 and step.promise <= tol * scale:
            idle += 1
            if float(_shift(problem, step).max()) <= STILL:
                return replace(state, status="converged")
            if idle > PATIENCE:
                return replace(state, status="stalled", separated=True)
        if not going:
            return state


def _around(problem: CumulativeProblem, rows: CentredRows, point: _Point) -> _Around:
    slopes = problem.slopes(point.utility, point.thresholds)
    by_row, above = problem.profile(slopes)
    gradient = rows.combine(by_row) + problem.alpha * point.w
    return _Around(slopes, np.where(rows.varies, gradient, problem.alpha * point.w), above)


def _shift(problem: CumulativeProblem, step: _Step) -> FloatArray:
    """Return the larger change, by a step, of the two ends of each sample's noise interval."""
    padded = np.concatenate([[-np.inf], step.thresholds, [np.inf]])
    below = padded[problem.codes] - step.utility
    above = padded[problem.codes + 1] - step.utility
    return np.maximum(
        np.where(np.isfinite(below), np.abs(below), 0.0),
        np.where(np.isfinite(above), np.abs(above), 0.0),
    )


# -------------------------------------------------------------------------- Newton direction


def _direction(
    problem: CumulativeProblem, rows: CentredRows, around: _Around, *, matrix: bool
) -> _Step:
    """Compute the Newton step: eliminate the thresholds, solve for w, substitute back."""
    slopes = around.slopes
    if matrix:
        w, n_dependent = _by_factors(problem, rows, slopes, -around.gradient)
    else:
        w, n_dependent = _by_conjugate_gradients(problem, rows, slopes, -around.gradient), 0
    w[~rows.varies] = 0.0
    utility = rows.dot(w)
    right = slopes.threshold + problem.to_thresholds(slopes, utility)
    thresholds = -slopes.solve_thresholds(right)
    promise = 0.5 * (around.above - float(around.gradient @ w))
    return _Step(w, thresholds, utility, promise, n_dependent)


def _by_factors(
    problem: CumulativeProblem, rows: CentredRows, slopes: Slopes, right: FloatArray
) -> tuple[FloatArray, int]:
    """Solve with the d x d Schur complement; also return the dimension of its null space."""
    mixed = rows.against_thresholds(problem, slopes)
    matrix = rows.gram(slopes.bend) - mixed.T @ slopes.solve_thresholds(mixed)
    matrix[~rows.varies], matrix[:, ~rows.varies] = 0.0, 0.0
    matrix[np.diag_indices_from(matrix)] += problem.alpha
    # A unit diagonal makes the rank decision below independent of the scale of the features.
    size = np.sqrt(np.maximum(matrix.diagonal(), 0.0))
    size[size == 0.0] = 1.0
    matrix /= size
    matrix /= size[:, None]
    if problem.alpha > 0:
        try:
            return cho_solve(cho_factor(matrix, check_finite=False), right / size) / size, 0
        except LinAlgError:
            pass  # indefinite through rounding: use the eigenvalues
    values, vectors = np.linalg.eigh(matrix)
    kept = values > DEPENDENT * len(values) * max(1.0, float(values[-1]))
    inner = vectors[:, kept]
    solution = inner @ ((inner.T @ (right / size)) / values[kept])
    return solution / size, int(np.count_nonzero(~kept))


def _by_conjugate_gradients(
    problem: CumulativeProblem, rows: CentredRows, slopes: Slopes, right: FloatArray
) -> FloatArray:
    """Solve by conjugate gradients, to a tolerance that tightens as the run converges."""
    scale = rows.spread(slopes.bend) + problem.alpha
    scale = np.where(scale > 0, scale, 1.0)

    def times(v: FloatArray) -> FloatArray:
        utility = rows.dot(v)
        thresholds = slopes.solve_thresholds(problem.to_thresholds(slopes, utility))
        inner = slopes.bend * utility - problem.to_utilities(slopes, thresholds)
        return np.where(rows.varies, rows.combine(inner), 0.0) + problem.alpha * v

    def goal(size: float) -> float:
        # relative to the gradient at w = 0: superlinear convergence, down to rounding level
        start = max(size, float(problem.weight.sum()))
        return max(size * min(0.01, size / start), 1e-28 * start)

    most = 2 * len(right) + 50
    found = conjugate_gradients(times, right, lambda r: r / scale, goal=goal, most=most)
    return np.asarray(found.x)


# -------------------------------------------------------------------------------- line search


def _descend(problem: CumulativeProblem, point: _Point, step: _Step) -> _Point | None:
    """Backtrack along a step until J decreases, thresholds in order; return None on failure."""
    if not (np.isfinite(step.promise) and step.promise > 0):
        return None
    closing = np.diff(step.thresholds)
    meets = closing < 0
    room = np.diff(point.thresholds)[meets] / -closing[meets]
    length = min(1.0, 0.95 * float(room.min(initial=np.inf)))
    allowance = PRODUCT_ROUNDING * max(1.0, abs(point.objective))
    for _ in range(40):
        w = point.w + length * step.w
        thresholds = point.thresholds + length * step.thresholds
        utility = point.utility + length * step.utility
        objective = problem.objective(utility, thresholds, _norm2(w))
        wanted = point.objective - 1e-4 * length * 2.0 * step.promise
        small = step.promise <= allowance  # the decrease is hidden by the rounding of J
        if objective <= wanted + (allowance if small else 0.0):
            return _Point(w, thresholds, utility, objective)
        length *= 0.5
    return None


def _settled(problem: CumulativeProblem, point: _Point) -> _Point:
    """Optimise the thresholds for fixed w, which the lower bound on the optimum assumes."""
    still_w, still_rows = np.zeros_like(point.w), np.zeros_like(point.utility)
    for _ in range(SETTLING):
        slopes = problem.slopes(point.utility, point.thresholds)
        move = -slopes.solve_thresholds(slopes.threshold)
        promise = -0.5 * float(slopes.threshold @ move)
        if promise <= 0.01 * PRODUCT_ROUNDING * max(1.0, abs(point.objective)):
            break
        moved = _descend(problem, point, _Step(still_w, move, still_rows, promise))
        if moved is None:
            break
        point = moved
    return point


def _result(
    problem: CumulativeProblem, rows: CentredRows, state: _State, tol: float, budget: Budget
) -> CumulativeResult:
    """Return the model on the original data, or the best constant one if rounding made it worse."""
    point = _settled(problem, _point(problem, rows, state.point.w, state.point.thresholds))
    # Judge the shifted model: it is what the user gets, and a large mean costs it digits.
    model = _shifted(problem, rows, point)
    around = _around(problem, rows, point)
    above = around.above + (model.objective - point.objective)
    bound = problem.lower_bound(model.objective, above, around.gradient)
    status = state.status or budget.status
    if problem.alpha > 0 and relative_gap(model.objective, bound) <= tol:
        status = "converged"
    elif problem.alpha > 0 and status == "converged":  # rounding of the shift
        status = "stalled"
    if status != "converged":
        constant = _point(problem, rows, np.zeros_like(point.w), problem.start())
        model = min(constant, model, key=lambda found: found.objective)
    return CumulativeResult(
        coef=model.w,
        thresholds=model.thresholds,
        primal=model.objective,
        dual=bound,
        likelihood=problem.likelihood(model.utility, model.thresholds),
        n_iter=max(1, budget.used),
        status=status,
        separated=state.separated,
        n_dependent=state.n_dependent,
        constant=~rows.varies,
    )


def _shifted(problem: CumulativeProblem, rows: CentredRows, point: _Point) -> _Point:
    """Return the same model with thresholds and utilities on the scale of the original data."""
    thresholds = point.thresholds + float(rows.centre @ point.w)
    for k in range(1, len(thresholds)):  # the shift may round neighbours to equal values
        thresholds[k] = max(thresholds[k], np.nextafter(thresholds[k - 1], np.inf))
    utility = rows.rows.dot(point.w)
    objective = problem.objective(utility, thresholds, _norm2(point.w))
    return _Point(point.w, thresholds, utility, objective)


def _norm2(w: FloatArray) -> float:
    """Return |w|^2, or infinity on overflow (tiny features without a penalty)."""
    with np.errstate(over="ignore"):
        return float(w @ w)
