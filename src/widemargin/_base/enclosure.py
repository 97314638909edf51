r"""Numbers with a proved error bound, from which the bounds of certificates are computed.

An :class:`Enclosure` is an array of unknown real numbers, each within `error` of the unevaluated
sum hi + lo of two float64 numbers. Arithmetic works on hi + lo with about 32 digits (double-double,
see :mod:`widemargin._base.double_double`) and adds what it rounds to `error`, so that the exact
result of the same formula over real numbers is always enclosed. At the end, `upper` and `lower`
round outwards: upper() is a float above, lower() a float below the exact value.

An infinite or NaN bound is legal and means that nothing is known; `upper` and `lower` then return
an infinity. No step raises or warns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from widemargin._base.double_double import CHARGE, U, add, two_product
from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray

SLOP = 1.0 + 64.0 * U  # covers the rounding of the error terms themselves
DUST = 1e-300  # covers underflow of the low parts
ROUNDED = CHARGE * U * U
BLOCK = 32  # numbers that a sum adds one by one

Operand: TypeAlias = "Enclosure | float | FloatArray"


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Array of real numbers within `error` of hi + lo.

    Attributes
    ----------
    hi, lo, error : ndarray
        Three arrays of the same shape; the error is not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin._base.enclosure import Enclosure
    >>> tenth = Enclosure.exact(np.array([0.1, 0.2, -0.3]))
    >>> tenth.sum().lower() < 2.7755575615628914e-17 < tenth.sum().upper()
    True
    """

    hi: FloatArray
    lo: FloatArray
    error: FloatArray

    @classmethod
    def exact(cls, values: Any) -> Enclosure:
        """Return the given float64 numbers, without error."""
        hi = np.asarray(values, dtype=np.float64)
        return cls(hi, np.zeros(hi.shape), np.zeros(hi.shape))

    @classmethod
    def within(cls, values: Any, error: Any) -> Enclosure:
        """Return numbers that are within `error` of the given float64 numbers."""
        hi = np.asarray(values, dtype=np.float64)
        wrong = np.broadcast_to(np.asarray(error, np.float64), hi.shape)
        return cls(hi, np.zeros(hi.shape), wrong)

    def __getitem__(self, index: Any) -> Enclosure:
        """Return a part of the array."""
        return Enclosure(self.hi[index], self.lo[index], self.error[index])

    def replaced(self, index: Any, other: Enclosure) -> Enclosure:
        """Return a copy in which some entries are those of another enclosure."""
        parts = []
        for mine, theirs in zip(self._parts(), other._parts(), strict=True):
            part = mine.copy()
            part[index] = theirs
            parts.append(part)
        return Enclosure(*parts)

    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.hi, self.lo, self.error

    def __neg__(self) -> Enclosure:
        return Enclosure(-self.hi, -self.lo, self.error)

    def __add__(self, other: Operand) -> Enclosure:
        return _combined(sum_of, sums_of, self, _enclosed(other))

    __radd__ = __add__

    def __sub__(self, other: Operand) -> Enclosure:
        return self + (-_enclosed(other))

    def __rsub__(self, other: Operand) -> Enclosure:
        return -self + other

    def __mul__(self, other: Operand) -> Enclosure:
        return _combined(product_of, products_of, self, _enclosed(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Enclosure:
        """Return the quotient; nothing is known of it where the divisor may be zero."""
        other = _enclosed(other)
        with np.errstate(all="ignore"):
            first = self.hi / other.hi
            rest = self - other * first
            second = rest.hi / other.hi
            rest = rest - other * second
            hi, lo = _fast_two_sum(first, second)
            least = abs(other).lower()
            error = rest.size() / np.where(least > 0.0, least, np.nan)
            error = np.where(np.isnan(error), np.inf, error)
            return Enclosure(hi, lo, _charged(error, hi))

    def widened(self, error: Any) -> Enclosure:
        """Return the same numbers with a larger error."""
        with np.errstate(all="ignore"):
            return Enclosure(self.hi, self.lo, (self.error + np.asarray(error)) * SLOP)

    def blurred(self, relative: float) -> Enclosure:
        """Return the same numbers with an additional relative error."""
        return self.widened(np.abs(self.hi) * relative * (1.0 + 8.0 * U) + self.error * relative)

    def positive_part(self) -> Enclosure:
        """Return max(0, x); numbers that are surely not positive become exactly zero."""
        with np.errstate(all="ignore"):
            surely = self.hi + self.lo + self.error * SLOP <= -4.0 * U * np.abs(self.hi)
            below = self.hi < 0.0
            hi, lo = np.where(below, 0.0, self.hi), np.where(below, 0.0, self.lo)
            return Enclosure(hi, lo, np.where(surely, 0.0, self.error))

    def __abs__(self) -> Enclosure:
        sign = np.where(self.hi < 0.0, -1.0, 1.0)
        return Enclosure(sign * self.hi, sign * self.lo, self.error)

    def sum(self) -> Enclosure:
        """Return the sum of all entries."""
        with np.errstate(all="ignore"):
            n = self.hi.size
            size = np.sum(np.abs(self.hi))
            error = np.sum(self.error) * (1.0 + n * U)
            hi, lo = (np.ascontiguousarray(part).ravel() for part in (self.hi, self.lo))
            work = np.zeros((2, max(1, -(-n // BLOCK))))
            high, low = sum_pairwise(hi, lo, work[0], work[1])
            levels = BLOCK + int(n).bit_length() + 1
            rounded = ROUNDED * levels * size * (1.0 + 2.0 * n * U)
            return Enclosure(
                np.asarray(high), np.asarray(low), np.asarray((error + rounded) * SLOP + DUST * n)
            )

    def dot(self, other: Operand) -> Enclosure:
        """Return the inner product with another array."""
        return (self * other).sum()

    def upper(self) -> Any:
        """Return float64 numbers that are not below the enclosed ones."""
        with np.errstate(all="ignore"):
            up = self.hi + (self.lo + self.error * SLOP)
            return _or(np.nextafter(up + 4.0 * U * np.abs(up), np.inf), np.inf)

    def lower(self) -> Any:
        """Return float64 numbers that are not above the enclosed ones."""
        return -(-self).upper()

    def size(self) -> Any:
        """Return upper bounds of the absolute values."""
        return abs(self).upper()


@jit
def sum_pairwise(hi, lo, high, low):  # type: ignore[no-untyped-def]
    """Return the sum of double-doubles: blocks one by one, then pairwise.

    `high` and `low` are zeros, one for each block.
    """
    n, m = len(hi), len(high)
    for k in range(m):
        for i in range(k * BLOCK, min(n, (k + 1) * BLOCK)):
            high[k], low[k] = add(high[k], low[k], hi[i], lo[i])
    while m > 1:
        half = (m + 1) // 2
        for k in range(m - half):
            high[k], low[k] = add(high[k], low[k], high[half + k], low[half + k])
        m = half
    return high[0], low[0]


@jit
def charged(h, low, error):  # type: ignore[no-untyped-def]
    """Return h + low as a double-double, and its error with that of one operation."""
    high = h + low
    return high, low - (high - h), error * SLOP + (ROUNDED * abs(high) + DUST)


@jit
def sum_of(ah, al, ae, bh, bl, be):  # type: ignore[no-untyped-def]
    """Return hi, lo and error of the sum of two enclosed numbers."""
    h, low = add(ah, al, bh, bl)
    return charged(h, low, ae + be)


@jit
def product_of(ah, al, ae, bh, bl, be):  # type: ignore[no-untyped-def]
    """Return hi, lo and error of the product of two enclosed numbers."""
    p, e = two_product(ah, bh)
    e += ah * bl + al * bh
    error = 0.0
    if ae != 0.0 or be != 0.0:  # 0 times an infinite value is NaN
        # |x y - x'y'| <= |x'| dy + |y'| dx + dx dy; the low parts are within 2 U of the high.
        error = (abs(ah) * be + abs(bh) * ae) * (1.0 + 4.0 * U) + ae * be
    return charged(p, e, error)


@jit
def sums_of(ah, al, ae, bh, bl, be, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and error of sums to the rows of out; an array of one number counts for all."""
    for i in range(out.shape[1]):
        k, m = min(i, len(ah) - 1), min(i, len(bh) - 1)
        out[0, i], out[1, i], out[2, i] = sum_of(ah[k], al[k], ae[k], bh[m], bl[m], be[m])


@jit
def products_of(ah, al, ae, bh, bl, be, out):  # type: ignore[no-untyped-def]
    """Write hi, lo and error of products to the rows of out, as `sums_of` does."""
    for i in range(out.shape[1]):
        k, m = min(i, len(ah) - 1), min(i, len(bh) - 1)
        out[0, i], out[1, i], out[2, i] = product_of(ah[k], al[k], ae[k], bh[m], bl[m], be[m])


def _combined(of_two: Any, of_many: Any, a: Enclosure, b: Enclosure) -> Enclosure:
    """Return the results of a compiled function of pairs of numbers, and of its loop."""
    if a.hi.ndim == 0 and b.hi.ndim == 0:
        numbers = (float(part) for one in (a, b) for part in (one.hi, one.lo, one.error))
        found: Any = map(np.float64, of_two(*numbers))
        return Enclosure(*found)
    shape = a.hi.shape if a.hi.shape == b.hi.shape else np.broadcast_shapes(a.hi.shape, b.hi.shape)
    parts = [_flat(part, shape) for one in (a, b) for part in (one.hi, one.lo, one.error)]
    out = np.empty((3, math.prod(shape)))
    of_many(*parts, out)
    return Enclosure(*(row.reshape(shape) for row in out))


def _flat(part: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return numbers in the order of the broadcast shape, or the only one.

    Compiled code needs arrays of one type: in one piece and writeable.
    """
    if part.size != 1 and part.shape != shape:
        part = np.broadcast_to(part, shape)
    flat = part.reshape(-1)
    return flat if flat.flags.c_contiguous and flat.flags.writeable else flat.copy()


def _enclosed(value: Operand) -> Enclosure:
    return value if isinstance(value, Enclosure) else Enclosure.exact(value)


def _charged(error: FloatArray, hi: FloatArray) -> FloatArray:
    """Add the rounding error of one operation with the given result."""
    return error * SLOP + (ROUNDED * np.abs(hi) + DUST)


def _or(value: Any, instead: float) -> Any:
    found = np.where(np.isnan(value), instead, value)
    return float(found) if found.ndim == 0 else found


def _fast_two_sum(a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a + b and its rounding error, for abs(a) >= abs(b)."""
    s = a + b
    return s, b - (s - a)
