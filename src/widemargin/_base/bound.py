"""`Bound`, the return type of the error bounds, and validation of their arguments."""

from __future__ import annotations

import math
import numbers
from typing import Any, Self

from widemargin._base.tolerances import MARGIN_ROUNDING, OBJECTIVE_ROUNDING
from widemargin._base.validation import require, require_integer


class Bound(float):
    """Bound on an error rate, with the conditions under which it holds.

    Parameters
    ----------
    value : float
        Value of the bound.
    name : str
        Name of the theorem.
    unmet : tuple of str
        Conditions of the theorem that are not met.
    dimension : float or None
        Capacity of the function class (kappa, k or h), for theorems that use one.
    of : str
        The bounded quantity.
    lower : bool
        Whether this is a lower bound.

    Attributes
    ----------
    name, unmet, dimension, of, lower
        As above.
    vacuous : bool
        Whether the bound is trivial: a condition is not met, or the value is at least 1 (at most 0
        for a lower bound).

    Examples
    --------
    >>> from widemargin import bounds
    >>> bound = bounds.adaptive_margin(m=100_000, R=1.0, W=1.0, D=0.0, delta=0.05)
    >>> round(bound, 4), bound.vacuous, bound.dimension
    (0.4228, False, 65)
    >>> bounds.adaptive_margin(m=1_000, R=1.0, W=1.0, D=0.0, delta=0.05)
    Bound(16.36, vacuous: not below 1)
    """

    name: str
    unmet: tuple[str, ...]
    dimension: float | None
    of: str
    lower: bool

    def __new__(
        cls,
        value: float,
        name: str,
        unmet: tuple[str, ...] = (),
        dimension: float | None = None,
        of: str = "error rate on new rows",
        lower: bool = False,
    ) -> Self:
        """Create a float that carries the attributes of the bound."""
        bound = super().__new__(cls, value)
        bound.name, bound.unmet, bound.dimension = name, unmet, dimension
        bound.of, bound.lower = of, lower
        return bound

    @property
    def vacuous(self) -> bool:
        """Whether the bound is trivial."""
        return bool(self.unmet) or not (self > 0.0 if self.lower else self < 1.0)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return float(self), self.name, self.unmet, self.dimension, self.of, self.lower

    def __repr__(self) -> str:
        if not self.vacuous:
            return f"Bound({float(self):.4g})"
        trivial = "not above 0" if self.lower else "not below 1"
        return f"Bound({float(self):.4g}, vacuous: {', '.join(self.unmet or (trivial,))})"


def ratio_squared(R: float, rho: float) -> float:
    """Return (R / rho)^2, or infinity on overflow."""
    ratio = R / rho
    return ratio * ratio


def rounded_down(size: float) -> float:
    """Return the floor of `size`, which may be infinite or too small by a rounding error."""
    return math.floor(size * (1.0 + OBJECTIVE_ROUNDING)) if math.isfinite(size) else math.inf


def check_rows(name: str, value: Any) -> None:
    """Require a positive number of samples."""
    require_integer(name, value, "a positive integer")


def check_probability(name: str, value: Any) -> None:
    """Require a probability strictly between 0 and 1."""
    require(_real(value) and 0 < value < 1, name, value, "a probability in (0, 1)")


def check_share(**shares: Any) -> None:
    """Require fractions in [0, 1]."""
    for name, value in shares.items():
        require(_real(value) and 0 <= value <= 1, name, value, "a fraction in [0, 1]")


def check_lengths(**lengths: Any) -> None:
    """Require finite non-negative numbers."""
    for name, value in lengths.items():
        good = _real(value) and math.isfinite(value) and value >= 0
        require(good, name, value, "a finite number, not negative")


def check_positive(**values: Any) -> None:
    """Require finite positive numbers."""
    for name, value in values.items():
        good = _real(value) and math.isfinite(value) and value > 0
        require(good, name, value, "a positive number")


def check_margin(rho: float, largest: float, why: str) -> None:
    """Require a margin that a sample can attain."""
    fix = f"at most {largest:g}, {why} (margins of unnormalised weights are not bounded)"
    require(rho <= largest * (1.0 + MARGIN_ROUNDING), "rho", rho, fix)


def check_constant(c: Any) -> None:
    """Require a value for the universal constant that the theorem leaves unspecified."""
    good = _real(c) and math.isfinite(c) and c > 0
    require(good, "c", c, "a positive number, the constant that the theorem does not name")


def _real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)
