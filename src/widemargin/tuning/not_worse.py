"""Comparison of a tuned model with that of the parameters before tuning."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from widemargin.tuning.setup import is_regression


def or_as_given(
    tuned: Any, given: dict[str, Any], criterion: str, X: Any, y: Any, sample_weight: Any
) -> Any:
    """Return the tuned model, or that of the given parameters if the tuned one is worse.

    The criterion is that of the models on all samples: the number of leave-one-out errors, or for
    regression minus the log density of the left-out targets, or minus the log evidence. `given` has
    the parameters before tuning and, if it is not the criterion per sample, their loss.
    """
    params = {name: value for name, value in given.items() if name != "loss"}
    first = clone(tuned).set_params(**params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # about parameters not asked for
        try:
            first.fit(X, y, sample_weight)
        except ValueError:  # without input noise, say
            return tuned
    before, after = _criterion(first, criterion), _criterion(tuned, criterion)
    if after <= before:
        return tuned
    what = "minus log evidence"
    if criterion == "loo":
        what = (
            "minus log density of left-out targets"
            if is_regression(first)
            else "leave-one-out error"
        )
    loss = given.get("loss", before / len(y))
    message = f"the parameters are as given: {what} {before:.4g}, and {after:.4g} tuned"
    first.tuning_ = replace(tuned.tuning_, params=params, loss=loss, message=message)
    return first


def _criterion(model: Any, criterion: str) -> float:
    """Return the criterion of a fitted model: smaller is better."""
    if criterion == "evidence":
        return -float(np.sum(model.log_evidence_))
    return -float(np.sum(model.loo_log_density_)) if is_regression(model) else model.loo_error_
