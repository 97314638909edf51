"""Kernels as objects, with hyperparameters that `tune` can choose; `leaves` has their formulas.

An object, or one of scikit-learn's Gaussian processes, can be the `kernel` of any kernel estimator.
"""

from widemargin.kernels.objects.base import Constant, KernelObject, Product, Sum
from widemargin.kernels.objects.from_sklearn import converted
from widemargin.kernels.objects.leaves import (
    RBF,
    DotProduct,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
)

__all__ = [
    "RBF",
    "Constant",
    "DotProduct",
    "KernelObject",
    "Matern",
    "Periodic",
    "Product",
    "RationalQuadratic",
    "Sum",
    "White",
    "converted",
]
