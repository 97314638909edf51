"""Training of ``widemargin fit``: a pipeline of scaler and estimator."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from widemargin._base.messages import UserError
from widemargin._base.typing import FloatArray
from widemargin.fitted.record import record_of
from widemargin.sources.tables.encoding import Target, Task

MOST_ROWS_OF_LEAVE_ONE_OUT = 5_000  # exact up to here, in the time of a few fits

# With more samples a linear model is fitted by LinearSVC instead of SVC: the same optimum, at a
# cost that grows linearly with the number of samples, not quadratically.
MOST_ROWS_OF_LINEAR_KERNEL = 10_000


@dataclass(frozen=True)
class Settings:
    """Options of ``widemargin fit`` for the estimator, under the names of its parameters."""

    C: float = 1.0
    kernel: str = "rbf"
    gamma: str = "scale"
    degree: int = 3
    coef0: float = 0.0
    epsilon: float | None = None
    tol: float | None = None  # None: the default of the estimator
    class_weight: str | None = None
    time_limit: float | None = None
    verbose: int = 0

    def common(self) -> dict[str, Any]:
        """Return the parameters that all estimators have."""
        given = {} if self.tol is None else {"tol": self.tol}
        shared = {"C": self.C, "time_limit": self.time_limit, "verbose": self.verbose}
        return {**shared, "random_state": 0, **given}

    def gamma_value(self) -> str | float:
        """Return gamma as the parameter of the estimator: a keyword or a number."""
        if self.gamma in ("scale", "auto"):
            return self.gamma
        try:
            return float(self.gamma)
        except ValueError:
            raise UserError(
                f"--gamma must be 'scale', 'auto' or a number, not {self.gamma!r}."
            ) from None


def fit_pipeline(X: FloatArray, y: Target, task: Task, settings: Settings) -> Any:
    """Fit a pipeline of scaler and estimator."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if task == "classification" and len(np.unique(y)) < 2:
        raise UserError(f"The target has only one value, {y[0]!r}: there is nothing to learn.")
    pipeline = make_pipeline(StandardScaler(), _machine(task, settings, n_rows=len(y)))
    try:
        return compacted(pipeline.fit(X, y), len(y))
    except ValueError as error:  # an invalid parameter or invalid data
        raise UserError(str(error)) from error


def compacted(pipeline: Any, n_rows: int) -> Any:
    """Return the pipeline without its training data, which do not belong in a model file.

    Results that need the training data are computed first: leave-one-out and the calibration of
    probabilities.
    """
    machine = machine_of(pipeline)
    if n_rows <= MOST_ROWS_OF_LEAVE_ONE_OUT:
        with suppress(ValueError):  # indefinite kernels have none; the summary shows a bound
            record = record_of(machine)
            record.result()
            if hasattr(machine, "calibration"):
                record.calibrations(machine.calibration)
    smaller = machine.compact()
    name, last = pipeline.steps[-1]
    if hasattr(last, "regressor_"):
        last.regressor_ = smaller
    else:
        pipeline.steps[-1] = (name, smaller)
    return pipeline


def _machine(task: Task, settings: Settings, *, n_rows: int) -> Any:
    """Return the unfitted estimator for a task."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler

    import widemargin as wm

    common = settings.common()
    kernel: dict[str, Any] = {
        "kernel": settings.kernel,
        "gamma": settings.gamma_value(),
        "degree": settings.degree,
        "coef0": settings.coef0,
    }
    if task == "regression":
        if settings.class_weight:
            raise UserError("--class-weight is for classification; this is regression.")
        epsilon = 0.1 if settings.epsilon is None else settings.epsilon
        regressor = wm.SVR(epsilon=epsilon, **kernel, **common)
        # The scaling makes C and epsilon relative to the standard deviation of the target.
        return TransformedTargetRegressor(regressor, transformer=StandardScaler())
    if settings.epsilon is not None:
        raise UserError("--epsilon is for regression; this is classification.")
    if settings.kernel == "linear" and n_rows > MOST_ROWS_OF_LINEAR_KERNEL:
        # The problem of SVC(kernel="linear").
        common |= {"loss": "hinge", "multi_class": "ovo"}
        return wm.LinearSVC(class_weight=settings.class_weight, **common)
    return wm.SVC(class_weight=settings.class_weight, **kernel, **common)


def machine_of(pipeline: Any) -> Any:
    """Return the fitted final estimator of a pipeline."""
    last = pipeline[-1]
    return getattr(last, "regressor_", last)
