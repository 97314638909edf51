r"""The preference machine: linear or with a kernel, to a true duality gap, without pairs.

Problem: :class:`widemargin.problems.preference.PreferenceProblem`.

1. *Descent* (:mod:`widemargin.solvers.preference.descent`). Newton's method on the pairwise loss,
   the hinge smoothed over a band of slacks that is narrowed in stages. Every point has a feasible
   dual point, so the true gap is known at all times and ends the run.
2. *Few features.* The curvature is a small matrix. It may come from a sample of the rows, for an
   approximate direction is as good; gradient and gap never do. A solution of the sample is the
   start.
3. *Many features.* Conjugate gradients, one product with X and one with X' each.
4. *Kernels* (:mod:`widemargin.solvers.preference.kernel`). The problem restricted to the span of
   some rows is one of few features; what is left is closed in the whole space. The kernel matrix
   is held only within the memory allowed; float32 products steer, float64 ones certify.
5. *Small problems* with the hinge end with a quadratic program over the pairs at the kink
   (:mod:`widemargin.solvers.preference.polish`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, IntArray, Matrix
from widemargin.certificate import Certificate
from widemargin.kernels import Kernel, Rows
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.dual_pairs import DualPoint
from widemargin.solvers.base import Budget, Monitor, Status
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.descent import Descent
from widemargin.solvers.preference.kernel import KernelSpace, Products, pivoted_basis
from widemargin.solvers.preference.polish import Polish
from widemargin.solvers.preference.space import DenseCurvature, Element, FeatureSpace

FEW_FEATURES = 500  # up to which the curvature is a matrix
SAMPLE_ROWS, SAMPLE_PER_FEATURE = 4096, 20  # rows whose curvature stands for that of all
SAMPLE_GAP = 1e-3  # gap of the sample's solution: chance makes it differ by more than that
MANY_GROUPS = 8  # a sample with fewer rows of a group than this takes whole groups instead
WHOLE_BASIS = 300  # rows up to which all of them may span: the restricted problem is the whole one
FEW_ROWS = 2000  # with more features than rows, and at most these: coordinates in the rows' span
LARGEST_BASIS = 2000  # rows up to which they may, if conjugate gradients do not get through
PER_ROOT = 3.0  # largest size of another basis, in units of sqrt(n): it costs less than one K
START = 1e-2  # gap at which a problem restricted to such a basis is left
WITHIN = 0.3  # share of tol to which the restricted problem is solved


@dataclass(frozen=True, eq=False)
class PreferenceResult:
    """A utility function with the dual point that proves how good it is.

    Attributes
    ----------
    coef : ndarray of shape (n_features,) or (n_rows,)
        Weights w of a linear machine (a matrix was given), expansion coefficients beta of a
        kernel machine (Rows were given).
    f : ndarray of shape (n_rows,)
        Utilities of the training rows, in float64.
    norm2 : float
        Squared norm of the utility function.
    point : DualPoint
        Dual variables of all pairs.
    image : ndarray of shape (n_rows,)
        K beta of the coefficients of the dual point, in float64.
    n_iter : int
        Newton steps, those on samples and in a basis included.
    status : {"converged", "max_iter", "stopped", "stalled"}
        Whether the gap met the tolerance, the budget ran out, the monitor said stop, or rounding
        errors left nothing to gain.
    kernel_evaluations : int
        Kernel values computed.
    """

    coef: FloatArray
    f: FloatArray
    norm2: float
    point: DualPoint
    image: FloatArray
    n_iter: int
    status: Status
    kernel_evaluations: int = 0

    def certificate(self, problem: PreferenceProblem, tol: float) -> Certificate:
        """Certify: both objectives recomputed from the utilities in float64."""
        return problem.certificate(
            self.f,
            self.norm2,
            self.point,
            self.image,
            tol=tol,
            n_iter=self.n_iter,
            kernel_evaluations=self.kernel_evaluations,
        )


def solve_preference(
    problem: PreferenceProblem,
    operand: Matrix | Rows,
    *,
    tol: float,
    max_iter: int,
    cache_bytes: float = 5e8,
    monitor: Monitor | None = None,
    start: FloatArray | None = None,
) -> PreferenceResult:
    """Solve a pairwise problem to a relative duality gap of tol.

    Parameters
    ----------
    problem : PreferenceProblem
        What to solve.
    operand : ndarray or CSR matrix of shape (n_rows, n_features), or Rows
        The data of a linear machine, or the rows seen through a kernel.
    tol : float
        Bound on primal - dual, relative to max(1, abs(primal)).
    max_iter : int
        Largest number of Newton steps.
    cache_bytes : float
        Memory for kernel values and for coordinates in a basis.
    monitor : callable, optional
        Called before every step with (steps, relative gap); returns whether to go on.
    start : ndarray, optional
        Coefficients to start from.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.preference import preference_problem
    >>> from widemargin.solvers.preference import solve_preference
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> problem = preference_problem(np.array([0, 1, 2]), C=10.0)
    >>> result = solve_preference(problem, X, tol=1e-9, max_iter=100)
    >>> result.coef.round(6), result.status
    (array([1.]), 'converged')
    """
    n_rows = operand.n if isinstance(operand, Rows) else operand.shape[0]
    if n_rows != problem.n_rows:
        raise ValueError(f"operand has {n_rows} rows, the problem {problem.n_rows}")
    budget = Budget(max_iter, monitor)
    with worker_threads() as threads, np.errstate(over="ignore", invalid="ignore"):
        if isinstance(operand, Rows):
            return _KernelRun(problem, operand, tol, budget, cache_bytes).solve(start)
        n_features = operand.shape[1]
        if n_features > FEW_FEATURES and n_rows <= min(FEW_ROWS, n_features) and start is None:
            rows = Rows(Kernel("linear"), operand, threads=threads)
            found = _KernelRun(problem, rows, tol, budget, cache_bytes).solve(None)
            w = LinearRows(operand).combine(found.coef)
            return replace(found, coef=w, kernel_evaluations=0)
        return _solve_linear(problem, LinearRows(operand, threads=threads), tol, budget, start)


def _solve_linear(
    problem: PreferenceProblem,
    rows: LinearRows,
    tol: float,
    budget: Budget,
    start: FloatArray | None,
) -> PreferenceResult:
    w = np.zeros(rows.n_features) if start is None else np.asarray(start, dtype=np.float64)
    width = 1.0
    dense = _curvature(problem, rows)
    if dense is not None and not dense.whole and start is None:
        w, width = _start_from_sample(dense, max(tol, SAMPLE_GAP), budget)
    space = FeatureSpace(rows, problem, dense)
    polish = Polish(problem, dense.features) if dense is not None and dense.whole else None
    descent = Descent(problem, space, tol, budget, space.at(w), width, polish)
    status = descent.run()
    w = descent.best.coef
    image = rows.dot(rows.combine(problem.response(descent.point).beta))
    f, norm2 = rows.dot(w), float(w @ w)
    hidden = problem.rounding(descent.point, image) / max(1.0, abs(descent.primal))
    if status == "converged" and descent.gap + hidden > tol:
        status = "stalled"
    return PreferenceResult(w, f, norm2, descent.point, image, max(1, budget.used), status)


def _curvature(problem: PreferenceProblem, rows: LinearRows) -> DenseCurvature | None:
    """Return the curvature as a matrix where there are few features, from a sample of many rows."""
    if rows.n_features > FEW_FEATURES:
        return None
    some = _sample(problem, max(SAMPLE_ROWS, SAMPLE_PER_FEATURE * rows.n_features))
    X = rows.X[some]
    features = np.asarray(X.toarray() if rows.sparse else X, dtype=np.float64)
    return DenseCurvature(problem, features, some)


def _sample(problem: PreferenceProblem, size: int) -> IntArray:
    """Return about so many rows at random: of every group, or all rows of some where they are many.

    All rows are returned where the sample would be half of them, or would have no pair.
    """
    n, n_groups = problem.n_rows, len(problem.starts) - 1
    rng = np.random.default_rng(0)
    every = np.arange(n)
    if 2 * size > n:
        return every
    if n_groups * MANY_GROUPS > size:
        chosen = rng.random(n_groups) < size / n
        some = np.flatnonzero(chosen[problem.group])
    else:
        some = np.sort(rng.choice(n, size, replace=False))
    return some if len(some) and problem.restrict(some).n_pairs else every


def _start_from_sample(
    dense: DenseCurvature, tol: float, budget: Budget
) -> tuple[FloatArray, float]:
    """Solve the sample's own problem; return its weights and the band it ended with."""
    rows = LinearRows(dense.features)
    whole = DenseCurvature(dense.problem, dense.features, np.arange(rows.n_rows))
    space = FeatureSpace(rows, dense.problem, whole)
    origin = space.at(np.zeros(rows.n_features))
    descent = Descent(dense.problem, space, tol, budget, origin)
    descent.run()
    return descent.best.coef, descent.width


