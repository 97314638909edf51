"""Score parameter settings by leave-one-out, with shared kernel matrices and warm starts.

Settings of a pipeline that differ only in its last step share the transformed samples and form a
branch. Settings that differ only in C (or epsilon, or class weights) share the kernel matrix, and
the optimum of one is near that of the next. So the settings of a branch are grouped by kernel;
within a group the matrix is computed once, and the problems are solved in the order of C, each
warm-started from the one before. These settings are scored without fitting an estimator; only the
best one is fitted, at the end.
"""

from __future__ import annotations

import numbers
import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.estimators._base.inspection import kernel_for, problems_for, training_set_for
from widemargin.estimators.svm import SVC, SVR
from widemargin.fitted.by_path import Machine, SharedMatrix, Training
from widemargin.fitted.record import record_of
from widemargin.kernels import Rows

SHARED_ROWS = 1_500  # above this size separate fits, in float32, are faster than shared float64
KERNEL = ("kernel", "gamma", "degree", "coef0", "loss", "fit_intercept")


@dataclass(frozen=True)
class Score:
    """Score of one parameter setting.

    Attributes
    ----------
    loss : float
        Leave-one-out error rate, mean absolute error or log-loss; or minus the log evidence.
    spread : float
        Its standard error over the left-out samples; nan for the evidence.
    n_left_out : int
        Number of samples left out, one at a time; 0 for the evidence.
    kind : str
        Kind as in `LOOResult`, "evidence", or "failed" without a result.
    fit_time, score_time : float
        Seconds for the fit and for leave-one-out.
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
        """Return the score of given losses of the samples, averaged by weight."""
        total = float(weight.sum())
        mean = float(weight @ losses) / total
        variance = float(weight @ (losses - mean) ** 2) / total
        spread = float(np.sqrt(variance / total))
        return Score(mean, spread, int(np.count_nonzero(weight)), kind, fit, score)


# -- groups of settings ---------------------------------------------------------------------


class Branch:
    """Settings with the same transformers, which share the transformed samples.

    Parameters
    ----------
    estimator : estimator
        A widemargin estimator, or a pipeline that ends in one.
    settings : dict of int to dict
        Settings by index; those of a pipeline differ in its last step only.
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
        """Return the transformed samples; the first call fits the transformers."""
        with self.lock:
            if self.failure is not None:
                raise self.failure
            if self.head is not None:
                try:
                    self.X, self.head = self.head.fit_transform(self.X, self.y), None
                except Exception as failure:  # the same for all settings of this branch
                    self.failure = failure
                    raise
            return self.X

    def forget(self, k: int) -> None:
        """Drop a scored setting, and the transformed samples after the last one."""
        with self.lock:
            del self.settings[k]
            if not self.settings:
                self.X = None

    def machine_of(self, k: int) -> Any:
        """Return the unfitted last step with the parameters of a setting."""
        return changed_by(self.machine, self.settings[k])

    def kernel_groups(self, n_rows: int) -> list[list[int]]:
        """Group the settings that can share a kernel matrix, each group sorted by C."""
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
    """Group the settings into branches, one per setting of the transformers."""
    prefix = last_step(estimator) + "__" if is_pipeline(estimator) else ""
    groups: dict[Hashable, dict[int, dict[str, Any]]] = {}
    for k, setting in enumerate(settings):
        common = sorted(name for name in setting if not name.startswith(prefix))
        key = tuple((name, mark(setting[name])) for name in common)
        groups.setdefault(key, {})[k] = setting
    return [Branch(estimator, group, X, y) for group in groups.values()]


def is_pipeline(estimator: Any) -> bool:
    """Return whether an estimator is a pipeline."""
    # No isinstance check: importing Pipeline would import many other modules.
    return hasattr(estimator, "steps")


def last_step(pipeline: Any) -> str:
    """Return the name of the last step of a pipeline."""
    return str(pipeline.steps[-1][0])


def changed_by(estimator: Any, setting: dict[str, Any]) -> Any:
    """Return a clone with a setting; estimators in the grid (whole steps) are cloned too."""
    return clone(estimator).set_params(**clone(setting, safe=False))


def mark(value: Any) -> Hashable:
    """Return a hashable key of a parameter value."""
    # A grid repeats the same objects, so identity distinguishes values that are not hashable.
    plain = value is None or isinstance(value, str | numbers.Number)
    return (type(value), value) if plain else id(value)


