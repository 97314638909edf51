"""Comparison of a tuned model with that of the parameters before tuning."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning


def or_as_given(
    tuned: Any, given: dict[str, Any], criterion: str, X: Any, y: Any, sample_weight: Any
) -> Any:
    """Return the tuned model, or that of the given parameters if the tuned one is worse.

    The criterion is that of the models on all samples: the number of leave-one-out errors or the
    evidence. `given` has the parameters before tuning and their loss.
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
    what = "leave-one-out error" if criterion == "loo" else "minus log evidence"
    message = f"the parameters are as given: {what} {before:.4g}, and {after:.4g} tuned"
    first.tuning_ = replace(tuned.tuning_, params=params, loss=given["loss"], message=message)
    return first


def _criterion(model: Any, criterion: str) -> float:
    """Return the leave-one-out error, or minus the evidence of all latent functions."""
    return model.loo_error_ if criterion == "loo" else -float(np.sum(model.log_evidence_))
