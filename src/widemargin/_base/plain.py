"""Arrays that need no conversion: the checks that can fail for them, and no others.

scikit-learn's validation recognises data frames, lists and other containers, which takes as long as
a small fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.multiclass import class_codes

PLAIN = (np.dtype(np.float64), np.dtype(np.float32))


def is_plain(X: Any) -> bool:
    """Return whether X is a finite array that scikit-learn would return as it is.

    Its checks take as long as a small fit; those here are the ones that can fail for such arrays.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype not in PLAIN or not X.flags.c_contiguous:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return X.size > 0 and bool(np.isfinite(np.add.reduce(X, axis=None)))


def is_plain_target(y: Any, n: int, real: bool) -> bool:
    """Return whether y is an array of n labels, or of n finite numbers, that needs no conversion.

    With more labels than half the samples, scikit-learn warns that these may be real numbers.
    """
    if type(y) is not np.ndarray or y.shape != (n,):
        return False
    if y.dtype.kind in "iub":
        return real or 2 * len(class_codes(y)[0]) <= n
    return real and y.dtype == np.float64 and bool(np.isfinite(y).all())


def remember_features(estimator: Any, X: Any) -> None:
    """Store the number of features, and that they have no names."""
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)
