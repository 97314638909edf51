"""KKT violation of the pairwise ranking problem, without forming the pairs.

The slack 1 - (f_i - f_j) of a pair (i above j) determines its dual variable; the slack at another
utility g, computed from the coefficients, determines whether that value satisfies the optimality
conditions. For every sample the largest g is needed among the lower-ranked samples that are far
enough below it in f. Samples enter in the order of f and never leave, and the largest g over all
lower ranks is a prefix maximum, kept in a Fenwick tree: O(n log(ranks)) after the sort.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.jit import jit
from widemargin._base.typing import FloatArray
from widemargin.problems.preference.pair_sums import SortedRows


@jit
def _largest_below(
    f: Any, code: Any, g: Any, weight: Any, starts: Any, ranks: Any, bound: Any, sign: Any, out: Any
) -> None:
    """Write to out[i] the largest g[j] over lower-ranked j whose slack satisfies the bound.

    With sign 1 this is 1 - (f_i - f_j) < bound. With sign -1, f holds the negative utilities and
    the condition is slack > bound. f increases within each group; samples of zero weight are
    ignored, and out[i] is -inf without a partner.
    """
    most = 0
    for group in range(len(ranks)):
        most = max(most, ranks[group])
    table = np.empty(most + 1)
    for group in range(len(ranks)):
        table[: ranks[group] + 1] = -np.inf
        entering = starts[group]
        for i in range(starts[group], starts[group + 1]):
            while entering < starts[group + 1]:
                slack = 1.0 - sign * (f[i] - f[entering])  # same rounding as in window_sums
                if sign * (bound - slack) <= 0:
                    break
                node = code[entering] + 1
                while weight[entering] > 0 and node <= ranks[group]:
                    table[node] = max(table[node], g[entering])
                    node += node & -node
                entering += 1
            out[i] = -np.inf
            node = code[i]
            while weight[i] > 0 and node > 0:
                out[i] = max(out[i], table[node])
                node -= node & -node


def largest_slack(rows: SortedRows, g: FloatArray, below: float) -> float:
    """Return the largest 1 - (g_i - g_j) over the pairs with 1 - (f_i - f_j) < below.

    g is in the order of the problem's samples. The result is -inf if there is no such pair.
    """
    g = g[rows.order]
    out = np.empty_like(g)
    _largest_below(rows.f, rows.code, g, rows.weight, rows.starts, rows.ranks, below, 1.0, out)
    return float((1.0 - (g - out)).max())


def largest_surplus(rows: SortedRows, g: FloatArray, above: float) -> float:
    """Return the largest (g_i - g_j) - 1 over the pairs with 1 - (f_i - f_j) > above.

    The same loop runs from the other end with the signs of f and g reversed, which turns the
    samples that are not far enough below in f into those that are.
    """
    g = -g[rows.order][::-1]
    out = np.empty_like(g)
    _largest_below(
        -rows.f[::-1], rows.code[::-1].copy(), g, rows.weight[::-1].copy(),
        len(g) - rows.starts[::-1], rows.ranks[::-1].copy(), above, -1.0, out,
    )  # fmt: skip
    return float((out - g - 1.0).max())
