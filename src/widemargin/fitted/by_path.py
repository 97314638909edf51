"""Left-out values and bounds of every machine of a fitted model, row by row of the user's data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from widemargin._base.threads import worker_threads
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin._base.validation import TrainingSet
from widemargin.fitted.record import Machine, Training
from widemargin.kernels import Kernel, Rows, is_mercer
from widemargin.solvers.leave_one_out import LeaveOneOut, first_order, polish
from widemargin.solvers.soft_margin import padded

POLISHED = 1e-11  # KKT violation, relative to the size of the values, that a path starts from
UNPOLISHED = 1e-6  # beyond that the model is not at its optimum and a path would lead nowhere
TIE = 1e-9  # left-out values this small are ties: local kernels give zeros but for rounding
KERNEL_ROUNDING = 1e-6  # error of a narrow kernel's values, relative to the margin
ROUNDING = 1e-14  # error of a sum, relative to its terms
DENSE_ROWS = 5_000  # up to this size the kernel matrix is formed
BLOCK = 512
SINGULAR = (
    "leave-one-out cannot be computed: to the precision of float64 the kernel matrix of the rows "
    "on the margin is singular. Scale the features or lower C"
)


class Refused(ValueError):
    """The model is not at the optimum of a convex problem, so no path starts from it."""


@dataclass(frozen=True, eq=False)
class LeftOutValues:
    """Left-out values of the machines of a model.

    Attributes
    ----------
    values : ndarray of shape (n_given, n_machines)
        Machines that did not see a row's class answer as they were fitted.
    events : int
        Rows that changed their state, on all paths.
    retrained : int
        Paths replaced by retraining.
    """

    values: FloatArray
    events: int
    retrained: int


class Workshop:
    """Kernel values and optima that models with the same kernel and rows hand on to each other.

    Parameters
    ----------
    training : Training
        Any of these models.
    threads : int
        Threads that it may use.

    Attributes
    ----------
    optima : list of ndarray
        Dual variables of each machine of the model that was last at work here.
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


def machine_values(
    training: Training,
    *,
    exact: bool,
    chosen: BoolArray | None = None,
    workshop: Workshop | None = None,
) -> LeftOutValues:
    """Return the left-out values of all machines.

    With `chosen`, a mask over the user's rows, only those are left out: the others keep the
    values of the fitted model.
    """
    for machine in training.machines:
        if machine.refusal:
            raise Refused(machine.refusal)
    values = fitted_values(training, needed=chosen)
    events = retrained = 0
    optima = []
    for k, machine in enumerate(training.machines):
        tasks = Tasks(training.data, machine.rows, chosen)
        if not exact and len(machine.rows) > DENSE_ROWS:
            values[tasks.given, k] = _respond(training, machine, tasks)[tasks.back]
            continue
        with worker_threads() as threads:
            started = time.perf_counter()
            with _refusing_singular():
                model = _at_optimum(training, machine, threads, workshop)
                if workshop is not None:
                    workshop.seconds += time.perf_counter() - started
                leave = model.exact if exact else model.linear_response
                out = leave(tasks.rows, tasks.fraction)
        if not np.isfinite(out.values).all():
            raise Refused(SINGULAR)
        values[tasks.given, k] = out.values[tasks.back]
        events += int(out.events.sum())
        retrained += out.retrained
        optima.append(model.fitted)
    if workshop is not None:
        workshop.optima = optima
    return LeftOutValues(values, events, retrained)


