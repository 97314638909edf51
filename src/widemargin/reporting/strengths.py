"""Embedding strengths: the absolute coefficients of the training samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.fitted.record import find_model


def strengths(machine: Any, n: int) -> FloatArray | None:
    """Return the strength of each of the n training rows; None where rows have no coefficients.

    One machine: the absolute coefficients. Several, for pairs of classes or for one class against
    the rest: a row's largest share of the largest coefficient of a machine, between 0 and 1, so
    that a machine with large coefficients does not hide the others.
    """
    sizes = _sizes(machine, n)
    if sizes is None or sizes.shape[1] != n:
        return None
    if len(sizes) == 1:
        return sizes[0]
    largest = sizes.max(axis=1, keepdims=True)
    return np.asarray((sizes / np.where(largest > 0, largest, 1.0)).max(axis=0))


def are_shares(machine: Any) -> bool:
    """Tell whether the strengths of a machine are shares of the largest ones."""
    classes = getattr(machine, "classes_", ())
    return len(classes) > 2 and not hasattr(machine, "thresholds_")


def _sizes(machine: Any, n: int) -> FloatArray | None:
    """Return the absolute coefficients of the rows in each machine, a row of them a machine."""
    if hasattr(machine, "alpha_"):
        return np.abs(np.atleast_2d(machine.alpha_))
    model = find_model(machine)
    sizes = None if model is None else model.coefficient_sizes()
    if sizes is not None:
        return sizes
    if hasattr(machine, "dual_"):  # of a plane, not of an expansion in rows
        return np.abs(np.atleast_2d(machine.dual_))
    if not hasattr(machine, "dual_coef_") or not hasattr(machine, "support_"):
        return None
    sizes = np.zeros((len(machine.dual_coef_), n))
    sizes[:, machine.support_] = np.abs(machine.dual_coef_)
    return sizes
