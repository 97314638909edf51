"""Models at the optimum of a `SoftMargin`: leave samples out along solution paths.

Exact values follow the path of each sample out of the problem, event by event; the linear response
is the first step of it. The bounds of the leave-one-out error need no path at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import KERNEL_ROUNDING, SUM_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import TIE, LeavingRows, LeftOutValues, PairedModel, Refused, first_in
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows, is_mercer
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.leave_one_out import LeaveOneOut, first_order, polish
from widemargin.solvers.soft_margin import padded

EXACT_ROWS = 5_000  # "auto" follows the paths of so many samples
POLISHED = 1e-11  # KKT violation, relative to the size of the values, that a path starts from
UNPOLISHED = 1e-6  # beyond that the model is not at its optimum and a path would lead nowhere
DENSE_ROWS = 5_000  # up to this size the kernel matrix is formed
BLOCK = 512
SINGULAR = (
    "leave-one-out cannot be computed: to the precision of float64 the kernel matrix of the rows "
    "on the margin is singular. Scale the features or lower C"
)


@dataclass(frozen=True, eq=False)
class Machine:
    """One binary or regression machine as it was trained.

    Attributes
    ----------
    rows : ndarray
        Rows of the training set that it saw.
    problem : SoftMargin
        A problem with at most one threshold whose optimum the machine is.
    alpha : ndarray of shape (n_variables,)
        Its dual variables.
    threshold : float
        Its threshold.
    refusal : str
        Why there is no such problem, and hence no leave-one-out; empty where there is one.
    """

    rows: IntArray
    problem: SoftMargin
    alpha: FloatArray
    threshold: float
    refusal: str = ""


class SharedMatrix:
    """Kernel matrix and optima that models with the same kernel and samples share.

    Parameters
    ----------
    training : Training
        Any of these models.
    threads : int
        Threads that it may use.

    Attributes
    ----------
    optima : list of ndarray
        Dual variables of each machine of the model that was evaluated last.
    seconds : float
        Time that kernel values and optima have taken so far.
    """

    def __init__(self, training: Training, threads: int) -> None:
        started = time.perf_counter()
        rows = Rows(training.kernel, training.data.X, training.centre, threads)
        self.n = rows.n
        self.threads = threads
        self.K = _kernel_matrix(rows)
        self.optima: list[FloatArray] = []
        self.seconds = time.perf_counter() - started

    def block(self, machine: Machine) -> FloatArray:
        """Return the kernel matrix of a machine's rows, padded."""
        m = len(machine.rows)
        if m == self.n:
            return self.K
        block = np.zeros((padded(m), padded(m)))
        block[:m, :m] = self.K[np.ix_(machine.rows, machine.rows)]
        return block