@contextmanager
def _refusing_singular() -> Iterator[None]:
    """Let overflow pass, since the values are looked at; refuse what cannot be factored."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise Refused(SINGULAR) from error


class Tasks:
    """Which rows of a machine are left out, and for which of the user's rows.

    Equal rows were merged. The user's rows that a merged one stands for lose the same fraction of
    it unless their weights differ, so they share a path.
    """

    def __init__(self, data: TrainingSet, rows: IntArray, chosen: BoolArray | None) -> None:
        local = np.full(len(data.weight) + 1, -1, dtype=np.intp)
        local[rows] = np.arange(len(rows))
        row = local[data.member]  # rows of zero weight have member -1: the last entry
        present = row >= 0
        if chosen is not None:
            present &= chosen
        self.given = np.flatnonzero(present)
        merged = data.weight[data.member[self.given]]
        fraction = np.minimum(1.0, data.given_weight[self.given]) / merged
        key = row[self.given] + 0.5 * fraction
        _, first, self.back = np.unique(key, return_index=True, return_inverse=True)
        self.rows: IntArray = row[self.given][first]
        self.fraction: FloatArray = fraction[first]


def _respond(training: Training, machine: Machine, tasks: Tasks) -> FloatArray:
    """Return first-order values where the kernel matrix is too large to be formed."""
    _refuse_by_name(training.kernel)
    rows = training.rows_of(machine)
    with worker_threads() as rows.threads:
        return first_order(
            rows, machine.problem, machine.alpha, machine.threshold, tasks.rows, tasks.fraction
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
    training: Training, machine: Machine, threads: int, workshop: Workshop | None
) -> LeaveOneOut:
    """Bring a machine to its optimum, as exactly as float64 allows."""
    n, problem = len(machine.rows), machine.problem
    if workshop is None:
        rows = training.rows_of(machine)
        rows.threads = threads
        K = _kernel_matrix(rows)
    else:
        threads = workshop.threads
        K = workshop.block(machine)
    size = max(1.0, float(np.abs(problem.target).max()))
    alpha, _, violation = polish(
        K,
        problem,
        machine.alpha,
        tol=POLISHED * size,
        max_iter=max(1_000_000, 100 * n),
        threads=threads,
    )
    # Sums of huge kernel values have rounding errors that no solver can see through.
    terms = float(np.abs(K[:n, :n]).max(initial=0.0) * np.abs(problem.coefficients(alpha)).sum())
    if violation > max(UNPOLISHED * size, ROUNDING * terms):
        raise Refused(
            f"leave-one-out needs a model at its optimum, and this one cannot be brought there: "
            f"its KKT violation is {violation:.1e}. Scale the features or lower C"
        )
    return LeaveOneOut(K, problem, alpha, threads)


def _refuse_by_name(kernel: Kernel) -> None:
    """Refuse kernels that may be indefinite where the matrix is too large to find out."""
    if kernel.name == "sigmoid" or (kernel.name == "poly" and not kernel.is_mercer_by_name):
        _refuse(kernel)


def _refuse(kernel: Kernel) -> None:
    raise Refused(
        f"leave-one-out needs a positive semi-definite kernel, and kernel={kernel.name!r} is not "
        "one on this data (widemargin.kernels.is_mercer): use rbf, linear, or poly with a whole "
        "degree and coef0 >= 0"
    )


def fitted_values(training: Training, *, needed: BoolArray | None = None) -> FloatArray:
    """Return the values of the fitted machines on the user's rows.

    A machine's own rows are filled with zeros, to be overwritten, unless `needed` says that some
    of them keep their fitted values.
    """
    data, machines = training.data, training.machines
    n = len(data.weight)
    inside = np.zeros((n, len(machines)))
    outside = np.zeros((data.outside.shape[0], len(machines)))
    everything = np.arange(n)
    rows = Rows(training.kernel, data.X, training.centre)
    absent = Rows(training.kernel, data.outside, training.centre)
    with worker_threads() as rows.threads:
        for k, machine in enumerate(machines):
            beta = machine.problem.coefficients(machine.alpha)
            used = np.flatnonzero(beta)
            support = machine.rows[used]
            others = everything if needed is not None else np.setdiff1d(everything, machine.rows)
            inside[others, k] = machine.threshold + rows.weighted_sum(
                others, rows, support, beta[used]
            )
            outside[:, k] = machine.threshold + absent.weighted_sum(
                np.arange(absent.n), rows, support, beta[used]
            )
    values = np.empty((len(data.member), len(machines)))
    seen = data.member >= 0
    values[seen] = inside[data.member[seen]]
    values[~seen] = outside
    return values


# -- bounds ---------------------------------------------------------------------------------


def bounded_errors(training: Training, method: str) -> BoolArray:
    """Return which of the user's rows a bound counts as errors.

    With several classes a row is counted if any machine of its class is in doubt: a class that
    wins all its pairs is predicted.
    """
    if not training.pairs:
        raise ValueError(
            f"method={method!r} bounds the errors of classifiers; for a regressor use "
            '"exact" or "linear_response"'
        )
    if method == "jaakkola_haussler" and training.intercept:
        raise ValueError(
            'method="jaakkola_haussler" holds without an intercept only: fit with '
            'fit_intercept=False, or use "exact"'
        )
    wrong = np.zeros(len(training.data.member), dtype=bool)
    for machine in training.machines:
        tasks = Tasks(training.data, machine.rows, None)
        wrong[tasks.given] |= _doubtful(training, machine, tasks, method)[tasks.back]
    return wrong


def _doubtful(training: Training, machine: Machine, tasks: Tasks, method: str) -> BoolArray:
    """Return which tasks a bound does not acquit."""
    rows, problem = training.rows_of(machine), machine.problem
    beta = problem.coefficients(machine.alpha)
    if method == "support_vectors":
        return np.asarray(beta[tasks.rows] != 0)
    used = np.flatnonzero(beta)
    with worker_threads() as rows.threads:
        f = rows.weighted_sum(np.arange(rows.n), rows, used, beta[used])
        diagonal = rows.diagonal()
        radius = _radius(rows, diagonal, training.intercept) if method == "xi_alpha" else 0.0
    alpha = np.abs(beta)[tasks.rows]
    cap = np.maximum(problem.upper, -problem.lower)[tasks.rows]
    kept = 1.0 - tasks.fraction
    # What a row may keep of its coefficient without anything changing.
    kept_cap = np.where(np.isfinite(cap), np.where(np.isfinite(cap), cap, 0.0) * kept, 0.0)
    leaves = np.maximum(0.0, alpha - kept_cap)
    margin = (problem.target * (f + machine.threshold))[tasks.rows]
    # The bounds hold at the optimum and for exact kernel values (those of narrow kernels have few
    # digits), so margins are trusted to within what the fit has left and a little more.
    doubt = TIE + problem.kkt_violation(machine.alpha, f) + KERNEL_ROUNDING * np.abs(margin)
    if method == "jaakkola_haussler":
        return np.asarray(margin - leaves * diagonal[tasks.rows] <= doubt)
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
