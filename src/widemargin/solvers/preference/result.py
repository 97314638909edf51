"""Result of the preference solvers."""

from __future__ import annotations

from dataclasses import dataclass

from widemargin._base.typing import FloatArray
from widemargin.problems.preference.pair_sums import DualPoint
from widemargin.solvers.base import Result


@dataclass(frozen=True, eq=False, kw_only=True)
class PreferenceResult(Result):
    """A utility function with the dual point that proves how good it is.

    It is a :class:`widemargin.problems.preference.PreferenceModel`, which the problem certifies.

    Attributes
    ----------
    coef : ndarray of shape (n_features,) or (n_rows,)
        Weights w of a linear machine (a matrix was given), expansion coefficients beta of a
        kernel machine (Rows were given).
    f : ndarray of shape (n_rows,)
        Utilities of the training rows, in float64.
    penalty : float
        Half the squared norm of the utility function, or the l_1 norm of its weights.
    point : DualPoint
        Dual variables of all pairs (l_1 norm: before they are divided by max(1, abs(image).max())).
    image : ndarray of shape (n_rows,) or (n_features,)
        K beta of the coefficients of the dual point, in float64; X'beta with an l_1 norm.
    kernel_evaluations : int
        Kernel values computed.
    """

    coef: FloatArray
    f: FloatArray
    penalty: float
    point: DualPoint
    image: FloatArray
    kernel_evaluations: int = 0
