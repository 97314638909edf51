"""Keep what a fitted estimator was trained on, and cache what is computed from it.

A record belongs to one fit. It holds the fitted model (samples, problems, optima); results that
take long to compute (leave-one-out values, calibrations) are cached in it, each computed once
however many threads ask for it. Estimators store their record as `_record_`; everybody else gets
it from `record_of`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet, require
from widemargin.fitted.base import METHODS, WITH_VALUES, FittedModel, LeftOutValues, LOOResult
from widemargin.fitted.calibration import Calibration

_Found = TypeVar("_Found")


class Record:
    """The training of a fitted estimator, if it is still there, and the results computed so far.

    Parameters
    ----------
    model : FittedModel or None
        None in a compact estimator.
    stored : dict, optional
        Results that are known already.

    Attributes
    ----------
    stored : dict
        Cached results by what was asked; they are stored with the estimator.
    """

    def __init__(self, model: FittedModel | None, stored: dict[str, Any] | None = None) -> None:
        self.model = model
        self.stored = dict(stored or {})
        self._in_memory: dict[str, Any] = {}
        self._lock = threading.RLock()

    # -- cache -------------------------------------------------------------------------------

    def cached(self, name: str, compute: Callable[[], _Found]) -> _Found:
        """Return a result that is computed once and stored with the estimator."""
        return self._once(self.stored, name, compute)

    def held(self, name: str, compute: Callable[[], _Found]) -> _Found:
        """Return a result that is computed once, but too large to be stored."""
        return self._once(self._in_memory, name, compute)

    def _once(self, results: dict[str, Any], name: str, compute: Callable[[], _Found]) -> _Found:
        with self._lock:
            if name not in results:
                results[name] = compute()
            found: _Found = results[name]
            return found

    def require(self, purpose: str) -> FittedModel:
        """Return the fitted model, or raise an error that says why it cannot be asked."""
        model = self._kept(purpose)
        if model.refusal:
            raise ValueError(purpose + model.refusal)
        return model

    def _kept(self, purpose: str) -> FittedModel:
        if self.model is None:
            raise ValueError(
                f"{purpose} needs the training data, which compact() has dropped: ask the "
                "fitted model itself, or ask it once before calling compact()"
            )
        return self.model

    def compact(self) -> Record:
        """Return the cached results without the training."""
        with self._lock:
            return Record(None, self.stored)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            portable = self.model is not None and self.model.portable
            return {"model": self.model if portable else None, "stored": dict(self.stored)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.model = state["model"]
        self.stored = state["stored"]
        self._in_memory = {}
        self._lock = threading.RLock()

    # -- results ------------------------------------------------------------------------------

    def result(self, method: str = "auto") -> LOOResult:
        """Return the leave-one-out result of a method."""
        fix = f"one of auto, {', '.join(METHODS)}"
        require(method in ("auto", *METHODS), "method", method, fix)
        purpose = _key(method := self._resolved(method))
        return self.cached(purpose, lambda: self.require(purpose).result(method, self))

    def decision_values(self, method: str = "auto") -> FloatArray:
        """Return the left-out decision value of each of the user's samples."""
        fix = f"one of auto, {', '.join(WITH_VALUES)} (the others only bound the error)"
        require(method in ("auto", *WITH_VALUES), "method", method, fix)
        values = self.result(method).values
        assert values is not None
        return values

    def known_result(self) -> LOOResult | None:
        """Return the best result that was computed before, if there is one; computes nothing."""
        found = (self.stored.get(_key(method)) for method in METHODS)
        return next((result for result in found if result is not None), None)

    def left_out(self, method: str = "auto") -> LeftOutValues:
        """Return the left-out values of every machine."""
        method = self._resolved(method)
        name = {"exact": "exact", "folds": "folds"}.get(method, "first order")
        purpose = f"left-out values, {name}"
        return self.cached(purpose, lambda: self.require(purpose).left_out(method, self))

    def _resolved(self, method: str) -> str:
        """Return what "auto" stands for; a compact estimator knows if it was asked before."""
        if method != "auto":
            return method
        purpose = _key(method)
        return self.cached(purpose, lambda: self.require(purpose).auto_method())

    def calibrations(self, method: str) -> list[Calibration]:
        """Return how the values of each machine become probabilities."""
        purpose = f"predict_proba with calibration={method!r}"
        return self.cached(purpose, lambda: self._kept(purpose).calibrations(method, purpose, self))


def _key(method: str) -> str:
    """Return the name under which the result of a leave-one-out method is stored."""
    return f"loo.result with method {method!r}"


def machine_of(est: Any) -> Any:
    """Return the last step of a pipeline; another estimator itself."""
    # Importing the class of pipelines would import much else.
    return est[-1] if hasattr(est, "steps") else est


def find_record(est: Any) -> Record | None:
    """Return the record of an estimator, or of the last step of a pipeline; None without one."""
    record = getattr(machine_of(est), "_record_", None)
    return record if isinstance(record, Record) else None


def find_model(est: Any) -> FittedModel | None:
    """Return the fitted model that an estimator keeps, if it keeps one."""
    record = find_record(est)
    return None if record is None else record.model


def find_training_set(est: Any) -> TrainingSet | None:
    """Return the training samples that an estimator keeps in memory, if it does."""
    model = find_model(est)
    return None if model is None else model.kept_data()


def record_of(est: Any) -> Record:
    """Return the record of a fitted estimator, or of the last step of a pipeline."""
    est = machine_of(est)
    check_is_fitted(est)
    record = find_record(est)
    if record is None:
        raise TypeError(
            f"{type(est).__name__} keeps no training record: leave-one-out knows the machines of "
            "widemargin that have a method loo_error, as SVC, LinearSVC, LPSVC and OrdinalSVC"
        )
    return record
