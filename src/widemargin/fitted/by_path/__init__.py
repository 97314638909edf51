"""Leave-one-out of soft-margin models along solution paths.

The exact method follows the path on which a sample's coefficient is removed, event by event;
linear response is the first step of this path. `doubtful_rows` bounds the error without a path.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.multiclass import Sides
from widemargin._base.threads import worker_threads
from widemargin._base.tolerances import SUM_ROUNDING
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import LeavingRows, LeftOutValues, PairedModel, Refused, first_in
from widemargin.fitted.by_path.doubtful_rows import doubtful
from widemargin.fitted.calibration import Calibration, uninformed
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows, is_mercer
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.leave_one_out import LeaveOneOut, first_order, largest_violation, polish
from widemargin.solvers.soft_margin import padded

EXACT_ROWS = 5_000  # number of samples up to which "auto" selects "exact"
POLISHED = 1e-11  # KKT violation, relative to the targets, at the start of a path
DENSE_ROWS = 5_000  # up to this size the kernel matrix is formed
SINGULAR = (
    "leave-one-out cannot be computed: to the precision of float64 the kernel matrix of the rows "
    "on the margin is singular. Scale the features or lower C"
)


@dataclass(frozen=True, eq=False)
class Machine:
    """Fitted binary or regression submodel.

    Attributes
    ----------
    rows : ndarray
        Indices of its samples in the training set.
    problem : SoftMargin
        Problem with at most one threshold that the submodel solves.
    alpha : ndarray of shape (n_variables,)
        Dual variables.
    threshold : float
        The threshold.
    refusal : str
        Reason why the submodel does not solve such a problem and has no leave-one-out; empty if
        it does.
    held : str
        Parameters of this problem that the estimator does not have, and that change if it is
        refitted (C of a nu machine); empty if there are none.
    """

    rows: IntArray
    problem: SoftMargin
    alpha: FloatArray
    threshold: float
    refusal: str = ""
    held: str = ""


class SharedMatrix:
    """Kernel matrix and optima shared by models with the same kernel and samples.

    Parameters
    ----------
    training : Training
        Any of these models.
    threads : int
        Maximum number of threads.

    Attributes
    ----------
    optima : list of ndarray
        Dual variables of each submodel of the model evaluated last.
    seconds : float
        Time spent on kernel values and optima so far.
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
        """Return the padded kernel matrix of a submodel's samples."""
        m = len(machine.rows)
        if m == self.n:
            return self.K
        block = np.zeros((padded(m), padded(m)))
        block[:m, :m] = self.K[np.ix_(machine.rows, machine.rows)]
        return block


