r"""Double-double arithmetic for compiled loops: numbers hi + lo with about 32 digits.

A *double-double* is an unevaluated sum of two float64 numbers with :math:`|lo| \le u |hi|`, where
:math:`u = 2^{-53}` is the unit roundoff. The relative error of `add` is at most :math:`3 u^2`, that
of `multiply` at most :math:`5 u^2` (Joldes, Muller and Popescu 2017, algorithms 6 and 12); `CHARGE`
:math:`u^2` is charged for each. All functions take and return scalars and are compiled into the
loops that call them, without the flags that would allow sums to be reordered.

The products are split after Dekker (1971), since a fused multiply-add is not available on every
processor. They are exact as long as no part overflows or underflows; callers keep their numbers
within 1e-140 and 1e140 or charge the difference.
"""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np

from widemargin._base.jit import jit

U = 2.0**-53
"""Unit roundoff of float64."""

CHARGE = 8.0
"""Bound on the relative error of one double-double operation, in units of U^2."""

EXP_CHARGE = 64.0
"""Bound on the relative error of `exp_minus`, in units of U^2; it is tested against mpmath."""

EXP_ULP = 4.0
"""Assumed bound on the relative error of exp, log and tanh of NumPy and the C library, in U."""

SPLITTER = 134217729.0  # 2^27 + 1
LARGEST_EXPONENT = 700.0  # exp(-700) = 1e-304: below it, 0 is returned

_LN2 = 0.6931471805599453, 2.3190468138462996e-17, 5.707708438416212e-34
LN2_HI, LN2_MIDDLE, LN2_LO = _LN2
TERMS = 11  # of the Taylor series of exp on [-ln 2 / 512, ln 2 / 512]
HALVINGS = 8


def _reciprocal_factorials() -> np.ndarray:
    """Return 1 / k! as double-doubles, for k = 0 to TERMS."""
    exact = [Fraction(1, factorial(k)) for k in range(TERMS + 1)]
    return np.array([[float(x), float(x - Fraction(float(x)))] for x in exact])


RECIPROCAL_FACTORIALS = _reciprocal_factorials()


@jit
def two_sum(a, b):  # type: ignore[no-untyped-def]
    """Return a + b rounded, and the rounding error (exact)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


@jit
def two_product(a, b):  # type: ignore[no-untyped-def]
    """Return a * b rounded, and the rounding error (exact without over- and underflow)."""
    p = a * b
    t = SPLITTER * a
    ah = t - (t - a)
    al = a - ah
    t = SPLITTER * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


@jit
def add(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    """Return the sum of two double-doubles."""
    s, e = two_sum(ah, bh)
    t, f = two_sum(al, bl)
    e += t
    v = s + e
    w = f + (e - (v - s))
    h = v + w
    return h, w - (h - v)


@jit
def multiply(ah, al, bh, bl):  # type: ignore[no-untyped-def]
    """Return the product of two double-doubles."""
    p, e = two_product(ah, bh)
    e += ah * bl + al * bh
    h = p + e
    return h, e - (h - p)


@jit
def exp_minus(th, tl):  # type: ignore[no-untyped-def]
    """Return exp(-t) for a double-double t >= 0, or 0 where t exceeds LARGEST_EXPONENT.

    The argument is reduced by a multiple of ln 2 and halved HALVINGS times; the Taylor series of
    exp - 1, whose squarings lose no digits, is then squared back.
    """
    if th > LARGEST_EXPONENT:
        return 0.0, 0.0
    k = np.rint(th / LN2_HI)
    for part in (LN2_HI, LN2_MIDDLE, LN2_LO):
        p, e = two_product(-k, part)
        th, tl = add(th, tl, p, e)
    shrink = -(0.5**HALVINGS)
    mh, ml = th * shrink, tl * shrink
    sh, sl = RECIPROCAL_FACTORIALS[TERMS, 0], RECIPROCAL_FACTORIALS[TERMS, 1]
    for j in range(TERMS - 1, 0, -1):
        sh, sl = multiply(sh, sl, mh, ml)
        sh, sl = add(sh, sl, RECIPROCAL_FACTORIALS[j, 0], RECIPROCAL_FACTORIALS[j, 1])
    mh, ml = multiply(sh, sl, mh, ml)
    for _ in range(HALVINGS):
        sh, sl = multiply(mh, ml, mh, ml)
        mh, ml = add(2.0 * mh, 2.0 * ml, sh, sl)
    mh, ml = add(mh, ml, 1.0, 0.0)
    scale = 2.0 ** (-k)
    return mh * scale, ml * scale
