r"""Active-set decomposition for soft-margin problems of any size.

Problem: see :mod:`widemargin.problems.soft_margin`; the kernel matrix is never formed.

1. *Warm start.* A random subsample, its losses scaled up, approximates the whole problem. Its
   optimum predicts which samples end at a bound. The subsample doubles until it holds all samples.
   (Alternatively `soft_margin.growing`, or no subsample.)
2. *Active set.* Samples far from the margin keep their bound (screening). Samples near it, and all
   violators of the optimality conditions, form the active set; its kernel block is in memory and
   `soft_margin.smo` solves it. The decision values of all samples are then updated for the
   coefficients that changed, in one blocked pass over float32 kernel values.
3. *Finish.* The decision values are recomputed in float64. While the KKT violation exceeds the
   tolerance, active sets are solved in float64, as in LIBSVM.

Every active set contains the maximal violating pair, so each one improves the dual objective: the
method is a decomposition method and converges for positive semi-definite kernels.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.kernels import Rows
from widemargin.kernels.row_loops import LANES
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.base import Budget, DualResult
from widemargin.solvers.soft_margin.growing import GrowingSet
from widemargin.solvers.soft_margin.smo import padded, solve_dense

FLOAT32_RANGE = 1e12  # steps with larger kernel values use float64
FLOAT64_ROWS = 1500  # up to this many samples float32 saves too little time
ALL_ACTIVE = 5000  # up to this many samples all of them are active
SAMPLE_TOL = 1.0  # KKT violation: the sampling error of a subsample exceeds a tighter tolerance
UNCERTAIN_MARGIN = 0.1  # in units of the margin: samples this close to it start between bounds
AUDIT_ROWS = 512  # screened samples recomputed in float64 to estimate the float32 error
ACTIVE_ROWS = 4096  # usual limit of an active set; 1.25 times the free variables if that is more

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
    """Solve a soft-margin problem by active sets; parameters as in `solve` of the package.

    `samples` selects the warm start for more than `ALL_ACTIVE` samples: subsamples that double, a
    subsample to which the violators of its optimum are added (see `soft_margin.growing`), or none.
    If `start` is given, no subsample is drawn.
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
    """State of one run: problem, data, budget, precision and a reusable kernel buffer."""

    def __init__(self, problem: SoftMargin, rows: Rows, tol: float, budget: Budget) -> None:
        self.problem = problem
        self.rows = rows
        self.tol = tol
        self.budget = budget
        self.memory = np.empty(0, dtype=np.uint8)
        self.steered = np.empty(0, dtype=np.intp)  # samples whose value of f is in float32
        # Precision until the finish: float32, unless the problem is small, its kernel values are
        # large, or a user's function computes them, which takes longer than float64 arithmetic.
        self.steering: type = np.float64
        if problem.n_rows > FLOAT64_ROWS and rows.tiles.thread_safe:
            largest = float(np.abs(rows.diagonal()).max())
            self.steering = np.float32 if largest < FLOAT32_RANGE else np.float64

    def decision_values(self, alpha: FloatArray, dtype: type) -> FloatArray:
        """Compute K beta on all samples from scratch."""
        everything = np.arange(self.problem.n_rows)
        if not alpha.any():
            return np.zeros(len(everything))
        beta = self.problem.coefficients(alpha)
        used = np.flatnonzero(beta)
        return self.rows.weighted_sum(everything, self.rows, used, beta[used], dtype)

    def _weighted_sum(
        self, at: IntArray, of: IntArray, beta: FloatArray, dtype: type
    ) -> FloatArray:
        """Return sum_j beta_j k(x, x_j) for the samples x in `at`, with j over `of`."""
        used = np.flatnonzero(beta)
        return self.rows.weighted_sum(at, self.rows, of[used], beta[used], dtype)

    def from_samples(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Predict alpha and f of all samples from nested subsamples that double in size."""
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
        """Predict the solution on a larger subsample, which begins with the samples of `part`."""
        m = part.n_rows
        shrink = m / len(grown)
        beta = part.coefficients(alpha)
        f = np.concatenate([f, self._weighted_sum(grown[m:], grown[:m], beta, self.steering)])
        larger = self.problem.restrict(grown, self.problem.n_rows / len(grown))
        slack = larger.target - f[larger.row]
        if part.n_groups:
            slack -= part.thresholds(f[:m])[larger.group]
        # Optimality gives alpha = slack / ridge, or without ridge a bound by the sign of the slack;
        # within UNCERTAIN_MARGIN of the margin the sign is uncertain and alpha is interpolated.
        if larger.ridge.any():
            guess = np.clip(slack / larger.ridge, larger.lower, larger.upper)
        else:
            share = np.clip(0.5 + 0.5 * slack / UNCERTAIN_MARGIN, 0.0, 1.0)
            guess = larger.lower + (larger.upper - larger.lower) * share
        guess[larger.variables_of(np.arange(m))] = alpha * shrink
        # The prediction is least certain near the margin: adjust those variables first to restore
        # the equality constraints.
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
        """Solve active sets until the KKT violation of `part` is tol; update alpha, f in place."""
        before = np.inf  # violation before the last solve with all samples active
        budget, threads = self.budget, self.rows.threads
        while budget.status == "converged":
            violation = part.kkt_violation(alpha, f)
            # A solve of all samples that does not reduce the violation is limited by rounding.
            if violation <= tol or violation >= 0.999 * before:
                return
            active = self._active_rows(part, alpha, f, violation, dtype)
            used = budget.used
            K = self._kernel_block(sample[active], dtype)
            if len(active) == part.n_rows:
                # Small problems are solved beyond tol: it costs little, and the error of the
                # objective falls with the square of the violation.
                inner_tol = (0.05 if self.steering is np.float64 else 0.5) * tol
                solve_dense(K, part, alpha, f, tol=inner_tol, budget=budget, threads=threads)
                before = violation
            else:  # the next active set changes the scores again: tol would be wasted effort
                inner_tol = max(0.3 * tol, 0.03 * violation)
                variables, within = part.variables_of(active), part.restrict(active)
                moved, g = alpha[variables], f[active]
                solve_dense(K, within, moved, g, tol=inner_tol, budget=budget, threads=threads)
                change = within.coefficients(moved - alpha[variables])
                f += self._weighted_sum(sample, sample[active], change, dtype)
                alpha[variables] = moved
            if budget.used == used:
                return  # no pair step improves the objective in this precision

    def _kernel_block(self, rows: IntArray, dtype: type) -> RealArray:
        """Return the kernel block of some samples, zero-padded, in a buffer reused by calls."""
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
        """Select the active set: violators, free samples and those nearest to the margin."""
        # LANES is the padding of the block, see `padded`.
        affordable = int(np.sqrt(self.budget.cache_bytes / np.dtype(dtype).itemsize)) - LANES
        if part.n_rows <= min(ALL_ACTIVE, affordable):
            return np.arange(part.n_rows)
        urgency = _urgency(part, alpha, f)
        wanted = int(np.count_nonzero(urgency > -min(UNCERTAIN_MARGIN, violation)))
        free = int(np.count_nonzero((alpha < part.upper) & (alpha > part.lower)))
        # A free variable outside the active set would stay at a value that is not optimal: the
        # limit grows with their number.
        size = min(
            max(1024, min(wanted, max(ACTIVE_ROWS, free + free // 4))),
            max(256, affordable),
            part.n_rows,
        )
        most_urgent = np.argpartition(-urgency, size - 1)[:size]
        return np.union1d(most_urgent, part.row[_extremes(part, alpha, f)])

    def finish(self, alpha: FloatArray, f: FloatArray) -> DualResult:
        """Solve on all samples, verify in float64, and repeat until the tolerance is met."""
        everything = np.arange(self.problem.n_rows)
        violation = np.inf
        precision = self.steering
        while True:
            self.improve(self.problem, everything, alpha, f, precision, 0.9 * self.tol)
            self._shorten(alpha, f)
            # Steps preserve the equality constraints up to rounding; restore them exactly.
            alpha = self.problem.repair(
                alpha, np.maximum(self.problem.lower - alpha, alpha - self.problem.upper)
            )
            f = self.exact_values(alpha, f)
            before, violation = violation, self.problem.kkt_violation(alpha, f)
            status = self.budget.status
            if violation > self.tol and precision is np.float64 and violation > 0.5 * before:
                status = "stalled" if status == "converged" else status
            if violation <= self.tol or status != "converged":
                f = self.completed(alpha, f)
                return DualResult(alpha=alpha, f=f, n_iter=max(1, self.budget.used), status=status)
            # Starting from exact values, float32 errors are relative to the remaining correction:
            # one more float32 round may suffice. Switch when it stops reducing the violation.
            precision = np.float64 if violation > 0.25 * before else precision

    def _shorten(self, alpha: FloatArray, f: FloatArray) -> None:
        """Scale alpha with a negative dual objective to the maximum on its ray, in place.

        A prediction from a subsample, or a start for another problem, can be worse than zero. Few
        steps mend this as a rule; if they do not, the next ones start from here. (Scaled down
        before any step, all variables at their bounds would be free, and the active set large.)
        """
        problem = self.problem
        if problem.totals.any() or not alpha.any():
            return
        linear = float(problem.target @ alpha)
        curve = float(problem.coefficients(alpha) @ f + problem.ridge @ (alpha * alpha))
        if 0.0 < linear < 0.5 * curve:
            alpha *= linear / curve
            f *= linear / curve
        elif linear <= 0.0:
            alpha[:] = 0.0
            f[:] = 0.0

    def exact_values(self, alpha: FloatArray, f: FloatArray) -> FloatArray:
        """Recompute K beta in float64 for all samples that can affect the KKT violation.

        These are the support vectors and every sample whose distance from a violation is at most
        `tol` plus 100 times the float32 error. The error is the largest one observed on the support
        vectors and on a random subsample of the others; the remaining values stay in float32.
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
        self.steered = np.setdiff1d(others, np.concatenate([audit, near]), assume_unique=True)
        return exact

    def completed(self, alpha: FloatArray, f: FloatArray) -> FloatArray:
        """Recompute the remaining values in float64, for the certificate."""
        beta = self.problem.coefficients(alpha)
        if len(self.steered):
            f[self.steered] = self._weighted_sum(self.steered, np.arange(len(f)), beta, np.float64)
        return f


def _urgency(part: SoftMargin, alpha: FloatArray, f: FloatArray) -> FloatArray:
    """Return the KKT violation per sample; if negative, minus the distance from a violation."""
    score = part.scores(alpha, f)
    if part.n_groups:
        score -= part.thresholds(f)[part.group]
    rising = np.where(alpha < part.upper, score, -np.inf)
    falling = np.where(alpha > part.lower, -score, -np.inf)
    return np.maximum(rising, falling).reshape(-1, part.n_rows).max(axis=0)


def _extremes(part: SoftMargin, alpha: FloatArray, f: FloatArray) -> IntArray:
    """Return the maximal violating pair of each group; it guarantees progress of an active set."""
    score = part.scores(alpha, f)
    up, down = alpha < part.upper, alpha > part.lower
    found = []
    for g in range(max(1, part.n_groups)):
        member = part.group == g
        found.append(np.argmax(np.where(up & member, score, -np.inf)))
        found.append(np.argmin(np.where(down & member, score, np.inf)))
    return np.array(found)
