r"""Solve kernel machines of any size on an active set: the rows near the margin.

Problem: see :mod:`widemargin.problems.soft_margin`; the kernel matrix is never formed.

1. *Start.* A random sample with its losses scaled up stands for the whole. Its optimum predicts
   which rows end at a bound. Samples double. (Or `soft_margin.growing`, or no sample at all.)
2. *Active set.* Rows far from the margin keep their bound; the rows near it, and all that violate
   the optimality conditions, form the active set, whose kernel block is in memory and which
   `soft_margin.smo` solves. The decision values of all rows then follow from the
   coefficients that changed, in one blocked pass of float32 kernel values.
3. *Finish.* The decision values are evaluated afresh in float64. Where the violation still
   exceeds the tolerance, the active sets go on in float64, as LIBSVM would, until it does not.

Every active set holds the most violating pair, so each one improves the dual objective: the method
is a decomposition method and converges for positive semi-definite kernels.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, DualResult
from widemargin.solvers.soft_margin.growing import GrowingSet
from widemargin.solvers.soft_margin.smo import padded, solve_dense
from widemargin.solvers.soft_margin.smo_loops import LANES

FLOAT32_RANGE = 1e12  # kernel values beyond this are steered in float64
FLOAT64_ROWS = 1500  # up to this size float64 costs nothing worth saving
ALL_ACTIVE = 5000  # up to this size all rows are active
SAMPLE_TOL = 1.0  # a sample predicts no better, so there is no use in solving it further
UNCERTAIN_MARGIN = 0.1  # in units of the margin: a new row this near to it is undecided
AUDIT_ROWS = 512  # rows beyond doubt that the float64 check evaluates all the same
ACTIVE_ROWS = 4096  # unless the free variables and a quarter more need more

Samples: TypeAlias = Literal["doubling", "violators", "none"]


def solve(
    problem: SoftMargin,
    rows: Rows,
    *,
    tol: float,
    budget: Budget,
    start: DualResult | None = None,
    samples: Samples = "doubling",
    seed: int = 0,
) -> DualResult:
    """Solve a soft-margin problem as the door of the package does.

    `samples` tells how more than `ALL_ACTIVE` rows are approached: by samples that double, by a
    sample that the violators of its optimum join (see `soft_margin.growing`), or not by samples;
    with a start no sample is drawn.
    """
    problem = problem.bounded()
    from_zero = start is None and (problem.n_rows <= ALL_ACTIVE or samples == "none")
    guess = None if start is None else start.alpha
    if from_zero:
        guess = np.zeros(problem.n_variables)
    alpha = None if guess is None else problem.repair(guess)
    run = _Run(problem, rows, tol, budget)
    if alpha is None and samples == "violators":
        growing = GrowingSet(problem, rows, tol, budget, run.steering)
        alpha = growing.run(np.random.default_rng(seed))
    if alpha is None:
        return run.finish(*run.from_samples(np.random.default_rng(seed)))
    return run.finish(alpha, run.decision_values(alpha, np.float64 if from_zero else run.steering))


class _Run:
    """One run of the solver: the problem, its data and what is left of the budget."""

    def __init__(self, problem: SoftMargin, rows: Rows, tol: float, budget: Budget) -> None:
        self.problem = problem
        self.rows = rows
        self.tol = tol
        self.budget = budget
        self.memory = np.empty(0, dtype=np.uint8)
        # Precision until the finish: float32, unless the problem is small, its kernel values are
        # large, or they come from a user's function, which costs more than float64.
        self.steering: type = np.float64
        if problem.n_rows > FLOAT64_ROWS and rows.tiles.thread_safe:
            largest = float(np.abs(rows.diagonal()).max())
            self.steering = np.float32 if largest < FLOAT32_RANGE else np.float64

    def decision_values(self, alpha: FloatArray, dtype: type) -> FloatArray:
        """Return K beta on every row, evaluated afresh."""
        everything = np.arange(self.problem.n_rows)
        if not alpha.any():
            return np.zeros(len(everything))
        beta = self.problem.coefficients(alpha)
        used = np.flatnonzero(beta)
        return self.rows.weighted_sum(everything, self.rows, used, beta[used], dtype)

    def _weighted_sum(
        self, at: IntArray, of: IntArray, beta: FloatArray, dtype: type
    ) -> FloatArray:
        """Return sum_j beta_j k(x, x_j) on the rows `at`, j over the rows `of`."""
        used = np.flatnonzero(beta)
        return self.rows.weighted_sum(at, self.rows, of[used], beta[used], dtype)

    def from_samples(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return variables and decision values of all rows, predicted by growing samples."""
        n = self.problem.n_rows
        order = rng.permutation(n)
        sizes = [n]
        while sizes[0] > ALL_ACTIVE:
            sizes.insert(0, (sizes[0] + 1) // 2)
        sample = order[: sizes[0]]
        part = self.problem.restrict(sample, n / len(sample))
        alpha = part.repair(np.zeros(part.n_variables))
        f = self._weighted_sum(sample, sample, part.coefficients(alpha), self.steering)
        for size in sizes[1:]:
            self.improve(part, sample, alpha, f, self.steering, SAMPLE_TOL)
            part, alpha, f = self._grow(part, alpha, f, order[:size])
            sample = order[:size]
        back = np.empty(n, dtype=np.intp)
        back[order] = np.arange(n)
        return alpha[part.variables_of(back)], f[back]

    def _grow(
        self, part: SoftMargin, alpha: FloatArray, f: FloatArray, grown: IntArray
    ) -> tuple[SoftMargin, FloatArray, FloatArray]:
        """Predict the solution on a larger sample, whose first rows are those of part."""
        m = part.n_rows
        shrink = m / len(grown)
        beta = part.coefficients(alpha)
        f = np.concatenate([f, self._weighted_sum(grown[m:], grown[:m], beta, self.steering)])
        larger = self.problem.restrict(grown, self.problem.n_rows / len(grown))
        slack = larger.target - f[larger.row]
        if part.n_groups:
            slack -= part.thresholds(f[:m])[larger.group]
        if larger.ridge.any():
            guess = np.clip(slack / larger.ridge, larger.lower, larger.upper)
        else:
            share = np.clip(0.5 + 0.5 * slack / UNCERTAIN_MARGIN, 0.0, 1.0)
            guess = larger.lower + (larger.upper - larger.lower) * share
        guess[larger.variables_of(np.arange(m))] = alpha * shrink
        # Near the margin the prediction is least certain: let those rows balance the sums.
        guess = larger.repair(guess, np.abs(slack))
        change = larger.coefficients(guess).copy()
        change[:m] -= beta * shrink
        f = f * shrink + self._weighted_sum(grown, grown, change, self.steering)
        return larger, guess, f

    def improve(
        self,
        part: SoftMargin,
        sample: IntArray,
        alpha: FloatArray,
        f: FloatArray,
        dtype: type,
        tol: float,
    ) -> None:
        """Solve active sets (alpha and f change in place) until the violation of part is tol."""
        before = np.inf  # the violation when all rows were solved for, if they were
        budget, threads = self.budget, self.rows.threads
        while budget.status == "converged":
            violation = part.kkt_violation(alpha, f)
            if violation <= tol or violation >= 0.999 * before:
                return
            active = self._active_rows(part, alpha, f, violation, dtype)
            used = budget.used
            K = self._kernel_block(sample[active], dtype)
            if len(active) == part.n_rows:
                # Small problems are solved further than asked: it costs little, and the
                # objective's error falls with the square of the violation.
                inner_tol = (0.05 if self.steering is np.float64 else 0.5) * tol
                solve_dense(K, part, alpha, f, tol=inner_tol, budget=budget, threads=threads)
                before = violation
            else:  # the other rows move the target, so that there is no use in solving to tol
                inner_tol = max(0.3 * tol, 0.03 * violation)
                variables, within = part.variables_of(active), part.restrict(active)
                moved, g = alpha[variables], f[active]
                solve_dense(K, within, moved, g, tol=inner_tol, budget=budget, threads=threads)
                change = within.coefficients(moved - alpha[variables])
                f += self._weighted_sum(sample, sample[active], change, dtype)
                alpha[variables] = moved
            if budget.used == used:
                return  # rounding leaves nothing to gain in this precision

    def _kernel_block(self, rows: IntArray, dtype: type) -> RealArray:
        """Return k(rows, rows), zero in its padding, in memory that the next call uses again."""
        m, side = len(rows), padded(len(rows))
        needed = side * side * np.dtype(dtype).itemsize
        if len(self.memory) < needed:
            self.memory = np.empty(needed, dtype=np.uint8)
        K: RealArray = self.memory[:needed].view(dtype).reshape(side, side)
        K[m:] = 0
        K[:m, m:] = 0
        self.rows.fill_symmetric(rows, K[:m, :m])
        return K

    def _active_rows(
        self, part: SoftMargin, alpha: FloatArray, f: FloatArray, violation: float, dtype: type
    ) -> IntArray:
        """Rows to solve for: violators, free ones and those nearest to the margin."""
        affordable = int(np.sqrt(self.budget.cache_bytes / np.dtype(dtype).itemsize)) - LANES
        if part.n_rows <= min(ALL_ACTIVE, affordable):
            return np.arange(part.n_rows)
        urgency = _urgency(part, alpha, f)
        wanted = int(np.count_nonzero(urgency > -min(UNCERTAIN_MARGIN, violation)))
        free = int(np.count_nonzero((alpha < part.upper) & (alpha > part.lower)))
        size = min(
            max(1024, min(wanted, max(ACTIVE_ROWS, free + free // 4))),
            max(256, affordable),
            part.n_rows,
        )
        most_urgent = np.argpartition(-urgency, size - 1)[:size]
        return np.union1d(most_urgent, part.row[_extremes(part, alpha, f)])

    def finish(self, alpha: FloatArray, f: FloatArray) -> DualResult:
        """Solve on all rows and check in float64; where that fails go on, in float64 at last."""
        everything = np.arange(self.problem.n_rows)
        violation = np.inf
        precision = self.steering
        while True:
            self.improve(self.problem, everything, alpha, f, precision, 0.9 * self.tol)
            # Steps keep the sums of the groups up to rounding; here they are made exact.
            alpha = self.problem.repair(
                alpha, np.maximum(self.problem.lower - alpha, alpha - self.problem.upper)
            )
            f = self.exact_values(alpha, f)
            before, violation = violation, self.problem.kkt_violation(alpha, f)
            status = self.budget.status
            if violation > self.tol and precision is np.float64 and violation > 0.5 * before:
                status = "stalled" if status == "converged" else status
            if violation <= self.tol or status != "converged":
                return DualResult(alpha=alpha, f=f, n_iter=max(1, self.budget.used), status=status)
            # From exact values, float32 errs by a fraction of the correction only: try that once.
            precision = np.float64 if violation > 0.25 * before else precision

    def exact_values(self, alpha: FloatArray, f: FloatArray) -> FloatArray:
        """Return K beta in float64 on every row where its value matters.

        That is, on the support vectors and on all rows whose slack is not beyond doubt. The
        others, whose loss is zero with a distance of a hundred times the largest error seen in
        their float32 values (by those rows and a random sample of the others), keep them.
        """
        if self.steering is np.float64:
            return self.decision_values(alpha, np.float64)
        problem, rows = self.problem, self.rows
        beta = problem.coefficients(alpha)
        support = np.flatnonzero(beta)
        exact = f.copy()
        exact[support] = rows.symmetric_sum(support, beta[support])
        others = np.flatnonzero(beta == 0)
        audit = np.random.default_rng(0).permutation(others)[:AUDIT_ROWS]
        exact[audit] = self._weighted_sum(audit, support, beta[support], np.float64)
        error = np.abs(exact - f).max()
        doubtful = _urgency(problem, alpha, exact) > -(self.tol + 100.0 * error)
        doubtful[support] = False
        doubtful[audit] = False
        near = np.flatnonzero(doubtful)
        exact[near] = self._weighted_sum(near, support, beta[support], np.float64)
        return exact


def _urgency(part: SoftMargin, alpha: FloatArray, f: FloatArray) -> FloatArray:
    """For each row: positive where it violates (or is free), else how far it is from doing so."""
    score = part.scores(alpha, f)
    if part.n_groups:
        score -= part.thresholds(f)[part.group]
    rising = np.where(alpha < part.upper, score, -np.inf)
    falling = np.where(alpha > part.lower, -score, -np.inf)
    return np.maximum(rising, falling).reshape(-1, part.n_rows).max(axis=0)


def _extremes(part: SoftMargin, alpha: FloatArray, f: FloatArray) -> IntArray:
    """Variables of the most violating pair of each group: with them every active set gains."""
    score = part.scores(alpha, f)
    up, down = alpha < part.upper, alpha > part.lower
    found = []
    for g in range(max(1, part.n_groups)):
        member = part.group == g
        found.append(np.argmax(np.where(up & member, score, -np.inf)))
        found.append(np.argmin(np.where(down & member, score, np.inf)))
    return np.array(found)
