"""Represent a binary classifier as a hyperplane through the origin, with samples in a ball.

A threshold b becomes the weight of an additional feature with the constant value R. The samples
are then in a ball of radius sqrt(2) R, and the squared norm of the normal is |w|^2 + b^2 / R^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import get_tags

from widemargin._base.typing import FloatArray
from widemargin._base.validation import require
from widemargin.assess.planes import (
    Planes,
    class_numbers,
    last_step,
    plane_values,
    planes_of,
    squared_lengths,
)
from widemargin.estimators._base.inspection import fitted_kernel
from widemargin.kernels import Kernel, is_mercer

SOME_ROWS = 1_000  # samples on which precomputed and callable kernels are tested


@dataclass(frozen=True, eq=False)
class LinearView:
    """Quantities of a binary classifier that the bounds for linear functions depend on.

    Attributes
    ----------
    machine : estimator
        The estimator, or the last step of a pipeline.
    planes : Planes
        Its hyperplane.
    signed : ndarray of shape (m,)
        Functional margins y f(x).
    size : float
        Norm of the normal, including the constant feature.
    radius : float
        Radius of the ball, including the constant feature.
    row_length : float
        Largest norm of a sample, without the constant feature.
    longest_entry : float
        Largest absolute feature value of the samples after the earlier steps of a pipeline.
    dimension : float
        Dimension of the feature space, without the constant feature; may be infinite.
    unmet : tuple of str
        Conditions of the theorems that do not hold.
    assumes : str
        Assumptions on new samples.
    """

    machine: Any
    planes: Planes
    signed: FloatArray
    size: float
    radius: float
    row_length: float
    longest_entry: float
    dimension: float
    unmet: tuple[str, ...]
    assumes: str

    @property
    def m(self) -> int:
        """Number of samples."""
        return len(self.signed)

    @property
    def threshold(self) -> float:
        """Threshold b of w'x + b."""
        return float(self.planes.threshold[0])

    @property
    def margins(self) -> FloatArray:
        """Signed distances from the hyperplane through the origin."""
        return self.signed / self.size if self.size > 0 else np.zeros(self.m)

    @property
    def training_error(self) -> float:
        """Fraction of the samples that are not on the right side."""
        return float((self.signed <= 0).mean())


def linear_view(est: Any, X: Any, y: Any, R: float | None) -> LinearView:
    """Return the view of a binary classifier with `coef_` or `dual_coef_`."""
    machine, seen = last_step(est, X)
    codes = class_numbers(machine, y)
    planes = planes_of(machine, seen)
    values = plane_values(machine, planes, seen)[:, 0]
    row_length, assumes = longest_row(machine, seen, R)
    entries = plain(seen)
    size, radius = math.sqrt(max(0.0, planes.gram[0, 0])), row_length
    threshold = float(planes.threshold[0])
    if threshold != 0 and row_length > 0:
        size, radius = math.hypot(size, threshold / row_length), math.sqrt(2.0) * row_length
        assumes += "; the threshold counts as the weight of a feature that is constant, R"
    return LinearView(
        machine, planes, np.where(codes == 1, values, -values), size, radius, row_length,
        float(abs(entries).max()), feature_dimension(machine, entries),
        not_in_advance(est, machine, entries), assumes,
    )  # fmt: skip


def plain(X: Any) -> Any:
    """Return samples without feature names, as an array or a sparse matrix."""
    return X if sp.issparse(X) else np.asarray(X)


def longest_row(machine: Any, X: Any, R: float | None) -> tuple[float, str]:
    """Return the radius of a ball that contains the samples, and a note on its origin."""
    seen = math.sqrt(max(0.0, float(squared_lengths(machine, X).max())))
    kernel = fitted_kernel(machine)
    if R is not None:
        fix = f"at least the length of the longest row, {seen:.6g}"
        require(seen * (1.0 - 1e-12) <= R, "R", R, fix)
        return float(R), "R was given"
    if kernel is not None and kernel.name == "rbf":
        return 1.0, "R = 1 for all rows, by the kernel"
    return seen, "R is that of the rows seen, and no new row may be longer"


def feature_dimension(machine: Any, X: Any) -> float:
    """Return the dimension of the feature space; infinite if it is not known."""
    kernel: Kernel | None = fitted_kernel(machine)
    n_features = int(X.shape[1])
    if kernel is None or kernel.name == "linear":
        return n_features
    if kernel.name == "poly" and float(kernel.degree).is_integer():
        degree = int(kernel.degree)
        # Monomials of exactly this degree, or of up to this degree if coef0 is not zero.
        return math.comb(n_features + degree - (kernel.coef0 == 0), degree)
    return math.inf


def not_in_advance(est: Any, machine: Any, X: Any) -> tuple[str, ...]:
    """Return the unmet conditions: quantities not fixed in advance, or an indefinite kernel."""
    found: tuple[str, ...] = ()
    kernel = fitted_kernel(machine)
    if kernel is not None:
        scaled = isinstance(machine.gamma, str) and machine.gamma == "scale"
        if scaled and kernel.name in ("rbf", "poly", "sigmoid"):
            found += ('a kernel fixed in advance (gamma="scale" was computed from the rows)',)
        if not _inner_product(kernel, X):
            found += ("a kernel that is an inner product (this one is not, or not for all rows)",)
    earlier = [step for _, step in getattr(est, "steps", [])[:-1]]
    real = [step for step in earlier if step is not None and not isinstance(step, str)]
    if any(get_tags(step).requires_fit for step in real):
        found += ("features fixed in advance (earlier steps of the pipeline were fitted)",)
    return found


def _inner_product(kernel: Kernel, X: Any) -> bool:
    """Return whether a kernel is positive semi-definite, by name or on the first samples."""
    if kernel.name == "precomputed":
        return is_mercer(X[:SOME_ROWS, :SOME_ROWS])
    if kernel.name == "callable":
        some = X[:SOME_ROWS]
        return is_mercer(kernel(some, some))
    return kernel.is_mercer_by_name
