"""Validate k and D of ReducedHullSVC and compute the smallest feasible k."""

from __future__ import annotations

import numbers
from typing import Any, TypeAlias

import numpy as np

from widemargin._base.messages import warn
from widemargin._base.validation import require
from widemargin.kernels import Rows
from widemargin.problems.reduced_hull import class_masses
from widemargin.problems.soft_margin import SoftMargin
from widemargin.solvers.reduced_hull import smallest_k, smallest_pair

Sizes: TypeAlias = tuple[float, float]
"""k_plus and k_minus."""

NO_PAIR = (
    "No k works: the means of the classes coincide, so that even the smallest hulls meet. Use "
    "another kernel, for instance kernel='rbf'"
)


def check_sizes(k: Any, D: Any) -> None:
    """Validate k and D as far as possible without the data."""
    automatic = isinstance(k, str)
    if D is not None:
        require(automatic and k == "auto", "k", k, '"auto" where D is given')
        good = all(_is_number(each) and each > 0 for each in _pair(D))
        require(good, "D", D, "a positive number (1/k) or a pair of them")
    elif automatic:
        require(k == "auto", "k", k, '"auto", a number or a pair of numbers')
    else:
        good = all(_is_number(each) and (each >= 1 or _is_fraction(each)) for each in _pair(k))
        fix = 'at least 1, a float in (0, 1) as a fraction of the class, a pair, or "auto"'
        require(good, "k", k, fix)


def asked_sizes(k: Any, D: Any, m_plus: float, m_minus: float) -> Sizes | None:
    """Return (k_plus, k_minus) from k or D and the class sizes; None for "auto"."""
    if D is not None:
        D_plus, D_minus = _pair(D)
        return max(1.0, 1.0 / D_plus), max(1.0, 1.0 / D_minus)
    if isinstance(k, str):
        return None
    k_plus, k_minus = _pair(k)
    return (
        float(k_plus * m_plus if _is_fraction(k_plus) else k_plus),
        float(k_minus * m_minus if _is_fraction(k_minus) else k_minus),
    )


def check_limits(sizes: Sizes | None, most: Sizes, name: str) -> None:
    """Raise if k exceeds the size of its class, whose total mass would be less than 1."""
    if sizes is None:
        return
    for k, m in zip(sizes, most, strict=True):
        if k > m * (1 + 1e-12):
            common = sizes[0] == sizes[1]
            limit, which = (min(most), "the smaller class") if common else (m, "its class")
            raise ValueError(
                f"{name} must be <= {tidy(limit)}, the size of {which}; got {name}={tidy(k)} "
                "(rows are counted by sample_weight)"
            )


def smallest_sizes(hulls: SoftMargin, rows: Rows, how: dict[str, Any]) -> Sizes:
    """Return the smallest feasible common k, or the smallest pair with a warning.

    `how` contains the budget, method and seed of the solver.
    """
    most = min(class_masses(hulls))
    k = smallest_k(hulls, rows, **how)
    if k is not None:
        return k, k
    pair = smallest_pair(hulls, rows, **how)
    if pair is None:
        raise ValueError(NO_PAIR)
    warn(
        f'k="auto": no common k separates the classes (up to {tidy(most)}, the size of the '
        f"smaller one). Taken is k_plus={tidy(pair[0])}, k_minus={tidy(pair[1])}, the smallest "
        "pair with k_plus != k_minus in proportion to the classes; give k=(k_plus, k_minus) for "
        "another", UserWarning,
    )  # fmt: skip
    return pair


def why_not(sizes: Sizes, hulls: SoftMargin, rows: Rows, how: dict[str, Any]) -> str:
    """Return the error message for hulls that meet, with the smallest feasible k."""
    meet = f"k={single((tidy(sizes[0]), tidy(sizes[1])))} is too small: the "
    meet += "classes are not separable" if sizes == (1.0, 1.0) else "reduced hulls meet"
    k = smallest_k(hulls, rows, **how)
    if k is not None:
        return f"{meet}. The smallest k that works for both is {tidy(k)}: use k >= {tidy(k)}"
    pair = smallest_pair(hulls, rows, **how)
    if pair is None:
        return f"{meet}. {NO_PAIR}"
    return (
        f"{meet}, and no common k works: one class lies inside the other. Use k_plus != k_minus, "
        f"for instance k=({tidy(pair[0])}, {tidy(pair[1])}), the smallest pair in proportion to "
        "the classes"
    )


def tidy(k: float) -> float | int:
    """Convert a float with an integral value to int."""
    return int(k) if float(k).is_integer() else float(k)


def single(pair: tuple[Any, Any]) -> Any:
    """Return a single value if both entries of a pair are equal, else the pair."""
    return pair[0] if pair[0] == pair[1] else pair


def _pair(value: Any) -> tuple[Any, Any]:
    """Return a pair as it is, and a single value as a pair of equal values."""
    if isinstance(value, tuple | list | np.ndarray) and len(value) == 2:
        return value[0], value[1]
    return value, value


def _is_number(value: Any) -> bool:
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return real and bool(np.isfinite(float(value)))


def _is_fraction(k: Any) -> bool:
    return not isinstance(k, numbers.Integral) and 0 < k < 1