@dataclass(frozen=True, eq=False)
class Training(PairedModel):
    """Machines that are optima of a `SoftMargin`, one per pair of classes or one for regression.

    Attributes
    ----------
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    machines : list of Machine
        In the order of the pairs.
    intercept : bool
        Whether there is a threshold.
    """

    data: TrainingSet
    kernel: Kernel
    centre: FloatArray | None
    pairs: list[tuple[int, int]]
    machines: list[Machine]
    intercept: bool
    refusal: str = ""

    methods: ClassVar[tuple[str, ...]] = (
        "exact", "linear_response", "span", "jaakkola_haussler", "support_vectors", "xi_alpha",
    )  # fmt: skip
    method_advice: ClassVar[str] = (
        '"exact" or "linear_response": this machine need not be trained again'
    )

    def rows_of(self, machine: Machine) -> Rows:
        """Return the rows of a machine seen through the kernel."""
        X: Matrix = self.data.X
        if len(machine.rows) < X.shape[0]:
            square = np.ix_(machine.rows, machine.rows)
            X = X[square] if self.kernel.name == "precomputed" else X[machine.rows]
        return Rows(self.kernel, X, self.centre)

    # -- leave-one-out ---------------------------------------------------------------------

    def auto_method(self) -> str:
        """Return "exact" for so many samples that it is affordable."""
        return "exact" if len(self.data.weight) <= EXACT_ROWS else "linear_response"

    def values(self, *, everywhere: bool = True) -> FloatArray:
        """Return the values of the fitted machines on the user's samples, a column each.

        Unless `everywhere`, they are zeros for the rows that a machine has seen.
        """
        data = self.data
        n = len(data.weight)
        inside = np.zeros((n, len(self.machines)))
        outside = np.zeros((data.outside.shape[0], len(self.machines)))
        if everywhere or len(outside) or any(len(machine.rows) < n for machine in self.machines):
            self._evaluate(inside, outside, everywhere)
        values = np.empty((len(data.member), len(self.machines)))
        seen = data.member >= 0
        values[seen] = inside[data.member[seen]]
        values[~seen] = outside
        return values

    def _evaluate(self, inside: FloatArray, outside: FloatArray, everywhere: bool) -> None:
        """Write the fitted values of the training rows, and of the samples of zero weight."""
        data = self.data
        everything = np.arange(len(inside))
        rows = Rows(self.kernel, data.X, self.centre)
        absent = Rows(self.kernel, data.outside, self.centre)
        with worker_threads() as rows.threads:
            for k, machine in enumerate(self.machines):
                beta = machine.problem.coefficients(machine.alpha)
                used = np.flatnonzero(beta)
                support = machine.rows[used]
                others = everything if everywhere else np.setdiff1d(everything, machine.rows)
                inside[others, k] = machine.threshold + rows.weighted_sum(
                    others, rows, support, beta[used]
                )
                outside[:, k] = machine.threshold + absent.weighted_sum(
                    np.arange(absent.n), rows, support, beta[used]
                )

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Return left-out values, exact ones or those of the first step of each path."""
        return self.leave_out(exact=method == "exact", chosen=chosen)

    def leave_out(
        self, *, exact: bool, chosen: BoolArray | None = None, shared: SharedMatrix | None = None
    ) -> LeftOutValues:
        """Return left-out values, with the kernel values and optima of similar models if given."""
        for machine in self.machines:
            if machine.refusal:
                raise Refused(machine.refusal)
        values = self.values(everywhere=chosen is not None)
        events = retrained = 0
        optima = []
        for k, machine in enumerate(self.machines):
            leaving = LeavingRows(self.data, machine.rows, chosen)
            if not exact and len(machine.rows) > DENSE_ROWS:
                values[leaving.given, k] = _respond(self, machine, leaving)[leaving.back]
                continue
            with worker_threads() as threads:
                started = time.perf_counter()
                with _refusing_singular():
                    model = _at_optimum(self, machine, threads, shared)
                    if shared is not None:
                        shared.seconds += time.perf_counter() - started
                    leave = model.exact if exact else model.linear_response
                    out = leave(leaving.rows, leaving.fraction)
            if not np.isfinite(out.values).all():
                raise Refused(SINGULAR)
            values[leaving.given, k] = out.values[leaving.back]
            events += int(out.events.sum())
            retrained += out.retrained
            optima.append(model.fitted)
        if shared is not None:
            shared.optima = optima
        return LeftOutValues(values, events, retrained)

    def bounded_errors(self, method: str) -> tuple[BoolArray, str]:
        """Return which of the user's samples a bound counts as errors.

        With several classes a sample is counted if any machine of its class is in doubt: a class
        that wins all its pairs is predicted.
        """
        if not self.pairs:
            raise ValueError(
                f"method={method!r} bounds the errors of classifiers; for a regressor use "
                '"exact" or "linear_response"'
            )
        if method == "jaakkola_haussler" and self.intercept:
            raise ValueError(
                'method="jaakkola_haussler" holds without an intercept only: fit with '
                'fit_intercept=False, or use "exact"'
            )
        wrong = np.zeros(len(self.data.member), dtype=bool)
        for machine in self.machines:
            leaving = LeavingRows(self.data, machine.rows, None)
            wrong[leaving.given] |= _doubtful(self, machine, leaving, method)[leaving.back]
        return wrong, "estimate" if method == "xi_alpha" and self.intercept else "bound"

    # -- margins ---------------------------------------------------------------------------

    def judge(self, values: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
        """Turn the values of the machines into decision values and errors of the samples."""
        if self.pairs:
            return super().judge(values)
        return values[:, 0], np.abs(self.data.given_y - values[:, 0])

    def label_margin(self, decision: FloatArray) -> tuple[FloatArray, Any]:
        """Return the margin of each label and the prediction; minus the error for regression."""
        if self.pairs:
            return super().label_margin(decision)
        return -np.abs(self.data.given_y - decision), decision

    def most_suspicious(self, count: int) -> BoolArray:
        """Mark the samples with the largest coefficients, per unit of weight, of any machine.

        Among those at the cap of the hinge, the worst fitted ones.
        """
        data = self.data
        size = np.zeros(len(data.weight))
        for machine in self.machines:
            beta = np.abs(machine.problem.coefficients(machine.alpha))
            np.maximum.at(size, machine.rows, beta)
        given = np.append(size / data.weight, -1.0)[data.member]
        margin, _ = self.label_margin(self.judge(self.values())[0])
        # Coefficients that differ by rounding are equal: those at the cap.
        return first_in(np.lexsort((margin, -np.round(given / given.max(), 9))), count)

    def coefficient_sizes(self) -> FloatArray:
        """Return the absolute coefficients of the user's samples, a row per machine."""
        data = self.data
        sizes = np.zeros((len(self.machines), len(data.weight) + 1))  # the last: no weight
        for own, part in zip(sizes, self.machines, strict=True):
            np.maximum.at(own, part.rows, np.abs(part.problem.coefficients(part.alpha)))
        # Equal samples are one row of the problem: each has its share of the coefficient.
        share = data.given_weight / np.append(data.weight, 1.0)[data.member]
        return sizes[:, data.member] * share


