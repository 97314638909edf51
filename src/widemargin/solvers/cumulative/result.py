"""Result of the solver of cumulative models."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.solvers.base import LinearResult


@dataclass(frozen=True, eq=False, kw_only=True)
class CumulativeResult(LinearResult):
    """A fitted cumulative model; the problem certifies it.

    Attributes
    ----------
    likelihood : float
        Log-likelihood of the model.
    above : float
        How far J is above its minimum over the thresholds.
    gradient, threshold_gradient : ndarray of shape (n_features,), (n_ranks - 1,)
        Gradient of that minimum by the weights, and of J by the thresholds.
    separated : bool
        Whether the ranks can be separated, so that the likelihood has no maximum.
    n_dependent : int
        Number of directions of w, those of constant columns included, that the likelihood does not
        depend on (without a penalty; 0 where no matrix was formed that could tell).
    constant : ndarray of shape (n_features,)
        Which columns have one value in all rows.
    """

    likelihood: float
    above: float
    gradient: FloatArray
    threshold_gradient: FloatArray
    separated: bool
    n_dependent: int
    constant: BoolArray