def can_share(machine: Any, n_rows: int) -> bool:
    """Return whether settings of this estimator can share a kernel matrix and warm starts."""
    kinds = type(machine) in (SVC, SVR)
    return kinds and n_rows <= SHARED_ROWS and isinstance(machine.kernel, str)


# -- scores ---------------------------------------------------------------------------------


class SharedKernel:
    """Scorer of settings that share one kernel matrix, each warm-started from the one before.

    Parameters
    ----------
    machine : SVC or SVR
        The estimator of one of the settings.
    X, y, sample_weight
        The data, as for its `fit`.
    method : {"exact", "linear_response"}
        The leave-one-out method.
    threads : int
        Maximum number of threads per setting.
    """

    def __init__(
        self, machine: Any, X: Any, y: Any, sample_weight: Any, method: str, threads: int
    ) -> None:
        self.data = training_set_for(machine, X, y, sample_weight)
        self.kernel = kernel_for(machine, self.data.X, self.data.weight)
        self.centre = Rows(self.kernel, self.data.X).centre
        self.method = method
        self.threads = threads
        self.shared: SharedMatrix | None = None
        self.last: Training | None = None

    def score(self, machine: Any) -> Score:
        """Score an estimator, whose parameters are validated, by leave-one-out."""
        started = time.perf_counter()
        training = self._training(machine)
        before = 0.0 if self.shared is None else self.shared.seconds
        if self.shared is None:
            self.shared = SharedMatrix(training, self.threads)
        found = training.leave_out(exact=self.method == "exact", shared=self.shared)
        values = found.values.copy()
        self.last = training
        if len(training.pairs) > 1:
            _add_bystanders(training, self.shared, values)
        _, errors = training.judge(values)
        kind = training.kind_of(self.method, found)
        fitting = self.shared.seconds - before
        scoring = time.perf_counter() - started - fitting
        return Score.of(errors, self.data.given_weight, kind, fitting, scoring)

    def _training(self, machine: Any) -> Training:
        """Return the model of a setting, with the last optimum as its warm start."""
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
    """Return a warm start from a nearby optimum; variables at a bound stay at their bound."""
    if before.n_variables != now.n_variables:
        return np.zeros(now.n_variables)
    if now.ridge.any() or before.ridge.any() or now.is_hard:
        return b
    start = np.clip(b, now.lower, now.upper)
    start = np.where((b >= before.upper) & (before.upper > 0), now.upper, start)
    return np.where((b <= before.lower) & (before.lower < 0), now.lower, start)


def _add_bystanders(training: Training, shared: SharedMatrix, values: FloatArray) -> None:
    """Write the decision values of each submodel for samples of classes not in its pair."""
    data = training.data
    n = len(data.weight)
    for k, (machine, b) in enumerate(zip(training.machines, shared.optima, strict=True)):
        f = shared.K[:n, machine.rows] @ machine.problem.coefficients(b)
        # There is at most one threshold; without an intercept the sum is 0.
        threshold = float(machine.problem.thresholds(f[machine.rows]).sum())
        stranger = np.ones(n + 1, dtype=bool)
        stranger[machine.rows] = stranger[n] = False  # last: zero weight
        given = np.flatnonzero(stranger[data.member])
        values[given, k] = f[data.member[given]] + threshold


def score_alone(
    machine: Any, X: Any, y: Any, sample_weight: Any, method: str, scoring: str = "error"
) -> Score:
    """Fit an estimator and return its score, without sharing a kernel matrix."""
    started = time.perf_counter()
    machine.fit(X, y, sample_weight=sample_weight)
    fitted = time.perf_counter()
    if scoring == "evidence":
        loss = -float(np.sum(machine.log_evidence_))
        return Score(loss, float("nan"), 0, "evidence", fitted - started, 0.0)
    record = record_of(machine)
    model = record.require("LOOSearch")
    losses: BoolArray | FloatArray
    if scoring == "log_loss" and is_regressor(machine):
        losses, kind = -machine.loo_log_density_, record.result().kind
    elif scoring == "log_loss":
        codes = np.maximum(model.class_codes(), 0)  # -1 only for samples of zero weight
        own = np.take_along_axis(machine.loo_proba_, codes[:, None], axis=1)[:, 0]
        losses, kind = -np.log(own), "estimate"
    else:  # "auto" is exact up to the size at which this is affordable
        found = record.result("auto" if method == "exact" else method)
        losses, kind = found.errors, found.kind
    times = fitted - started, time.perf_counter() - fitted
    return Score.of(losses, model.data.given_weight, kind, *times)