@dataclass(frozen=True, eq=False)
class Training(PairedModel):
    """Fitted soft-margin model: one submodel per pair or class, or one for regression.

    Attributes
    ----------
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    machines : list of Machine
        The submodels, in the order of the pairs.
    intercept : bool
        Whether there is a threshold.
    """

    data: TrainingSet
    kernel: Kernel
    centre: FloatArray | None
    pairs: Sequence[Sides]
    machines: list[Machine]
    intercept: bool
    refusal: str = ""

    methods: ClassVar[tuple[str, ...]] = (
        "exact", "linear_response", "span", "jaakkola_haussler", "support_vectors", "xi_alpha",
    )  # fmt: skip
    method_advice: ClassVar[str] = (
        '"exact" or "linear_response": this machine need not be trained again'
    )

    @property
    def held(self) -> str:
        """Parameters of an equivalent problem that leave-one-out holds; empty if none."""
        return self.machines[0].held

    def rows_of(self, machine: Machine) -> Rows:
        """Return the kernel rows of a submodel's samples."""
        X: Matrix = self.data.X
        if len(machine.rows) < X.shape[0]:
            square = np.ix_(machine.rows, machine.rows)
            X = X[square] if self.kernel.name == "precomputed" else X[machine.rows]
        return Rows(self.kernel, X, self.centre)

    # -- leave-one-out ---------------------------------------------------------------------

    def auto_method(self) -> str:
        """Return "exact" for up to EXACT_ROWS samples, else "linear_response"."""
        return "exact" if len(self.data.weight) <= EXACT_ROWS else "linear_response"

    def values(self, *, everywhere: bool = True) -> FloatArray:
        """Return the fitted values of the user's samples, one column per submodel.

        Unless `everywhere`, values of samples that a submodel was fitted to are zero, which saves
        their computation if they are replaced by leave-one-out predictions.
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
        """Write the fitted values of the training samples and of the samples of zero weight."""
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
        """Return leave-one-out predictions, exact or by linear response."""
        return self.leave_out(exact=method == "exact", chosen=chosen)

    def leave_out(
        self, *, exact: bool, chosen: BoolArray | None = None, shared: SharedMatrix | None = None
    ) -> LeftOutValues:
        """Return leave-one-out predictions; `shared` provides the kernel matrix if given."""
        for machine in self.machines:
            if machine.refusal:
                raise Refused(machine.refusal)
        n = len(self.data.weight)
        whole = len(self.machines) > 1 and all(len(m.rows) == n for m in self.machines)
        if shared is None and whole and (exact or n <= DENSE_ROWS):  # one-vs-rest
            with worker_threads() as threads:
                shared = SharedMatrix(self, threads)
        values = self.values(everywhere=chosen is not None)
        events = retrained = unfinished = 0
        violation = 0.0
        optima = []
        for k, machine in enumerate(self.machines):
            leaving = LeavingRows(self.data, machine.rows, chosen)
            if not exact and len(machine.rows) > DENSE_ROWS:
                values[leaving.given, k] = _respond(self, machine, leaving)[leaving.back]
                continue
            with worker_threads() as threads:
                started = time.perf_counter()
                with _refusing_singular():
                    model, left = _at_optimum(self, machine, threads, shared)
                    if shared is not None:
                        shared.seconds += time.perf_counter() - started
                    leave = model.exact if exact else model.linear_response
                    out = leave(leaving.rows, leaving.fraction)
            if not np.isfinite(out.values).all():
                raise Refused(SINGULAR)
            values[leaving.given, k] = out.values[leaving.back]
            events += int(out.events.sum())
            retrained += out.retrained
            unfinished += out.unfinished + (left > largest_violation(machine.problem))
            violation = max(violation, left, out.violation)
            optima.append(model.fitted)
        if shared is not None:
            shared.optima = optima
        if not exact:
            return LeftOutValues(values, events, retrained)
        if unfinished:
            warn(
                f"left-out values are estimates: {unfinished} of the machines behind them are not "
                f"at their optimum (KKT violation up to {violation:.1e}). Scale the features or "
                "lower C", ConvergenceWarning,
            )  # fmt: skip
        return LeftOutValues(values, events, retrained, unfinished, violation)

    def bounded_errors(self, method: str) -> tuple[BoolArray, str]:
        """Return a mask of the user's samples that a bound counts as errors.

        With several classes a sample counts if the bound counts it in any submodel of its class: a
        class that wins all its pairs, or is the only one with a positive value, is predicted.
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
            wrong[leaving.given] |= doubtful(self, machine, leaving, method)[leaving.back]
        return wrong, "estimate" if method == "xi_alpha" and self.intercept else "bound"

    # -- probabilities -----------------------------------------------------------------------

    def calibrations(self, method: str, purpose: str, record: Record) -> list[Calibration]:
        """Calibrate each binary submodel; one without a margin has no information."""
        blank = [bool(machine.refusal) for machine in self.machines]
        if all(blank):
            return [uninformed()] * len(blank)
        found = super().calibrations(method, purpose, record)
        return [uninformed() if none else one for none, one in zip(blank, found, strict=True)]

    # -- margins ---------------------------------------------------------------------------

    def judge(self, values: FloatArray) -> tuple[FloatArray, BoolArray | FloatArray]:
        """Return decision values and errors of the samples; absolute errors for regression."""
        if self.pairs:
            return super().judge(values)
        return values[:, 0], np.abs(self.data.given_y - values[:, 0])

    def label_margin(self, decision: FloatArray) -> tuple[FloatArray, Any]:
        """Return label margins and predictions; for regression, minus the absolute errors."""
        if self.pairs:
            return super().label_margin(decision)
        return -np.abs(self.data.given_y - decision), decision

    def most_suspicious(self, count: int) -> BoolArray:
        """Return a mask of the samples with the largest coefficients per unit of weight.

        The largest coefficient over all submodels counts. Among samples at their upper bound,
        those with the smallest margin come first.
        """
        data = self.data
        size = np.zeros(len(data.weight))
        for machine in self.machines:
            beta = np.abs(machine.problem.coefficients(machine.alpha))
            np.maximum.at(size, machine.rows, beta)
        given = np.append(size / data.weight, -1.0)[data.member]
        margin, _ = self.label_margin(self.judge(self.values())[0])
        # Rounding makes the coefficients at the upper bound equal, so that the margin decides.
        return first_in(np.lexsort((margin, -np.round(given / given.max(), 9))), count)

    def coefficient_sizes(self) -> FloatArray:
        """Return the absolute coefficients of the user's samples, one row per submodel."""
        data = self.data
        sizes = np.zeros((len(self.machines), len(data.weight) + 1))  # last: zero weight
        for own, part in zip(sizes, self.machines, strict=True):
            np.maximum.at(own, part.rows, np.abs(part.problem.coefficients(part.alpha)))
        # Equal samples were merged into one row; each gets its share of the coefficient.
        share = data.given_weight / np.append(data.weight, 1.0)[data.member]
        return sizes[:, data.member] * share


