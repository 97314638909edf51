"""Compiled loop of dual coordinate descent.

Formulas: :mod:`widemargin.solvers.linear.coordinate_descent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.jit import jit

# Fields of the arrays `terms`, `sums` and `counts` of `descend`.
TARGET, LOWER, UPPER, RIDGE, CURVE = range(5)
TOTAL, SHIFT, PENALTY, HIGH, LOW = range(5)
ACTIVE, CURRENT, SEED = range(3)
NEGLIGIBLE = 1e-12  # gradients, relative to those of the first sweep, that change nothing


@jit
def _dot(values: Any, indices: Any, first: Any, last: Any, w: Any) -> Any:
    """Return x . w for one sample; without indices it is dense.

    The partial sums are independent of each other: a single one would wait for each addition.
    """
    s0 = 0.0
    s1 = 0.0
    s2 = 0.0
    s3 = 0.0
    whole = last - (last - first) % 4
    if len(indices):
        for p in range(first, whole, 4):
            s0 += values[p] * w[np.uintp(indices[p])]
            s1 += values[p + 1] * w[np.uintp(indices[p + 1])]
            s2 += values[p + 2] * w[np.uintp(indices[p + 2])]
            s3 += values[p + 3] * w[np.uintp(indices[p + 3])]
        for p in range(whole, last):
            s0 += values[p] * w[np.uintp(indices[p])]
    else:
        for p in range(first, whole, 4):
            s0 += values[p] * w[np.uintp(p - first)]
            s1 += values[p + 1] * w[np.uintp(p + 1 - first)]
            s2 += values[p + 2] * w[np.uintp(p + 2 - first)]
            s3 += values[p + 3] * w[np.uintp(p + 3 - first)]
        for p in range(whole, last):
            s0 += values[p] * w[np.uintp(p - first)]
    return (s0 + s1) + (s2 + s3)


@jit
def _add(values: Any, indices: Any, first: Any, last: Any, step: Any, w: Any) -> None:
    """Add step times one sample to w; without indices it is dense."""
    if len(indices):
        for p in range(first, last):
            w[np.uintp(indices[p])] += step * values[p]
    else:
        for j in range(last - first):
            w[j] += step * values[first + j]


@jit
def _shuffle(order: Any, n: Any, seed: Any) -> Any:
    """Write a random permutation of 0, ..., n - 1 to order; return the next seed (xorshift64)."""
    for i in range(n):
        order[i] = i
    state = np.uint64(seed)
    for i in range(n - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        j = np.int64((state >> np.uint64(11)) % np.uint64(i + 1))
        k = order[i]
        order[i] = order[j]
        order[j] = k
    return np.int64(state >> np.uint64(1))


@jit
def descend(
    values: Any, indices: Any, starts: Any, ends: Any, row: Any, terms: Any, alpha: Any, w: Any,
    lists: Any, counts: Any, sums: Any, settled: Any, most: Any, chunk: Any,
) -> Any:  # fmt: skip
    """Sweep over the active variables until their scores are within `settled` of each other.

    Returns the number of variables visited; the sweep in which it reaches `most` is the last one.
    """
    # values, indices, starts, ends: the samples in CSR form (indices is empty for dense ones); row:
    # the stored sample of each variable. lists: two lists of variables, of which counts[CURRENT] is
    # in use with the active ones first, and room for a permutation. Variables that are dropped stay
    # at their bounds. sums: see TOTAL to LOW; HIGH and LOW are the extreme scores of the last sweep
    # of variables that could move, beyond which variables at a bound are dropped. Memory is read in
    # chunks of neighbouring variables, whose order is random.
    visited = 0
    while visited < most:
        active, current = counts[ACTIVE], counts[CURRENT]
        order, kept_order, chunks = lists[current], lists[1 - current], lists[2]
        n_chunks = (active + chunk - 1) // chunk
        counts[SEED] = _shuffle(chunks, n_chunks, counts[SEED])
        total, shift, penalty = sums[TOTAL], sums[SHIFT], sums[PENALTY]
        drop_above = sums[HIGH] if sums[HIGH] > 0.0 else np.inf
        drop_below = sums[LOW] if sums[LOW] < 0.0 else -np.inf
        high = -np.inf
        low = np.inf
        kept = 0
        end = active
        for c in range(n_chunks):
            for k in range(chunks[c] * chunk, min(active, chunks[c] * chunk + chunk)):
                v = order[k]
                i = row[v]
                first = starts[i]
                last = ends[i]
                a = alpha[v]
                lower = terms[LOWER, v]
                upper = terms[UPPER, v]
                score = terms[TARGET, v] - _dot(values, indices, first, last, w)
                score -= terms[RIDGE, v] * a + shift + penalty * total
                move = score
                if a >= upper:
                    move = min(score, 0.0)
                    drop = score > drop_above
                elif a <= lower:
                    move = max(score, 0.0)
                    drop = score < drop_below
                else:
                    drop = False
                if drop:
                    end -= 1
                    kept_order[end] = v
                    continue
                kept_order[kept] = v
                kept += 1
                high = max(high, move)
                low = min(low, move)
                if abs(move) > NEGLIGIBLE:
                    moved = min(max(a + score / terms[CURVE, v], lower), upper)
                    alpha[v] = moved
                    total += moved - a
                    _add(values, indices, first, last, moved - a, w)
        kept_order[active:] = order[active:]
        visited += active
        counts[ACTIVE] = kept
        counts[CURRENT] = 1 - current
        sums[TOTAL] = total
        sums[HIGH] = high
        sums[LOW] = low
        if kept == 0 or high - low <= settled:
            break
    return visited
