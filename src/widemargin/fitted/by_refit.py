"""Leave-one-out by refitting, for models without a solution path.

Only samples that a submodel depends on are left out, one at a time; the others keep their fitted
values. Above REFIT_ROWS samples, "auto" selects ten-fold cross-validation instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.progress import bar_over
from widemargin._base.threads import for_each, worker_threads
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import TrainingSet
from widemargin.fitted.base import FOLDS, FittedModel, LeavingRows, LeftOutValues, first_in
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows

REFIT_ROWS = 500  # "auto" selects "exact" up to this size: it may refit once per sample
DENSE_ROWS = 5_000  # up to this size the kernel matrix is formed
BY_REFITS = ("exact", "folds", "support_vectors")  # methods that do not need a path


@dataclass(frozen=True, eq=False)
class Refit:
    """Kernel expansion sum_j beta_j k(x_j, x) + offset of a fitted submodel.

    Attributes
    ----------
    beta : ndarray of shape (n_rows,)
        Coefficients of the training samples.
    offset : ndarray of shape (n_columns,)
        One entry per threshold; a single zero without thresholds.
    converged : bool
        Whether the tolerance was reached.
    """

    beta: FloatArray
    offset: FloatArray
    converged: bool


class RefitMachine(Protocol):
    """Protocol of a fitted submodel that can be refitted without some of its samples.

    It was fitted to all samples of the training set, in their order.
    """

    @property
    def fitted(self) -> Refit:
        """Expansion fitted to all samples."""
        ...

    def matters(self) -> BoolArray:
        """Return a mask of the samples whose removal may change the submodel."""
        ...

    def retrained(self, rows: Rows, kept: FloatArray) -> Refit:
        """Refit with the fraction `kept` of each sample's weight, warm-started if possible.

        `rows` holds the samples with kept > 0, and the returned coefficients belong to these.
        """
        ...


class RefittedModel(FittedModel):
    """Base class of models whose leave-one-out refits their submodels.

    Subclasses define the form in which samples are passed to a submodel (its operand), and its
    evaluation.

    Attributes
    ----------
    machines : sequence
        The submodels, each with `fitted` and `retrained`.
    seed : int
        Seed of the folds.
    """

    machines: Sequence[Any]
    seed: int
    methods: ClassVar[tuple[str, ...]] = BY_REFITS
    retrains: ClassVar[bool] = True

    def _rows_of(self, machine: Any) -> IntArray:
        """Return the indices of a submodel's samples in the training set."""
        raise NotImplementedError

    def _matters(self, machine: Any) -> BoolArray:
        """Return a mask of these samples: those whose removal may change the submodel."""
        raise NotImplementedError

    def _operand(self, X: Matrix, threads: int = 1) -> Any:
        """Return samples in the form that the submodels take."""
        raise NotImplementedError

    def _evaluate(self, fitted: Any, samples: Any, trained_on: Any) -> FloatArray:
        """Evaluate a submodel on operands, with a result of shape (n, n_columns)."""
        raise NotImplementedError

    def _part(self, rows: IntArray, columns: IntArray, threads: int = 1) -> Any:
        """Return the operand of some training samples, which a submodel of `columns` takes."""
        return self._operand(self.data.X[rows], threads)

    def _columns(self) -> list[slice]:
        """Return the columns of `values` that belong to each submodel."""
        return [slice(k, k + 1) for k in range(len(self.machines))]

    def _prepared(self, threads: int) -> RefittedModel:
        """Return a model with the quantities precomputed that all refits share."""
        return self

    # -- leave-one-out -----------------------------------------------------------------------

    def auto_method(self) -> str:
        """Return "exact" for up to REFIT_ROWS samples, else "folds"."""
        return "exact" if len(self.data.weight) <= REFIT_ROWS else "folds"

    def values(self) -> FloatArray:
        """Return the fitted values of the user's samples."""
        data, columns = self.data, self._columns()
        values = np.empty((len(data.member), columns[-1].stop))
        seen = data.member >= 0
        with worker_threads() as threads:
            inside, outside = self._operand(data.X, threads), self._operand(data.outside, threads)
            for machine, span in zip(self.machines, columns, strict=True):
                fitted = machine.fitted
                values[seen, span] = self._evaluate(fitted, inside, inside)[data.member[seen]]
                values[~seen, span] = self._evaluate(fitted, outside, inside)
        return values

    def left_out(
        self, method: str, record: Record, chosen: BoolArray | None = None
    ) -> LeftOutValues:
        """Leave out one sample at a time, or a fold ("folds", unless samples are chosen)."""
        by_folds = method == "folds" and chosen is None
        found = self._without_folds() if by_folds else self._without_each(chosen)
        if found.unfinished:
            warn(
                f"left-out values are estimates: {found.unfinished} of the machines behind them "
                f"did not reach tol ({found.retrained} were trained again). Raise max_iter or tol, "
                "or widen the kernel", ConvergenceWarning,
            )  # fmt: skip
        return found

    def _without_each(self, chosen: BoolArray | None) -> LeftOutValues:
        """Leave out one sample at a time and refit the submodels that depend on it."""
        data = self.data
        values = self.values()
        retrained, unfinished = 0, self._n_unfinished()
        with worker_threads() as threads:
            prepared = self._prepared(threads)
            for machine, columns in zip(self.machines, self._columns(), strict=True):
                needed = np.zeros(len(data.weight) + 1, dtype=bool)  # last: zero weight
                needed[self._rows_of(machine)] = self._matters(machine)
                mask = needed[data.member] if chosen is None else needed[data.member] & chosen
                leaving = LeavingRows(data, self._rows_of(machine), mask)
                found = np.empty((len(leaving.rows), columns.stop - columns.start))
                done = prepared._leave_each(machine, leaving, found, threads)
                values[leaving.given, columns] = found[leaving.back]
                retrained += len(done)
                unfinished += int(np.count_nonzero(~done))
        return LeftOutValues(values, 0, retrained, unfinished)

    def _leave_each(
        self, machine: Any, leaving: LeavingRows, out: FloatArray, threads: int
    ) -> BoolArray:
        """Write the leave-one-out predictions of a submodel; return which refits converged."""
        own = self._rows_of(machine)
        converged = np.zeros(len(leaving.rows), dtype=bool)
        bar = bar_over(len(leaving.rows))

        def leave(task: int) -> None:
            row = leaving.rows[task : task + 1]
            kept = np.ones(len(own))
            kept[row] = max(0.0, 1.0 - leaving.fraction[task])
            some = own[np.flatnonzero(kept)]
            left, gone = self._part(some, some), self._part(own[row], some)
            refit = machine.retrained(left, kept)
            out[task] = self._evaluate(refit, gone, left)[0]
            converged[task] = refit.converged
            bar.advance()

        for_each(leave, range(len(leaving.rows)), threads)
        return converged

    def _without_folds(self) -> LeftOutValues:
        """Leave out one of ten folds at a time.

        All copies of a sample are in the same fold, so that weights and copies are equivalent.
        """
        data = self.data
        values = self.values()
        fold = folds(data.y, self.seed)
        retrained, unfinished = 0, self._n_unfinished()
        with worker_threads() as threads:
            for machine, columns in zip(self.machines, self._columns(), strict=True):
                rows = self._rows_of(machine)
                own = fold[rows]
                found = np.zeros((len(data.weight) + 1, columns.stop - columns.start))
                bar = bar_over(len(np.unique(own)))
                for k in np.unique(own):
                    inside, outside = rows[own != k], rows[own == k]
                    left = self._part(inside, inside, threads)
                    gone = self._part(outside, inside, threads)
                    refit = machine.retrained(left, (own != k).astype(np.float64))
                    found[outside] = self._evaluate(refit, gone, left)
                    retrained += 1
                    unfinished += not refit.converged
                    bar.advance()
                seen = np.isin(data.member, rows)
                values[seen, columns] = found[data.member[seen]]
        return LeftOutValues(values, 0, retrained, unfinished)

    def _n_unfinished(self) -> int:
        return sum(not machine.fitted.converged for machine in self.machines)

    def bounded_errors(self, method: str) -> tuple[BoolArray, str]:
        """Return a mask of the user's samples that any submodel depends on.

        The other samples keep their fitted values, and are correctly classified since their
        margins exceed the required one. So this is an upper bound of the leave-one-out errors.
        """
        some = np.zeros(len(self.data.weight) + 1, dtype=bool)  # last: zero weight
        for machine in self.machines:
            some[self._rows_of(machine)] |= self._matters(machine)
        return np.asarray(some[self.data.member]), "bound"

    def most_suspicious(self, count: int) -> BoolArray:
        """Return a mask of the samples with the smallest margins in the fitted model."""
        margin, _ = self.label_margin(self.judge(self.values())[0])
        absent = self.data.given_weight <= 0
        return first_in(np.lexsort((margin, absent)), count)