@contextmanager
def _refusing_singular() -> Iterator[None]:
    """Raise Refused for a singular matrix; ignore overflow, as the caller checks the values."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            yield
        except np.linalg.LinAlgError as error:
            raise Refused(SINGULAR) from error


def _respond(training: Training, machine: Machine, leaving: LeavingRows) -> FloatArray:
    """Return first-order leave-one-out predictions without forming the kernel matrix."""
    name = training.kernel.name
    if name == "sigmoid" or (name == "poly" and not training.kernel.is_mercer_by_name):
        _refuse(training.kernel)  # the matrix is too large to test its definiteness
    rows = training.rows_of(machine)
    with worker_threads() as rows.threads:
        return first_order(
            rows, machine.problem, machine.alpha, machine.threshold, leaving.rows, leaving.fraction
        )


def _kernel_matrix(rows: Rows) -> FloatArray:
    """Return the padded kernel matrix in float64; raise Refused if it is indefinite."""
    n = rows.n
    K = np.zeros((padded(n), padded(n)))
    rows.fill_symmetric(np.arange(n), K[:n, :n])
    if not rows.kernel.is_mercer_by_name and not is_mercer(K[:n, :n]):
        _refuse(rows.kernel)
    return K


def _at_optimum(
    training: Training, machine: Machine, threads: int, shared: SharedMatrix | None
) -> tuple[LeaveOneOut, float]:
    """Polish a submodel to its optimum as exactly as float64 allows, as paths start there.

    Returns the model and its KKT violation.
    """
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
    # Rounding errors of sums of huge kernel values bound the violation that can be reached.
    terms = float(np.abs(K[:n, :n]).max(initial=0.0) * np.abs(problem.coefficients(alpha)).sum())
    if violation > max(largest_violation(problem), SUM_ROUNDING * terms):
        raise Refused(
            f"leave-one-out needs a model at its optimum, and this one cannot be brought there: "
            f"its KKT violation is {violation:.1e}. Scale the features or lower C"
        )
    return LeaveOneOut(K, problem, alpha, threads), violation


def _refuse(kernel: Kernel) -> None:
    raise Refused(
        f"leave-one-out needs a positive semi-definite kernel, and kernel={kernel.name!r} is not "
        "one on this data (widemargin.kernels.is_mercer): use rbf, linear, or poly with a whole "
        "degree and coef0 >= 0"
    )
