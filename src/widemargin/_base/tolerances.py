"""Rounding levels: relative errors to expect from float64 arithmetic.

Each constant names the quantity and what its error is relative to. Tolerances of an algorithm are
defined beside the algorithm; the errors here are unavoidable.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)
"""Of one operation."""

SHORT_SUM_ROUNDING = 1e-15
"""Of a sum over few terms, relative to the sum of their absolute values."""

SUM_ROUNDING = 1e-14
"""Of a sum over samples, relative to the sum of the absolute values of its terms."""

PRODUCT_ROUNDING = 1e-13
"""Of a decision value or a sum of costs, relative to its terms."""

OBJECTIVE_ROUNDING = 1e-12
"""Of an objective, or of a constrained sum, relative to its size."""

MARGIN_ROUNDING = 1e-10
"""Of a margin that was found by solving a linear system, relative to the margin."""

KERNEL_ROUNDING = 1e-6
"""Of decision values with a narrow kernel, relative to the margin."""
