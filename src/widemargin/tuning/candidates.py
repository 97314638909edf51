"""Score many parameter settings by leave-one-out, sharing kernels and warm starts.

Settings of a pipeline that differ in its last step only have the same transformed rows: they are a
branch. Settings that differ in C (or epsilon, or class weights) have the same kernel matrix, and
the optimum of one is near that of the next. So the settings of a branch are grouped by their
kernel; within a group the matrix is computed once, and the machines are solved in the order of C,
each from the one before. No estimator is fitted on the way: only the best one is, at the end.
"""

from __future__ import annotations

import numbers
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.estimators._base.inspection import kernel_for, problems_for, training_set_for
from widemargin.estimators.svm import SVC, SVR
from widemargin.fitted.by_path import Machine, SharedMatrix, Training
from widemargin.fitted.record import record_of
from widemargin.kernels import Rows

SHARED_ROWS = 1_500  # beyond that, fits steer in float32 and are faster than shared float64
KERNEL = ("kernel", "gamma", "degree", "coef0", "loss", "fit_intercept")


@dataclass(frozen=True)
class Score:
    """How good one setting is.

    Attributes
    ----------
    loss : float
        Leave-one-out error rate, mean absolute error or log-loss; or minus the log evidence.
    spread : float
        Its standard error over the rows left out; nan for the evidence.
    n_left_out : int
        Number of rows left out, one at a time; 0 for the evidence.
    kind : {"exact", "estimate", "evidence", "failed"}
        As in `LOOResult`, or that there is none.
    fit_time, score_time : float
        Seconds for the optimum and for leaving rows out.
    """

    loss: float
    spread: float
    n_left_out: int
    kind: str
    fit_time: float
    score_time: float

    @staticmethod
    def of(
        losses: BoolArray | FloatArray, weight: FloatArray, kind: str, fit: float, score: float
    ) -> Score:
        """Sum up the losses of the rows, which count by their weights."""
        total = float(weight.sum())
        mean = float(weight @ losses) / total
        variance = float(weight @ (losses - mean) ** 2) / total
        spread = float(np.sqrt(variance / total))
        return Score(mean, spread, int(np.count_nonzero(weight)), kind, fit, score)


# -- settings with something in common ------------------------------------------------------


class Branch:
    """Settings with the same transformers: they share the transformed rows.

    Parameters
    ----------
    estimator : estimator
        A machine, or a pipeline that ends in one.
    settings : dict of int to dict
        Settings by their number; those of a pipeline differ in its last step only.
    X, y : array-like
        The data.
    """

    def __init__(self, estimator: Any, settings: dict[int, dict[str, Any]], X: Any, y: Any) -> None:
        self.machine, self.head, prefix = estimator, None, ""
        if is_pipeline(estimator):
            prefix = last_step(estimator) + "__"
            first = next(iter(settings.values()))
            common = {n: v for n, v in first.items() if not n.startswith(prefix)}
            changed = changed_by(estimator, common)
            self.machine = changed.steps[-1][1]
            self.head = changed[:-1] if len(changed.steps) > 1 else None
        self.settings = {
            k: {n[len(prefix) :]: v for n, v in setting.items() if n.startswith(prefix)}
            for k, setting in settings.items()
        }
        self.X, self.y = X, y
        self.failure: Exception | None = None
        self.lock = threading.Lock()

    def rows(self) -> Any:
        """Return the rows as the machine gets them; the first call fits the transformers."""
        with self.lock:
            if self.failure is not None:
                raise self.failure
            if self.head is not None:
                try:
                    self.X, self.head = self.head.fit_transform(self.X, self.y), None
                except Exception as failure:  # of all settings of this branch alike
                    self.failure = failure
                    raise
            return self.X

    def forget(self, k: int) -> None:
        """Drop a setting that is scored, and after the last one the rows."""
        with self.lock:
            del self.settings[k]
            if not self.settings:
                self.X = None

    def machine_of(self, k: int) -> Any:
        """Return the machine of a setting, not fitted."""
        return changed_by(self.machine, self.settings[k])

    def kernel_groups(self, n_rows: int) -> list[list[int]]:
        """Return groups of settings that can share a kernel, each in the order of C."""
        groups: dict[Hashable, list[int]] = {}
        for k in self.settings:
            key: Hashable = k
            if can_share(self.machine_of(k), n_rows):
                key = tuple(mark(self._value(k, name)) for name in KERNEL)
            groups.setdefault(key, []).append(k)

        def cost(k: int) -> float:
            C = self._value(k, "C")
            return float(C) if isinstance(C, numbers.Real) else 0.0

        return [sorted(group, key=cost) for group in groups.values()]

    def _value(self, k: int, name: str) -> Any:
        return self.settings[k].get(name, getattr(self.machine, name, None))


def branches(estimator: Any, settings: list[dict[str, Any]], X: Any, y: Any) -> list[Branch]:
    """Return the settings in branches: one, unless transformers are searched too."""
    prefix = last_step(estimator) + "__" if is_pipeline(estimator) else ""
    groups: dict[Hashable, dict[int, dict[str, Any]]] = {}
    for k, setting in enumerate(settings):
        common = sorted(name for name in setting if not name.startswith(prefix))
        key = tuple((name, mark(setting[name])) for name in common)
        groups.setdefault(key, {})[k] = setting
    return [Branch(estimator, group, X, y) for group in groups.values()]


def is_pipeline(estimator: Any) -> bool:
    """Tell a pipeline, without the import of its class, which would import much else."""
    return hasattr(estimator, "steps")


