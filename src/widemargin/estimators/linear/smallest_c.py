"""Smallest C for which an l1-penalised linear classifier has a nonzero weight: l1_min_c."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_X_y
from sklearn.utils.multiclass import check_classification_targets

from widemargin._base.multiclass import check_classes
from widemargin._base.tolerances import SUM_ROUNDING
from widemargin._base.validation import require, require_bool, require_number
from widemargin.problems.l1_margin import L1Margin


def l1_min_c(
    X: Any,
    y: Any,
    *,
    loss: str = "squared_hinge",
    fit_intercept: bool = True,
    intercept_scaling: float | None = None,
) -> float:
    r"""Return the smallest C for which an l1-penalised linear classifier is not empty.

    For larger C, ``LinearSVC(penalty="l1")`` without class or sample weights has a nonzero
    weight. With more than two classes, this holds for at least one of the one-vs-rest submodels.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training samples.
    y : array-like of shape (n_samples,)
        Class labels; at least two classes must occur.
    loss : {"squared_hinge"}, default="squared_hinge"
        Loss function. The logistic loss, "log" in scikit-learn, belongs to no estimator here.
    fit_intercept : bool, default=True
        Whether the classifier has an intercept.
    intercept_scaling : float, default=None
        None: the intercept is not penalised. A positive number: it is the weight of a constant
        feature with this value and is penalised, as in LIBLINEAR; the model is then not empty if
        that weight is not zero. The result is that of :func:`sklearn.svm.l1_min_c`.

    Returns
    -------
    C : float
        Smallest C.

    Raises
    ------
    ValueError
        If the weights are zero for all C, because no feature is correlated with the labels.

    See Also
    --------
    LinearSVC : Linear support vector classification.

    Notes
    -----
    All weights are zero if :math:`C \le 1 / (2 \max_j |\sum_i y_i \xi_i x_{ij}|)`, with the
    slacks :math:`\xi_i` of the model that has an intercept only. These are 1 without an intercept
    or with a penalised one, and twice the fraction of the other class if the intercept is free.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from widemargin import l1_min_c
    >>> X, y = make_classification(n_samples=100, n_features=20, random_state=42)
    >>> round(l1_min_c(X, y), 4)
    0.0044
    """
    fix = '"squared_hinge"; for the logistic loss use sklearn.svm.l1_min_c'
    require(isinstance(loss, str) and loss == "squared_hinge", "loss", loss, fix)
    require_bool("fit_intercept", fit_intercept)
    if intercept_scaling is not None:
        fix = "a positive number, or None for an intercept that is not penalised"
        require_number("intercept_scaling", intercept_scaling, fix)
    X, y = check_X_y(X, y, accept_sparse="csr", dtype=np.float64)
    check_classification_targets(y)
    classes, codes = check_classes(y)
    penalised = fit_intercept and intercept_scaling is not None
    largest = 0.0
    for k in range(1 if len(classes) == 2 else len(classes)):
        signs = np.where(codes == k, 1.0, -1.0)
        problem = L1Margin(signs, np.ones(len(y)), fit_intercept and not penalised)
        alpha = signs * problem.empty_model()[1]
        correlation = np.abs(alpha @ X)
        if problem.intercept:  # of a constant feature it is zero up to rounding errors
            correlation[correlation <= SUM_ROUNDING * (np.abs(alpha) @ abs(X))] = 0.0
        largest = max(largest, float(correlation.max()))
        if penalised:
            assert intercept_scaling is not None
            largest = max(largest, abs(float(alpha.sum())) * float(intercept_scaling))
    if largest == 0.0:
        raise ValueError(
            "no C makes a weight nonzero: no feature of X is correlated with y; add features "
            "that distinguish the classes"
        )
    return 1.0 / largest
