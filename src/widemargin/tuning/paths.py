"""Regularisation paths of the linear-programming machines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.multiclass import predicted_class
from widemargin._base.progress import Bar
from widemargin._base.threads import worker_threads
from widemargin._base.typing import BoolArray, FloatArray, IntArray
from widemargin._base.validation import require, require_bool
from widemargin.estimators._base.inspection import check_parameters, program_for
from widemargin.fitted.program import ProgramTraining
from widemargin.fitted.record import Record, record_of
from widemargin.kernels import Rows

__all__ = ["RegularisationPath", "regularisation_path"]


@dataclass(frozen=True, eq=False)
class RegularisationPath:
    """Fits along a grid of the regularisation parameter, one entry per value.

    Attributes
    ----------
    parameter : {"lam", "nu"}
        Name of the parameter.
    values : ndarray of shape (n_values,)
        Its values, in the order in which they were passed.
    objective, dual : ndarray of shape (n_values,)
        Primal and dual objective, summed over the binary problems of several classes. For nu it is
        the objective with the margin rho.
    converged : ndarray of bool, shape (n_values,)
        Whether all binary problems reached their tolerance.
    slack : ndarray of shape (n_values,)
        Weighted sum of the slacks, in units of the margin.
    n_support : ndarray of int, shape (n_values,)
        Number of support vectors; equal samples count once.
    training_error : ndarray of shape (n_values,)
        Training error rate.
    loo_bound : ndarray of shape (n_values,)
        Upper bound of the leave-one-out error: the fraction of samples that the model depends on.
    expression : ndarray of shape (n_values,)
        Fraction of samples with a margin of zero or less when their own term is removed from the
        sum, (2.2) of Smola et al. (2000). For a support vector machine it bounds the leave-one-out
        error; for linear programs it does not.
    loo_error : ndarray of shape (n_values,) or None
        Leave-one-out error, if requested.
    loo_kind : tuple of str or None
        Kind of each leave-one-out error, as in :class:`widemargin.loo.LOOResult`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import LPSVC, regularisation_path
    >>> path = regularisation_path(LPSVC(gamma=1.0), *make_moons(60, random_state=0), [0.1, 1.0])
    >>> path.parameter, path.converged
    ('lam', array([ True,  True]))
    """

    parameter: str
    values: FloatArray
    objective: FloatArray
    dual: FloatArray
    converged: BoolArray
    slack: FloatArray
    n_support: IntArray
    training_error: FloatArray
    loo_bound: FloatArray
    expression: FloatArray
    loo_error: FloatArray | None = None
    loo_kind: tuple[str, ...] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        titles = [self.parameter, "objective", "support", "training", "loo bound", "(2.2)"]
        columns = [self.values, self.objective, self.n_support, self.training_error]
        columns += [self.loo_bound, self.expression]
        if self.loo_error is not None:
            titles.append("loo error")
            columns.append(self.loo_error)
        lines = ["".join(f"{title:>11}" for title in titles)]
        for row in zip(*columns, strict=True):
            lines.append("".join(f"{value:>11.4g}" for value in row))
        return "\n".join(lines)


def regularisation_path(
    estimator: Any,
    X: Any,
    y: Any,
    values: ArrayLike,
    sample_weight: Any = None,
    *,
    leave_one_out: bool = False,
    verbose: int = 0,
) -> RegularisationPath:
    """Compute the regularisation path of a linear-programming machine.

    The fits for lam are warm-started, from the smallest value to the largest.

    Parameters
    ----------
    estimator : AdaptiveMarginSVC, LPSVC or NuLPSVC
        The estimator; its own lam (or nu) is ignored, and it is not modified. LOOSVC is
        AdaptiveMarginSVC with lam = 1.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training samples, or the kernel matrix if ``kernel="precomputed"``.
    y : array-like of shape (n_samples,)
        Class labels.
    values : array-like of shape (n_values,)
        Values of lam (of nu for NuLPSVC) in any order.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is equivalent to repeating the sample.
    leave_one_out : bool, default=False
        Whether to compute the leave-one-out error as :func:`widemargin.loo.result` does: exactly
        for up to 500 samples, else by ten-fold cross-validation. This takes many times as long.
    verbose : int, default=0
        If positive, display a progress bar.

    Returns
    -------
    RegularisationPath
        Arrays with one entry per value.

    See Also
    --------
    AdaptiveMarginSVC, LPSVC, NuLPSVC : The supported estimators.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import AdaptiveMarginSVC, regularisation_path
    >>> X, y = make_moons(60, noise=0.4, random_state=0)
    >>> path = regularisation_path(AdaptiveMarginSVC(gamma=1.0), X, y, [1, 2, 4])
    >>> path.objective.round(2)
    array([17.36, 21.92, 27.98])
    >>> path.n_support
    array([18, 23, 25])
    """
    name = getattr(estimator, "path_parameter", "")
    fix = "AdaptiveMarginSVC (at lam = 1 it is LOOSVC), LPSVC or NuLPSVC"
    require(bool(name), "estimator", estimator, fix)
    require_bool("leave_one_out", leave_one_out)
    asked = np.asarray(values, dtype=np.float64)
    require(asked.ndim == 1 and len(asked) > 0, "values", values, f"a list of values of {name}")
    models = [clone(estimator).set_params(**{name: float(value)}) for value in asked]
    for model in models:
        check_parameters(model)
    found: list[dict[str, Any]] = [{}] * len(asked)
    training = None
    with Bar("regularisation path", verbose, len(asked)) as bar:
        for k in np.argsort(asked, kind="stable"):
            if training is None or name == "nu":
                record = record_of(models[k].fit(X, y, sample_weight))
                training = cast(ProgramTraining, record.require("regularisation_path"))
            else:
                training = _moved(training, models[k])
            found[k] = _summary(training, leave_one_out)
            if name == "nu":  # the record holds the equivalent LP machines, with other objectives
                certificates = models[k].certificates_
                found[k] |= {
                    "objective": sum(c.primal for c in certificates),
                    "dual": sum(c.dual for c in certificates),
                    "converged": all(c.converged for c in certificates),
                }
            bar.advance(f"{name}={asked[k]:g}")
    columns = {key: [entry[key] for entry in found] for key in found[0]}
    kinds = tuple(columns.pop("loo_kind", ())) or None
    arrays = {key: np.array(column) for key, column in columns.items()}
    path = RegularisationPath(name, asked, **arrays, loo_kind=kinds)
    if name == "lam" and not path.converged.all():  # for nu each fit has warned already
        warn(
            f"the relative gap is above tol={estimator.tol:g} at {name}="
            f"{asked[~path.converged].tolist()}: `objective` and `dual` say by how much. "
            "Raise max_iter or tol, or widen the kernel (lower gamma)",
            ConvergenceWarning,
        )  # fmt: skip
    return path


def _moved(training: ProgramTraining, estimator: Any) -> ProgramTraining:
    """Refit the programs with the parameters of an estimator, warm-started."""
    with worker_threads() as threads:
        rows = Rows(training.kernel, training.data.X, training.centre, threads)
        machines = [
            machine.moved(program_for(estimator, machine.problem, rows), rows)
            for machine in training.machines
        ]
    return replace(training, machines=machines)


def _summary(training: ProgramTraining, leave_one_out: bool) -> dict[str, Any]:
    """Return the entries of the path for one value of the parameter."""
    data = training.data
    weight = data.given_weight / data.given_weight.sum()
    machines = training.machines
    fitted = training.values()
    scores = fitted if len(machines) > 1 else fitted[:, 0]
    codes = np.searchsorted(np.unique(data.y), data.given_y)
    summary: dict[str, Any] = {
        "objective": sum(machine.primal for machine in machines),
        "dual": sum(machine.dual for machine in machines),
        "converged": all(machine.fitted.converged for machine in machines),
        "slack": sum(machine.slack for machine in machines),
        "n_support": np.count_nonzero(np.any([m.result.alpha > 0 for m in machines], axis=0)),
        "training_error": float(weight @ (predicted_class(scores) != codes)),
        "loo_bound": float(weight @ training.bounded_errors("support_vectors")[0]),
        "expression": float(weight @ training.judge(fitted - training.own_parts())[1]),
    }
    if leave_one_out:
        found = Record(training).result()
        summary |= {"loo_error": found.error, "loo_kind": found.kind}
    return summary
