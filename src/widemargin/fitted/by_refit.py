"""Left-out values of machines without a solution path: by training them again.

Only rows that a machine depends on are left out, one at a time; the others keep their fitted
values. Where there are too many rows for that, ten folds take their turns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.threads import for_each, worker_threads
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin.fitted.by_path import LeftOutValues, Tasks
from widemargin.fitted.record import (
    Plane,
    PlaneMachine,
    PlaneTraining,
    RefitMachine,
    RefittedTraining,
    RefitTraining,
)
from widemargin.kernels import Kernel, Rows

FOLDS = 10
DENSE_ROWS = 5_000  # up to this size the kernel matrix is formed
NAUGHT = np.zeros(1, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class RefitValues(LeftOutValues):
    """Left-out values and how sure they are.

    Attributes
    ----------
    unfinished : int
        Machines, the fitted ones among them, that did not reach their tolerance.
    """

    unfinished: int


def refitted_values(training: RefittedTraining, *, chosen: BoolArray | None = None) -> RefitValues:
    """Leave rows out one at a time.

    With `chosen`, a mask over the user's rows, only those are left out.
    """
    if isinstance(training, PlaneTraining):
        return _warned(_planes_without_each(training, chosen))
    data = training.data
    n = len(data.weight)
    values = fitted_values(training)
    retrained = 0
    unfinished = sum(not machine.fitted.converged for machine in training.machines)
    with worker_threads() as threads:
        seen = _at_hand(training, threads)
        for machine, columns in zip(training.machines, _columns(training), strict=True):
            needed = np.append(machine.matters(), False)[data.member]
            tasks = Tasks(data, np.arange(n), needed if chosen is None else needed & chosen)
            found = np.empty((len(tasks.rows), columns.stop - columns.start))
            done = _leave_each(machine, seen, tasks, found, threads)
            values[tasks.given, columns] = found[tasks.back]
            retrained += len(done)
            unfinished += int(np.count_nonzero(~done))
    return _warned(RefitValues(values, 0, retrained, unfinished))


def _at_hand(training: RefitTraining, threads: int) -> RefitTraining:
    """Return the training with its kernel values computed, if they are not too many."""
    data = training.data
    n = len(data.weight)
    if n > DENSE_ROWS or training.kernel.name == "precomputed":
        return training
    K = Rows(training.kernel, data.X, training.centre, threads).matrix()
    return replace(training, data=replace(data, X=K), kernel=Kernel("precomputed"), centre=None)


def _leave_each(
    machine: RefitMachine, training: RefitTraining, tasks: Tasks, out: FloatArray, threads: int
) -> BoolArray:
    """Write the value of each row by the machine without it; return which of them converged."""
    converged = np.zeros(len(tasks.rows), dtype=bool)

    def leave(task: int) -> None:
        row = tasks.rows[task : task + 1]
        kept = np.ones(len(training.data.weight))
        kept[row] = max(0.0, 1.0 - tasks.fraction[task])
        some = np.flatnonzero(kept)
        left, gone = _seen(training, some, some), _seen(training, row, some)
        refit = machine.retrained(left, kept)
        used = np.flatnonzero(refit.beta)
        out[task] = gone.weighted_sum(NAUGHT, left, used, refit.beta[used]) + refit.offset
        converged[task] = refit.converged

    for_each(leave, range(len(tasks.rows)), threads)
    return converged


def folded_values(training: RefittedTraining) -> RefitValues:
    """Leave a tenth of the rows out at a time.

    All copies of a row leave together: a weight means the same as copies.
    """
    if isinstance(training, PlaneTraining):
        return _warned(_planes_without_folds(training))
    data = training.data
    values = fitted_values(training)
    fold = folds(data.y, training.seed)
    folds_of_given = np.append(fold, -1)[data.member]
    retrained = 0
    unfinished = sum(not machine.fitted.converged for machine in training.machines)
    for k in range(int(fold.max()) + 1):
        inside, outside = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        given = np.flatnonzero(folds_of_given == k)
        place = np.searchsorted(outside, data.member[given])
        with worker_threads() as threads:
            left = _seen(training, inside, inside, threads)
            gone = _seen(training, outside, inside, threads)
            for machine, columns in zip(training.machines, _columns(training), strict=True):
                refit = machine.retrained(left, (fold != k).astype(np.float64))
                used = np.flatnonzero(refit.beta)
                f = gone.weighted_sum(np.arange(gone.n), left, used, refit.beta[used])
                values[given, columns] = (f[:, None] + refit.offset)[place]
                retrained += 1
                unfinished += not refit.converged
    return _warned(RefitValues(values, 0, retrained, unfinished))


def folds(y: Any, seed: int) -> IntArray:
    """Return the fold of each row: every class spread over all folds, the same for a seed."""
    fold = np.empty(len(y), dtype=np.intp)
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    fold[np.concatenate(by_class)] = np.arange(len(y)) % FOLDS
    return fold


def fitted_values(training: RefittedTraining) -> FloatArray:
    """Return the values of the fitted machines on the user's rows."""
    if isinstance(training, PlaneTraining):
        return _fitted_planes(training)
    data = training.data
    columns = _columns(training)
    values = np.empty((len(data.member), columns[-1].stop))
    seen = data.member >= 0
    rows = Rows(training.kernel, data.X, training.centre)
    absent = Rows(training.kernel, data.outside, training.centre)
    with worker_threads() as threads:
        rows.threads = absent.threads = threads
        for machine, span in zip(training.machines, columns, strict=True):
            fitted = machine.fitted
            used = np.flatnonzero(fitted.beta)
            inside = rows.weighted_sum(np.arange(rows.n), rows, used, fitted.beta[used])
            outside = absent.weighted_sum(np.arange(absent.n), rows, used, fitted.beta[used])
            values[seen, span] = inside[data.member[seen], None] + fitted.offset
            values[~seen, span] = outside[:, None] + fitted.offset
    return values