def last_step(pipeline: Any) -> str:
    """Return the name of the last step."""
    return str(pipeline.steps[-1][0])


def changed_by(estimator: Any, setting: dict[str, Any]) -> Any:
    """Return a copy with a setting; what the grid holds (whole steps, perhaps) stays untouched."""
    return clone(estimator).set_params(**clone(setting, safe=False))


def mark(value: Any) -> Hashable:
    """Return what tells values of a parameter apart; a grid repeats the objects that it holds."""
    plain = value is None or isinstance(value, str | numbers.Number)
    return (type(value), value) if plain else id(value)


def can_share(machine: Any, n_rows: int) -> bool:
    """Whether settings of this machine can share kernel values and starting points."""
    kinds = type(machine) in (SVC, SVR)
    return kinds and n_rows <= SHARED_ROWS and isinstance(machine.kernel, str)


# -- scores ---------------------------------------------------------------------------------


class SharedKernel:
    """Score the settings that share one kernel, each from the optimum of the one before.

    Parameters
    ----------
    machine : SVC or SVR
        The machine of one of the settings.
    X, y, sample_weight
        The data, as for its fit.
    method : {"exact", "linear_response"}
        How rows are left out.
    threads : int
        Threads that one setting may use.
    """

    def __init__(
        self, machine: Any, X: Any, y: Any, sample_weight: Any, method: str, threads: int
    ) -> None:
        self.data = training_set_for(machine, X, y, sample_weight)
        self.kernel = kernel_for(machine, self.data.X, self.data.weight)
        self.centre = Rows(self.kernel, self.data.X).centre
        self.exact = method == "exact"
        self.threads = threads
        self.shared: SharedMatrix | None = None
        self.last: Training | None = None

    def score(self, machine: Any) -> Score:
        """Return the leave-one-out of the machine of one setting, whose parameters are checked."""
        started = time.perf_counter()
        training = self._training(machine)
        before = 0.0 if self.shared is None else self.shared.seconds
        if self.shared is None:
            self.shared = SharedMatrix(training, self.threads)
        values = training.leave_out(exact=self.exact, shared=self.shared).values.copy()
        self.last = training
        if len(training.pairs) > 1:
            _add_bystanders(training, self.shared, values)
        _, errors = training.judge(values)
        kind = "exact" if self.exact else "estimate"
        fitting = self.shared.seconds - before
        scoring = time.perf_counter() - started - fitting
        return Score.of(errors, self.data.given_weight, kind, fitting, scoring)

    def _training(self, machine: Any) -> Training:
        """State the problems of a setting, with the last optimum as where to start."""
        pairs, parts = problems_for(machine, self.data)
        machines = []
        for k, (rows, problem) in enumerate(parts):
            start = np.zeros(problem.n_variables)
            if self.shared is not None and self.last is not None:
                start = _carried_over(self.shared.optima[k], self.last.machines[k].problem, problem)
            machines.append(Machine(rows, problem, start, 0.0))
        intercept = bool(machine.fit_intercept)
        return Training(self.data, self.kernel, self.centre, pairs, machines, intercept)


def _carried_over(b: FloatArray, before: Any, now: Any) -> FloatArray:
    """Return a start from a neighbour's optimum: what was at its cap stays at its cap."""
    if before.n_variables != now.n_variables:
        return np.zeros(now.n_variables)
    if now.ridge.any() or before.ridge.any():
        return b
    start = np.clip(b, now.lower, now.upper)
    start = np.where((b >= before.upper) & (before.upper > 0), now.upper, start)
    return np.where((b <= before.lower) & (before.lower < 0), now.lower, start)


def _add_bystanders(training: Training, shared: SharedMatrix, values: FloatArray) -> None:
    """Write what each machine at its optimum says of the rows of the classes it did not see."""
    data = training.data
    n = len(data.weight)
    for k, (machine, b) in enumerate(zip(training.machines, shared.optima, strict=True)):
        f = shared.K[:n, machine.rows] @ machine.problem.coefficients(b)
        threshold = float(machine.problem.thresholds(f[machine.rows]).sum())  # or none
        stranger = np.ones(n + 1, dtype=bool)
        stranger[machine.rows] = stranger[n] = False  # the last entry: rows of zero weight
        given = np.flatnonzero(stranger[data.member])
        values[given, k] = f[data.member[given]] + threshold


def score_alone(
    machine: Any, X: Any, y: Any, sample_weight: Any, method: str, scoring: str = "error"
) -> Score:
    """Return the score of a machine that is fitted on its own."""
    started = time.perf_counter()
    machine.fit(X, y, sample_weight=sample_weight)
    fitted = time.perf_counter()
    if scoring == "evidence":
        loss = -float(np.sum(machine.log_evidence_))
        return Score(loss, float("nan"), 0, "evidence", fitted - started, 0.0)
    record = record_of(machine)
    model = record.require("LOOSearch")
    losses: BoolArray | FloatArray
    if scoring == "log_loss":
        codes = np.maximum(model.class_codes(), 0)  # -1 only where the weight is zero
        own = np.take_along_axis(machine.loo_proba_, codes[:, None], axis=1)[:, 0]
        losses, kind = -np.log(own), "estimate"
    else:  # "auto" is exact as long as that is affordable
        found = record.result("auto" if method == "exact" else method)
        losses, kind = found.errors, found.kind
    times = fitted - started, time.perf_counter() - fitted
    return Score.of(losses, model.data.given_weight, kind, *times)
