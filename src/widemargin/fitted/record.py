"""Record of a fit: the fitted model and a thread-safe cache of results computed from it.

The fitted model holds samples, problems and optima. Expensive results (leave-one-out predictions,
calibrations) are computed once, also if several threads request them. Estimators store their
record as `_record_`; other modules obtain it from `record_of`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sklearn.utils.validation import check_is_fitted

from widemargin._base.progress import counted
from widemargin._base.typing import FloatArray
from widemargin._base.validation import TrainingSet, require
from widemargin.fitted.base import METHODS, WITH_VALUES, FittedModel, LeftOutValues, LOOResult
from widemargin.fitted.calibration import Calibration

_Found = TypeVar("_Found")


class Record:
    """Fitted model of an estimator, if it is kept, and the results computed so far.

    Parameters
    ----------
    model : FittedModel or None
        None in a compact estimator.
    stored : dict, optional
        Results computed before.

    Attributes
    ----------
    stored : dict
        Cached results by purpose; they are pickled with the estimator.
    """

    def __init__(self, model: FittedModel | None, stored: dict[str, Any] | None = None) -> None:
        self.model = model
        self.stored = dict(stored or {})
        self._in_memory: dict[str, Any] = {}
        self._lock = threading.RLock()

    # -- cache -------------------------------------------------------------------------------

    def cached(self, name: str, compute: Callable[[], _Found]) -> _Found:
        """Return a cached result that is pickled with the estimator; compute it if missing."""
        return self._once(self.stored, name, compute)

    def held(self, name: str, compute: Callable[[], _Found]) -> _Found:
        """Return a result cached in memory only, too large to pickle; compute it if missing."""
        return self._once(self._in_memory, name, compute)

    def _once(self, results: dict[str, Any], name: str, compute: Callable[[], _Found]) -> _Found:
        with self._lock:
            if name not in results:
                results[name] = compute()
            found: _Found = results[name]
            return found

    def require(self, purpose: str) -> FittedModel:
        """Return the fitted model, or raise ValueError if it has no leave-one-out."""
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
        """Return a record of the cached results without the fitted model."""
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

    def result(self, method: str = "auto", verbose: int = 0) -> LOOResult:
        """Return the leave-one-out result by the given method, with a bar if verbose."""
        fix = f"one of auto, {', '.join(METHODS)}"
        require(method in ("auto", *METHODS), "method", method, fix)
        purpose = _key(method := self._resolved(method))
        with counted("leave-one-out", verbose):
            return self.cached(purpose, lambda: self.require(purpose).result(method, self))

    def decision_values(self, method: str = "auto", verbose: int = 0) -> FloatArray:
        """Return the leave-one-out decision values of the user's samples."""
        fix = f"one of auto, {', '.join(WITH_VALUES)} (the others only bound the error)"
        require(method in ("auto", *WITH_VALUES), "method", method, fix)
        values = self.result(method, verbose).values
        assert values is not None
        return values

    def known_result(self) -> LOOResult | None:
        """Return the most accurate cached leave-one-out result, or None; compute nothing."""
        found = (self.stored.get(_key(method)) for method in METHODS)
        return next((result for result in found if result is not None), None)

    def left_out(self, method: str = "auto") -> LeftOutValues:
        """Return the leave-one-out predictions of all binary submodels."""
        method = self._resolved(method)
        name = {"exact": "exact", "folds": "folds"}.get(method, "first order")
        purpose = f"left-out values, {name}"
        return self.cached(purpose, lambda: self.require(purpose).left_out(method, self))

    def _resolved(self, method: str) -> str:
        """Return the method that "auto" selects, from the cache if the model was dropped."""
        if method != "auto":
            return method
        purpose = _key(method)
        return self.cached(purpose, lambda: self.require(purpose).auto_method())

    def calibrations(self, method: str) -> list[Calibration]:
        """Return the calibration of each binary submodel."""
        purpose = f"predict_proba with calibration={method!r}"
        return self.cached(purpose, lambda: self._kept(purpose).calibrations(method, purpose, self))


def _key(method: str) -> str:
    """Return the cache key of a leave-one-out result."""
    return f"loo.result with method {method!r}"


def machine_of(est: Any) -> Any:
    """Return the last step of a pipeline, or the estimator itself if it is not a pipeline."""
    # No isinstance check: importing Pipeline would import many other modules.
    return est[-1] if hasattr(est, "steps") else est


def find_record(est: Any) -> Record | None:
    """Return the record of an estimator, or of a pipeline's last step; None if it has none."""
    record = getattr(machine_of(est), "_record_", None)
    return record if isinstance(record, Record) else None


def find_model(est: Any) -> FittedModel | None:
    """Return the fitted model that an estimator keeps, or None."""
    record = find_record(est)
    return None if record is None else record.model


def find_training_set(est: Any) -> TrainingSet | None:
    """Return the training samples that an estimator keeps in memory, or None."""
    model = find_model(est)
    return None if model is None else model.kept_data()


def record_of(est: Any) -> Record:
    """Return the record of a fitted estimator, or of a pipeline's last step; raise if none."""
    est = machine_of(est)
    check_is_fitted(est)
    record = find_record(est)
    if record is None:
        raise TypeError(
            f"{type(est).__name__} keeps no training record: leave-one-out knows the machines of "
            "widemargin that have a method loo_error, as SVC, LinearSVC, LPSVC and OrdinalSVC"
        )
    return record