@contextmanager
def _refusing_singular() -> Iterator[None]:
    """Let overflow pass, since the values are looked at; refuse what cannot be factored."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise Refused(SINGULAR) from error


def _respond(training: Training, machine: Machine, leaving: LeavingRows) -> FloatArray:
    """Return first-order values where the kernel matrix is too large to be formed."""
    name = training.kernel.name
    if name == "sigmoid" or (name == "poly" and not training.kernel.is_mercer_by_name):
        _refuse(training.kernel)  # the matrix is too large to find out
    rows = training.rows_of(machine)
    with worker_threads() as rows.threads:
        return first_order(
            rows, machine.problem, machine.alpha, machine.threshold, leaving.rows, leaving.fraction
        )


def _kernel_matrix(rows: Rows) -> FloatArray:
    """Return the padded kernel matrix in float64; refuse one that is indefinite."""
    n = rows.n
    K = np.zeros((padded(n), padded(n)))
    rows.fill_symmetric(np.arange(n), K[:n, :n])
    if not rows.kernel.is_mercer_by_name and not is_mercer(K[:n, :n]):
        _refuse(rows.kernel)
    return K


def _at_optimum(
    training: Training, machine: Machine, threads: int, shared: SharedMatrix | None
) -> LeaveOneOut:
    """Bring a machine to its optimum, as exactly as float64 allows."""
    n, problem = len(machine.rows), machine.problem
    if shared is None:
        rows = training.rows_of(machine)
        rows.threads = threads
        K = _kernel_matrix(rows)
    else:
        threads = shared.threads
        K = shared.block(machine)
    size = max(1.0, float(np.abs(problem.target).max()))
    steps = max(1_000_000, 100 * n)
    alpha, _, violation = polish(
        K, problem, machine.alpha, tol=POLISHED * size, max_iter=steps, threads=threads
    )
    # Sums of huge kernel values have rounding errors that no solver can see through.
    terms = float(np.abs(K[:n, :n]).max(initial=0.0) * np.abs(problem.coefficients(alpha)).sum())
    if violation > max(UNPOLISHED * size, SUM_ROUNDING * terms):
        raise Refused(
            f"leave-one-out needs a model at its optimum, and this one cannot be brought there: "
            f"its KKT violation is {violation:.1e}. Scale the features or lower C"
        )
    return LeaveOneOut(K, problem, alpha, threads)


def _refuse(kernel: Kernel) -> None:
    raise Refused(
        f"leave-one-out needs a positive semi-definite kernel, and kernel={kernel.name!r} is not "
        "one on this data (widemargin.kernels.is_mercer): use rbf, linear, or poly with a whole "
        "degree and coef0 >= 0"
    )


# -- bounds ---------------------------------------------------------------------------------


def _doubtful(training: Training, machine: Machine, leaving: LeavingRows, method: str) -> BoolArray:
    """Return which rows a bound does not acquit."""
    rows, problem = training.rows_of(machine), machine.problem
    beta = problem.coefficients(machine.alpha)
    if method == "support_vectors":
        return np.asarray(beta[leaving.rows] != 0)
    used = np.flatnonzero(beta)
    with worker_threads() as rows.threads:
        f = rows.weighted_sum(np.arange(rows.n), rows, used, beta[used])
        diagonal = rows.diagonal()
        radius = _radius(rows, diagonal, training.intercept) if method == "xi_alpha" else 0.0
    alpha = np.abs(beta)[leaving.rows]
    cap = np.maximum(problem.upper, -problem.lower)[leaving.rows]
    kept = 1.0 - leaving.fraction
    # What a row may keep of its coefficient without anything changing.
    kept_cap = np.where(np.isfinite(cap), np.where(np.isfinite(cap), cap, 0.0) * kept, 0.0)
    leaves = np.maximum(0.0, alpha - kept_cap)
    margin = (problem.target * (f + machine.threshold))[leaving.rows]
    # The bounds hold at the optimum and for exact kernel values (those of narrow kernels have few
    # digits), so margins are trusted to within what the fit has left and a little more.
    doubt = TIE + problem.kkt_violation(machine.alpha, f) + KERNEL_ROUNDING * np.abs(margin)
    if method == "jaakkola_haussler":
        return np.asarray(margin - leaves * diagonal[leaving.rows] <= doubt)
    slack = np.maximum(0.0, 1.0 - margin)
    return np.asarray(2.0 * leaves * radius + slack >= 1.0 - doubt)


def _radius(rows: Rows, diagonal: FloatArray, intercept: bool) -> float:
    """R^2: the largest k(x, x); with an intercept, which hides constants, less the smallest k."""
    largest = float(diagonal.max())
    if not intercept or rows.kernel.name == "rbf":
        return largest
    everything = np.arange(rows.n)
    parts = (everything[k : k + BLOCK] for k in range(0, rows.n, BLOCK))
    return largest - min(float(rows.block(part, rows, everything).min()) for part in parts)