class _KernelRun:
    """A kernel machine: restricted to a basis, then in the whole space, then in float64."""

    def __init__(
        self,
        problem: PreferenceProblem,
        rows: Rows,
        tol: float,
        budget: Budget,
        cache_bytes: float,
    ) -> None:
        self.problem, self.rows, self.tol, self.budget = problem, rows, tol, budget
        self.before = rows.evaluations
        self.cache_bytes = cache_bytes
        self.product = Products(rows, cache_bytes)
        self.space = KernelSpace(self.product)

    def solve(self, start: FloatArray | None) -> PreferenceResult:
        """Run the stages until one of them reaches the tolerance in float64."""
        status = self._restricted() if start is None else self._whole(self.space.at(start), 1.0)
        if status == "stalled" and self.rows.n <= LARGEST_BASIS:
            near = self.descent.gap <= START
            width = self.descent.width if near else 1.0
            status = self._restricted(self.rows.n, self.descent.best.coef, width)
        while True:
            result = self._result(status)
            certificate = result.certificate(self.problem, self.tol)
            unbounded = certificate.dual == -np.inf  # indefinite: more steps do not help
            if certificate.converged or unbounded:
                return replace(result, status="converged")
            if status in ("max_iter", "stopped") or self.product.is_exact:
                return replace(result, status="stalled" if status == "converged" else status)
            self.product.sharpen()
            status = self._whole(Element(result.coef, result.f), self.descent.width)

    def _restricted(
        self, largest: int = 0, coef: FloatArray | None = None, width: float = 1.0
    ) -> Status:
        """Solve in the span of a basis, then in the whole space from there.

        Where the basis spans everything this ends the work; else it is but a start.
        """
        n = self.rows.n
        fits = int(0.25 * self.cache_bytes / (8 * n))
        wanted = largest or (n if n <= WHOLE_BASIS else int(PER_ROOT * np.sqrt(n)))
        basis = pivoted_basis(self.rows, max(1, min(fits, wanted)))
        coordinates = LinearRows(basis.G, threads=self.rows.threads)
        dense = DenseCurvature(self.problem, basis.G, np.arange(n))
        space = FeatureSpace(coordinates, self.problem, dense)
        begin = space.at(np.zeros(basis.G.shape[1]) if coef is None else coef @ basis.G)
        polish = Polish(self.problem, dense.features) if basis.spans else None
        tol = WITHIN * self.tol if basis.spans else max(self.tol, START)
        inner = Descent(self.problem, space, tol, self.budget, begin, width, polish)
        status = inner.run()
        at = Element(basis.coefficients(inner.best.coef), inner.best.image)
        return self._whole(at, inner.width, inner.point, go_on=status in ("converged", "stalled"))

    def _whole(
        self, at: Element, width: float, point: DualPoint | None = None, *, go_on: bool = True
    ) -> Status:
        """Go on in the whole space; where a larger basis is at hand, do not insist."""
        self.descent = Descent(self.problem, self.space, self.tol, self.budget, at, width)
        if self.rows.n <= LARGEST_BASIS:
            self.descent.patience = 1
        if point is not None:
            self.descent.consider(at, point)
        return self.descent.run() if go_on else self.budget.status

    def _result(self, status: Status) -> PreferenceResult:
        """Evaluate the best points in float64.

        The expansion of the dual point is the model where that closes the gap, for its
        coefficients are bounded; else the best vector met.
        """
        point = self.descent.point
        beta = self.problem.response(point).beta
        image = self.product.exact(beta)
        result = PreferenceResult(
            beta, image, float(beta @ image), point, image, max(1, self.budget.used), status
        )
        if not result.certificate(self.problem, self.tol).converged:
            coef = self.descent.best.coef
            f = self.product.exact(coef)
            result = replace(result, coef=coef, f=f, norm2=float(coef @ f))
        return replace(result, kernel_evaluations=self.rows.evaluations - self.before)
