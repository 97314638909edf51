"""Conversion of the kernel objects of scikit-learn's Gaussian processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from widemargin._base.validation import require
from widemargin.kernels.objects.base import Constant, KernelObject, Product, Sum
from widemargin.kernels.objects.leaves import (
    RBF,
    SMOOTHNESS,
    DotProduct,
    Matern,
    Periodic,
    RationalQuadratic,
    White,
)

MODULE = "sklearn.gaussian_process.kernels"


def converted(kernel: Any) -> Any:
    """Return our kernel object for one of scikit-learn; any other kernel is returned as it is."""
    # No isinstance check: importing scikit-learn's module would import many others.
    if not any(base.__module__ == MODULE for base in type(kernel).__mro__):
        return kernel
    convert = CONVERSIONS.get(type(kernel).__name__)
    names = ", ".join(CONVERSIONS)
    require(convert is not None, "kernel", kernel, f"made of {names}, or a function of two arrays")
    assert convert is not None
    return convert(kernel)


def _fixed(kernel: Any, **names: str) -> tuple[str, ...]:
    """Return our names of the hyperparameters whose bounds are "fixed"."""
    given = {each.name: each.fixed for each in kernel.hyperparameters}
    return tuple(ours for theirs, ours in names.items() if given.get(theirs))


def _scale(kernel: Any) -> Any:
    scale = np.asarray(kernel.length_scale, dtype=np.float64)
    return float(scale) if scale.ndim == 0 else tuple(scale.tolist())


def _matern(kernel: Any) -> KernelObject:
    fixed = _fixed(kernel, length_scale="length_scale")
    if np.isinf(kernel.nu):
        return RBF(_scale(kernel), fixed=fixed)
    require(kernel.nu in SMOOTHNESS, "nu", kernel.nu, "one of 0.5, 1.5, 2.5 and infinity")
    return Matern(_scale(kernel), nu=float(kernel.nu), fixed=fixed)


def _power(kernel: Any) -> KernelObject:
    exponent = kernel.exponent
    fix = "a positive integer in a power of a kernel"
    require(float(exponent).is_integer() and exponent >= 1, "exponent", exponent, fix)
    base: KernelObject = converted(kernel.kernel)
    require(exponent == 1 or len(base._log_parameters()) == 0, "kernel", kernel,
            "without powers of kernels that have hyperparameters to tune")  # fmt: skip
    found = base
    for _ in range(int(exponent) - 1):
        found = found * base
    return found


CONVERSIONS: dict[str, Callable[[Any], KernelObject]] = {
    "ConstantKernel": lambda k: Constant(
        float(k.constant_value), fixed=_fixed(k, constant_value="value")
    ),
    "WhiteKernel": lambda k: White(float(k.noise_level), fixed=_fixed(k, noise_level="noise")),
    "RBF": lambda k: RBF(_scale(k), fixed=_fixed(k, length_scale="length_scale")),
    "Matern": _matern,
    "RationalQuadratic": lambda k: RationalQuadratic(
        _scale(k), alpha=float(k.alpha), fixed=_fixed(k, length_scale="length_scale", alpha="alpha")
    ),
    "ExpSineSquared": lambda k: Periodic(
        float(k.length_scale),
        periodicity=float(k.periodicity),
        fixed=_fixed(k, length_scale="length_scale", periodicity="periodicity"),
    ),
    "DotProduct": lambda k: DotProduct(float(k.sigma_0), fixed=_fixed(k, sigma_0="sigma_0")),
    "Sum": lambda k: Sum(converted(k.k1), converted(k.k2)),
    "Product": lambda k: Product(converted(k.k1), converted(k.k2)),
    "Exponentiation": _power,
}
