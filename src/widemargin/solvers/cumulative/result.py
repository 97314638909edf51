"""Result of the solver of cumulative models."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import BoolArray
from widemargin.problems.cumulative import CumulativeModel
from widemargin.solvers.base import LinearResult


@dataclass(frozen=True, eq=False, kw_only=True)
class CumulativeResult(LinearResult, CumulativeModel):
    """A fitted cumulative model; the problem certifies it.

    Attributes
    ----------
    likelihood : float
        Log-likelihood of the model.
    separated : bool
        Whether the ranks can be separated, so that the likelihood has no maximum.
    n_dependent : int
        Number of directions of w, those of constant columns included, that the likelihood does not
        depend on (without a penalty; 0 where no matrix was formed that could tell).
    constant : ndarray of shape (n_features,)
        Which columns have one value in all rows.
    """

    likelihood: float
    separated: bool
    n_dependent: int
    constant: BoolArray
