"""Convert fitted models to the estimators of scikit-learn with the same coefficients."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widemargin.estimators._base.inspection import fitted_kernel, votes_by_pairs

KERNEL_ESTIMATORS = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
LINEAR_ESTIMATORS = ("LinearSVC", "LinearSVR")
# Fitted attributes that have the same name, shape and meaning in both libraries.
COMMON = (
    "classes_", "class_weight_", "support_", "support_vectors_", "fit_status_", "shape_fit_",
    "n_iter_", "offset_", "n_features_in_", "feature_names_in_",
)  # fmt: skip


def to_sklearn(model: Any) -> BaseEstimator:
    """Return the scikit-learn estimator with the coefficients of a fitted model.

    Its predictions and decision values agree with those of the model up to rounding. It needs
    scikit-learn alone, for example for deployment or for tools that know only its classes.
    Probabilities, certificates and leave-one-out results are not converted. With more than two
    classes, scikit-learn breaks ties of votes differently unless ``break_ties=True``.

    Parameters
    ----------
    model : SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC or LinearSVR
        Fitted model. Parameters that scikit-learn does not have must not affect predictions, so
        gamma must be a single number and a LinearSVC must not be fitted one-vs-one.

    Returns
    -------
    estimator
        Fitted estimator of :mod:`sklearn.svm` of the same name.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, to_sklearn
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10).fit(X, y)
    >>> plain = to_sklearn(model)
    >>> type(plain).__module__.split(".")[0], bool((plain.predict(X) == model.predict(X)).all())
    ('sklearn', True)
    """
    known = KERNEL_ESTIMATORS + LINEAR_ESTIMATORS
    ours = [c.__name__ for c in type(model).__mro__ if c.__module__.startswith("widemargin.")]
    name = next((name for name in ours if name in known), None)
    if name is None:
        raise TypeError(
            f"to_sklearn converts models of widemargin: {', '.join(known)}; got "
            f"{type(model).__name__}"
        )
    import sklearn.svm  # imported late, as it loads much of scikit-learn

    check_is_fitted(model)
    plain = _unfitted(model, getattr(sklearn.svm, name))
    for attribute in COMMON:
        if attribute in vars(model):
            setattr(plain, attribute, getattr(model, attribute))
    if name in LINEAR_ESTIMATORS:
        _fill_linear(plain, model)
    else:
        _fill_kernel(plain, model)
    return plain


def _unfitted(model: Any, kind: Any) -> Any:
    """Return an estimator of scikit-learn with the parameters that both classes have."""
    known = inspect.signature(kind.__init__).parameters
    # `probability` would announce probabilities that are not converted.
    shared = {k: v for k, v in model.get_params(deep=False).items() if k in known}
    shared.pop("probability", None)
    if "kernel" in shared:  # of the fit; the parameters may have been changed since
        kernel = fitted_kernel(model)
        assert kernel is not None
        if kernel.name == "callable":
            fix = "scikit-learn's callables need the training samples"
            raise ValueError(f"kernel must be a name: {fix}")
        degree = 3 if kernel.name != "poly" else int(kernel.degree)
        if kernel.name == "poly" and degree != kernel.degree:
            raise ValueError(
                f"degree must be an integer: LIBSVM truncates {kernel.degree}; fit with degree="
                f"{degree} or {degree + 1}"
            )
        shared |= {"kernel": kernel.name, "degree": degree, "coef0": float(kernel.coef0)}
    if shared.get("intercept_scaling", 1) is None:
        shared.pop("intercept_scaling")  # affects the fit only
    return kind(**shared)


def _fill_linear(plain: Any, model: Any) -> None:
    """Set the fitted attributes of LinearSVC or LinearSVR."""
    if len(getattr(model, "classes_", ())) > 2 and votes_by_pairs(model):
        raise ValueError(
            'multi_class="ovo" has one hyperplane per pair of classes, which scikit-learn\'s '
            'LinearSVC cannot hold: fit with multi_class="ovr", or use SVC(kernel="linear")'
        )
    plain.coef_ = model.coef_.copy()
    plain.intercept_ = np.array(model.intercept_)


def _fill_kernel(plain: Any, model: Any) -> None:
    """Set the fitted attributes of a LIBSVM estimator, including those its Cython code reads."""
    gamma = np.asarray(model.gamma_, dtype=np.float64)
    if gamma.ndim:
        raise ValueError(
            "gamma with one value per feature does not exist in scikit-learn: scale the features "
            "by sqrt(gamma) and fit with gamma=1.0"
        )
    if callable(model.kernel):
        raise ValueError(
            "kernel must be a name: scikit-learn's callables need the training samples"
        )
    sparse = sp.issparse(model.support_vectors_)
    support, dual = model.support_vectors_, model.dual_coef_
    if sparse:
        support, dual = sp.csr_matrix(support, dtype=np.float64), _with_zeros(dual.toarray())
    else:
        support, dual = np.array(support, dtype=np.float64), np.array(dual)
    # With two classes LIBSVM counts the first one as positive; scikit-learn keeps both signs.
    n_classes = len(getattr(model, "classes_", ()))
    flip = -1.0 if n_classes == 2 else 1.0
    vars(plain).update(
        support_vectors_=support,
        dual_coef_=dual,
        intercept_=np.array(model.intercept_),
        _dual_coef_=flip * dual,
        _intercept_=flip * np.array(model.intercept_),
        # LIBSVM always has room for two classes here.
        _n_support=np.resize(np.asarray(model.n_support_, dtype=np.int32), (max(2, n_classes),)),
        _num_iter=np.atleast_1d(model.n_iter_),
        _gamma=float(gamma),
        _sparse=sparse,
        _probA=np.empty(0),
        _probB=np.empty(0),
        _effective_probability=False,
    )


def _with_zeros(dual: np.ndarray[Any, Any]) -> sp.csr_matrix:
    """Return a CSR matrix that stores all entries: LIBSVM reads its data as a full matrix."""
    n_rows, n_columns = dual.shape
    indices = np.tile(np.arange(n_columns, dtype=np.int32), n_rows)
    ends = np.arange(n_rows + 1, dtype=np.int32) * np.int32(n_columns)
    return sp.csr_matrix((dual.ravel(), indices, ends), shape=dual.shape)
