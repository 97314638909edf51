"""Hyperplanes of a fitted classifier in feature space: normals, thresholds, distances.

Linear estimators have their weights in `coef_`, kernel estimators their coefficients in
`dual_coef_`; `estimators._base.inspection` returns their kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import class_pairs
from widemargin._base.typing import BoolArray, FloatArray, IntArray, Matrix
from widemargin._base.validation import check_X
from widemargin.estimators._base.inspection import (
    expansion_coefficients,
    fitted_kernel,
    kernel_rows,
    pair_values,
    votes_by_pairs,
)
from widemargin.fitted.record import find_training_set, machine_of
from widemargin.kernels import Rows


@dataclass(frozen=True, eq=False)
class Planes:
    """Hyperplanes of the binary submodels of a classifier; a single one for two classes.

    Attributes
    ----------
    gram : ndarray of shape (n_machines, n_machines)
        Inner products of the normals in feature space.
    coef : ndarray of shape (n_machines, n_features) or None
        The normals of linear models.
    threshold : ndarray of shape (n_machines,)
        Intercepts, which are added to w'x.
    power : float
        The p of the norm |w|_p that the model minimises.
    by_pairs : bool
        Whether several classes have one submodel per pair, or one per class.
    """

    gram: FloatArray
    coef: FloatArray | None
    threshold: FloatArray
    power: float
    by_pairs: bool

    def size(self, difference: FloatArray) -> float:
        """Return the norm of a linear combination of the normals, in the norm of the model."""
        if self.power == 2 or self.coef is None:
            return math.sqrt(max(0.0, float(difference @ self.gram @ difference)))
        return float(np.linalg.norm(difference @ self.coef, ord=self.power))


def last_step(est: Any, X: Any) -> tuple[Any, Any]:
    """Return the last step of a pipeline, and X transformed by the steps before it."""
    machine = machine_of(est)
    check_is_fitted(machine)
    return machine, (est[:-1].transform(X) if len(getattr(est, "steps", ())) > 1 else X)


def class_numbers(est: Any, y: Any) -> IntArray:
    """Return the class code of each label, its index in `classes_`."""
    if not hasattr(est, "classes_"):
        raise TypeError(
            f"{type(est).__name__} is no classifier: margins are those of predicted classes"
        )
    place = {label: k for k, label in enumerate(np.asarray(est.classes_).tolist())}
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be one label a row; got an array of shape {labels.shape}")
    unknown = sorted({str(label) for label in labels.tolist() if label not in place})
    if unknown:
        raise ValueError(
            f"y has labels that the model was not fitted with: {', '.join(unknown[:5])}; its "
            f"classes are {list(place)}"
        )
    return np.array([place[label] for label in labels.tolist()], dtype=np.intp)


def planes_of(est: Any, X: Matrix) -> Planes:
    """Return the hyperplanes of a fitted estimator; only precomputed kernels require X."""
    coef, gram = None, None
    if hasattr(est, "coef_"):
        dense = est.coef_.toarray() if sp.issparse(est.coef_) else est.coef_
        coef = np.atleast_2d(np.asarray(dense, np.float64))
        gram = coef @ coef.T
    elif hasattr(est, "dual_coef_") and fitted_kernel(est) is not None:
        beta = expansion_coefficients(est)  # the normals are sum_j beta_j phi(x_j)
        rows, used = _support_rows(est, X)
        gram = np.asarray(beta.T @ rows.weighted_sum(used, rows, used, beta))
    if gram is None:
        raise TypeError(
            f"{type(est).__name__} is no plane in a feature space (it has neither coef_ nor "
            "dual_coef_), so that no length of w divides its margins: use margins.margins"
        )
    threshold = np.broadcast_to(np.ravel(getattr(est, "intercept_", 0.0)), (len(gram),))
    power = float(getattr(est, "norm", 2)) if coef is not None else 2.0
    return Planes(gram, coef, np.asarray(threshold), power, votes_by_pairs(est))


def plane_values(est: Any, planes: Planes, X: Any) -> FloatArray:
    """Return the decision values of the submodels, one column per submodel."""
    several = len(planes.gram) > 1 and planes.by_pairs
    values = pair_values(est, X) if several else est.decision_function(X)
    return np.asarray(values, dtype=np.float64).reshape(len(values), -1)


def nearest_plane(
    planes: Planes, values: FloatArray, codes: IntArray, n_classes: int
) -> FloatArray:
    """Return the signed distance of each sample to the nearest boundary of its own class."""
    if n_classes == 2:
        size = _positive(planes.size(np.ones(1)))
        return np.where(codes == 1, 1.0, -1.0) * values[:, 0] / size
    nearest = np.full(len(codes), np.inf)
    for k, (i, j) in enumerate(class_pairs(n_classes)):
        between = np.zeros(len(planes.gram))
        if planes.by_pairs:
            between[k], away = 1.0, values[:, k]
        else:
            between[i], between[j], away = 1.0, -1.0, values[:, i] - values[:, j]
        size = _positive(planes.size(between))
        for code, sign in ((i, 1.0), (j, -1.0)):
            own: BoolArray = codes == code
            nearest[own] = np.minimum(nearest[own], sign * away[own] / size)
    return nearest


def squared_lengths(est: Any, X: Any) -> FloatArray:
    """Return the squared norm of each sample in the feature space of an estimator."""
    kernel = fitted_kernel(est)
    if kernel is None:
        X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        squares = X.multiply(X).sum(axis=1) if sp.issparse(X) else np.square(X).sum(axis=1)
        return np.asarray(squares, dtype=np.float64).ravel()
    X = check_X(est, X, accept_sparse=kernel.name != "precomputed")
    if kernel.name == "precomputed" and X.shape[0] != X.shape[1]:
        raise ValueError(
            "X must be the square kernel matrix of the training rows: k(x, x) of other rows is "
            f"not in it; got shape {X.shape}"
        )
    return kernel_rows(est, X).diagonal()


def _support_rows(est: Any, X: Matrix) -> tuple[Rows, IntArray]:
    """Return kernel rows, and the indices of the support vectors among them."""
    if est.kernel != "precomputed":
        rows = kernel_rows(est, est.support_vectors_)
        return rows, np.arange(rows.n)
    data = find_training_set(est)
    if data is not None:
        return kernel_rows(est, data.X), np.asarray(data.member[est.support_], dtype=np.intp)
    X = np.asarray(X)
    if X.shape[0] != X.shape[1]:
        raise ValueError(
            "X must be the square kernel matrix of the training rows: the model has kept no "
            f"kernel values between its support vectors; got shape {X.shape}"
        )
    return kernel_rows(est, X), est.support_.astype(np.intp)


def _positive(size: float) -> float:
    if not size > 0:
        raise ValueError("est has a machine with w = 0, a constant: no row has a distance from it")
    return size