@dataclass(frozen=True, eq=False)
class RefitTraining(RefittedModel):
    """Fitted kernel expansions over all training samples, with leave-one-out by refitting.

    Attributes
    ----------
    kernel : Kernel
        The kernel with its parameters.
    centre : ndarray or None
        Origin of the rbf kernel, see `Rows`.
    machines : list of RefitMachine
        One submodel for two classes, the second of which is positive; else one-vs-rest.
    """

    data: TrainingSet
    kernel: Kernel
    centre: FloatArray | None
    machines: Sequence[RefitMachine]
    seed: int

    method_advice: ClassVar[str] = (
        f"auto, {', '.join(BY_REFITS)}: theorem 1 is not valid for the machines that are linear "
        "programs (Smola et al. 2000, below (2.9)), nor is what else rests on the optimum of a "
        "quadratic program"
    )

    def _rows_of(self, machine: RefitMachine) -> IntArray:
        return np.arange(len(self.data.weight))

    def _matters(self, machine: RefitMachine) -> BoolArray:
        return machine.matters()

    def _operand(self, X: Matrix, threads: int = 1) -> Rows:
        return Rows(self.kernel, X, self.centre, threads)

    def _part(self, rows: IntArray, columns: IntArray, threads: int = 1) -> Rows:
        X: Matrix = self.data.X
        X = X[np.ix_(rows, columns)] if self.kernel.name == "precomputed" else X[rows]
        return self._operand(X, threads)

    def _evaluate(self, fitted: Refit, samples: Rows, trained_on: Rows) -> FloatArray:
        used = np.flatnonzero(fitted.beta)
        f = samples.weighted_sum(np.arange(samples.n), trained_on, used, fitted.beta[used])
        return np.asarray(f[:, None] + fitted.offset)

    def _columns(self) -> list[slice]:
        ends = np.cumsum([0, *(len(machine.fitted.offset) for machine in self.machines)])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def _prepared(self, threads: int) -> RefitTraining:
        """Return the model with a precomputed kernel, for up to DENSE_ROWS samples."""
        data = self.data
        if len(data.weight) > DENSE_ROWS or self.kernel.name == "precomputed":
            return self
        K = Rows(self.kernel, data.X, self.centre, threads).matrix()
        return replace(self, data=replace(data, X=K), kernel=Kernel("precomputed"), centre=None)


def folds(y: Any, seed: int) -> IntArray:
    """Return the fold of each sample, stratified by class and determined by the seed."""
    fold = np.empty(len(y), dtype=np.intp)
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    fold[np.concatenate(by_class)] = np.arange(len(y)) % FOLDS
    return fold
