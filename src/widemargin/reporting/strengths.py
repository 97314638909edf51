"""Embedding strengths: the absolute coefficients of the training samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from widemargin._base.typing import FloatArray
from widemargin.fitted.record import find_model


def strengths(machine: Any, n: int) -> FloatArray | None:
    """Return the strengths of the n training samples; None if samples have no coefficients.

    The strength is the absolute coefficient. With several binary submodels (one-vs-one or
    one-vs-rest), coefficients are divided by the largest one of their submodel, and the strength
    is the maximum over submodels, so that a submodel with large coefficients does not dominate.
    """
    sizes = _sizes(machine, n)
    if sizes is None or sizes.shape[1] != n:
        return None
    if len(sizes) == 1:
        return sizes[0]
    largest = sizes.max(axis=1, keepdims=True)
    return np.asarray((sizes / np.where(largest > 0, largest, 1.0)).max(axis=0))


def are_shares(machine: Any) -> bool:
    """Return whether the strengths are relative to the largest one of each binary submodel."""
    classes = getattr(machine, "classes_", ())
    return len(classes) > 2 and not hasattr(machine, "thresholds_")


def _sizes(machine: Any, n: int) -> FloatArray | None:
    """Return the absolute coefficients of the samples, one row per binary submodel."""
    if hasattr(machine, "alpha_"):
        return np.abs(np.atleast_2d(machine.alpha_))
    model = find_model(machine)
    sizes = None if model is None else model.coefficient_sizes()
    if sizes is not None:
        return sizes
    if hasattr(machine, "dual_"):  # a linear model: dual variables, no kernel expansion
        return np.abs(np.atleast_2d(machine.dual_))
    if not hasattr(machine, "dual_coef_") or not hasattr(machine, "support_"):
        return None
    sizes = np.zeros((machine.dual_coef_.shape[0], n))
    dual = machine.dual_coef_
    sizes[:, machine.support_] = np.abs(dual.toarray() if sp.issparse(dual) else dual)
    return sizes
