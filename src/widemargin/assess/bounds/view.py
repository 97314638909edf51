"""View a two-class machine as a hyperplane through the origin and samples in a ball.

A threshold b is the weight of one more feature with the constant value s = R. The rows then lie in
a ball of radius sqrt(2) R, and the normal has the squared length |w|^2 + b^2 / R^2.
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

SOME_ROWS = 1_000  # on which kernels without a formula are checked


@dataclass(frozen=True, eq=False)
class LinearView:
    """What the theorems on linear functions take.

    Attributes
    ----------
    machine : estimator
        The last step of a pipeline.
    planes : Planes
        Its plane.
    signed : ndarray of shape (m,)
        Functional margins y f(x).
    size : float
        Length of the normal, that of the constant feature included.
    radius : float
        Radius of the ball, that feature included.
    row_length : float
        Length of the longest row without that feature.
    longest_entry : float
        Largest absolute value of a feature of the rows, as the machine is given them.
    dimension : float
        Number of features in feature space, without that feature; may be infinite.
    unmet : tuple of str
        What the theorems take to be fixed in advance, and is not.
    assumes : str
        What they take for granted of new rows.
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
        """Number of rows."""
        return len(self.signed)

    @property
    def threshold(self) -> float:
        """The b of w'x + b."""
        return float(self.planes.threshold[0])

    @property
    def margins(self) -> FloatArray:
        """Distances from the plane through the origin."""
        return self.signed / self.size if self.size > 0 else np.zeros(self.m)

    @property
    def training_error(self) -> float:
        """Share of the rows that are not on the right side."""
        return float((self.signed <= 0).mean())


def linear_view(est: Any, X: Any, y: Any, R: float | None) -> LinearView:
    """Return a two-class machine with `coef_` or `dual_coef_` as the theorems see it."""
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
    """Return rows without names of features, as an array or a sparse matrix."""
    return X if sp.issparse(X) else np.asarray(X)


def longest_row(machine: Any, X: Any, R: float | None) -> tuple[float, str]:
    """Return the radius of the ball that holds the rows, and where it comes from."""
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
    """Return the number of features in feature space; infinite where it is not known."""
    kernel: Kernel | None = fitted_kernel(machine)
    n_features = int(X.shape[1])
    if kernel is None or kernel.name == "linear":
        return n_features
    if kernel.name == "poly" and float(kernel.degree).is_integer():
        degree = int(kernel.degree)
        # Monomials of exactly that degree, or with a constant of up to it.
        return math.comb(n_features + degree - (kernel.coef0 == 0), degree)
    return math.inf


def not_in_advance(est: Any, machine: Any, X: Any) -> tuple[str, ...]:
    """Return what was chosen after the rows were seen, though a theorem wants it before."""
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
    """Whether a kernel has a feature space, by its formula or else by its values on some rows."""
    if kernel.name == "precomputed":
        return is_mercer(X[:SOME_ROWS, :SOME_ROWS])
    if kernel.name == "callable":
        some = X[:SOME_ROWS]
        return is_mercer(kernel(some, some))
    return kernel.is_mercer_by_name