def own_parts(training: RefitTraining) -> FloatArray:
    """Return what each of the user's rows adds to its own values: what (2.2) leaves out.

    Of a row that stands for several, one is left out.
    """
    data = training.data
    diagonal = Rows(training.kernel, data.X, training.centre).diagonal()
    fraction = np.minimum(1.0, data.given_weight) / np.append(data.weight, 1.0)[data.member]
    parts = np.zeros((len(data.member), _columns(training)[-1].stop))
    for machine, span in zip(training.machines, _columns(training), strict=True):
        own = np.append(machine.fitted.beta * diagonal, 0.0)[data.member]
        parts[:, span] = (fraction * own)[:, None]
    return parts


def rows_that_matter(training: RefittedTraining) -> BoolArray:
    """Return which of the user's rows any machine depends on.

    Of the others every machine says what it says as fitted, which is right: they have more margin
    than is asked for. So these are at least as many as the errors of leaving one out.
    """
    if isinstance(training, PlaneTraining):
        some = np.zeros(len(training.data.weight), dtype=bool)
        for plane in training.machines:
            some[plane.rows] |= plane.matters(training.data.X[plane.rows])
    else:
        some = np.logical_or.reduce([machine.matters() for machine in training.machines])
    return np.asarray(np.append(some, False)[training.data.member])


# -- hyperplanes between pairs of classes ---------------------------------------------------


def _plane_values(plane: Plane, X: Matrix) -> FloatArray:
    return np.asarray(X @ plane.coef, dtype=np.float64) + plane.intercept


def _fitted_planes(training: PlaneTraining) -> FloatArray:
    """Return the values of the fitted hyperplanes on the user's rows."""
    data = training.data
    values = np.empty((len(data.member), len(training.machines)))
    seen = data.member >= 0
    for k, machine in enumerate(training.machines):
        values[seen, k] = _plane_values(machine.fitted, data.X)[data.member[seen]]
        values[~seen, k] = _plane_values(machine.fitted, data.outside)
    return values


def _planes_without_each(training: PlaneTraining, chosen: BoolArray | None) -> RefitValues:
    """Leave one row out at a time of the machines of its class."""
    data = training.data
    values = _fitted_planes(training)
    retrained = 0
    unfinished = sum(not machine.fitted.converged for machine in training.machines)
    for k, machine in enumerate(training.machines):
        X = data.X[machine.rows]
        needed = np.zeros(len(data.weight) + 1, dtype=bool)  # the last: rows of zero weight
        needed[machine.rows] = machine.matters(X)
        mask = needed[data.member]
        tasks = Tasks(data, machine.rows, mask if chosen is None else mask & chosen)
        found = np.empty(len(tasks.rows))
        with worker_threads() as threads:
            done = _leave_each_plane(machine, X, tasks, found, threads)
        values[tasks.given, k] = found[tasks.back]
        retrained += len(done)
        unfinished += int(np.count_nonzero(~done))
    return RefitValues(values, 0, retrained, unfinished)


def _leave_each_plane(
    machine: PlaneMachine, X: Matrix, tasks: Tasks, out: FloatArray, threads: int
) -> BoolArray:
    """Write the value of each row by the machine without it; return which of them converged."""
    converged = np.zeros(len(tasks.rows), dtype=bool)

    def leave(task: int) -> None:
        row = tasks.rows[task : task + 1]
        kept = np.ones(X.shape[0])
        kept[row] = max(0.0, 1.0 - tasks.fraction[task])
        plane = machine.retrained(X[np.flatnonzero(kept)], kept)
        out[task] = _plane_values(plane, X[row])[0]
        converged[task] = plane.converged

    for_each(leave, range(len(tasks.rows)), threads)
    return converged


def _planes_without_folds(training: PlaneTraining) -> RefitValues:
    """Leave a tenth of the rows out at a time."""
    data = training.data
    values = _fitted_planes(training)
    fold = folds(data.y, training.seed)
    retrained = 0
    unfinished = sum(not machine.fitted.converged for machine in training.machines)
    for column, machine in enumerate(training.machines):
        X, own = data.X[machine.rows], fold[machine.rows]
        found = np.zeros(len(data.weight) + 1)
        for k in np.unique(own):
            plane = machine.retrained(X[np.flatnonzero(own != k)], (own != k).astype(np.float64))
            found[machine.rows[own == k]] = _plane_values(plane, X[np.flatnonzero(own == k)])
            retrained += 1
            unfinished += not plane.converged
        seen = np.isin(data.member, machine.rows)
        values[seen, column] = found[data.member[seen]]
    return RefitValues(values, 0, retrained, unfinished)


def _columns(training: RefitTraining) -> list[slice]:
    """Return the columns of values that belong to each machine."""
    ends = np.cumsum([0, *(len(machine.fitted.offset) for machine in training.machines)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def _seen(training: RefitTraining, rows: IntArray, columns: IntArray, threads: int = 1) -> Rows:
    """Return rows through the kernel; of a precomputed one, their values with `columns`."""
    X: Matrix = training.data.X
    X = X[np.ix_(rows, columns)] if training.kernel.name == "precomputed" else X[rows]
    return Rows(training.kernel, X, training.centre, threads)


def _warned(found: RefitValues) -> RefitValues:
    """Warn of machines that are not at their optimum."""
    if found.unfinished:
        warn(
            f"left-out values are estimates: {found.unfinished} of the machines behind them did "
            f"not reach tol ({found.retrained} were trained again). Raise max_iter or tol, or "
            "widen the kernel", ConvergenceWarning,
        )  # fmt: skip
    return found
