"""Compiled loops of the stump search: sorting, binning, sums over bins, cuts inside a bin.

Samples with label -1 have side 0, those with +1 side 1. `sums` has 512 numbers per feature: the
mass of side 0 in each bin, then that of side 1. The balance G of a cut is the mass of side 1 below
it minus that of side 0 below it. With N and P the masses of the two sides, the stump that predicts
+1 above the cut has the error N + G, the one that predicts -1 there P - G.

The loops over one feature read `sums` of that feature, its `order`, `last`, `starts` and `mixed`
(see `bins.Ordered`), `signed` (the mass of each sample, negative for side 0) and `sides` = (N, P).
None of these is modified. Before bin b the running `balance` is G of the cut below it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.jit import jit

BINS = 256  # a code is one byte
TILE = 512  # samples of a tile stay in cache while all features of a block are coded
DIGIT = 11  # bits per pass of the radix sort: three passes cover the 32 bits of a key
SHORT = 24  # runs up to this length are sorted by insertion


# ---------------------------------------------------------------------------------- sorting


def sort_column(column: Any, order: Any) -> None:
    """Write the indices of the samples in increasing order of their values.

    Radix sort by the values rounded to float32, which is monotone; samples that agree in these are
    then sorted by the values themselves.
    """
    with np.errstate(over="ignore"):
        single = column.astype(np.float32)
    single += np.float32(0.0)  # makes -0.0 equal to 0.0
    packed = np.empty((2, len(column)), dtype=np.uint64)
    count = np.empty(1 << DIGIT, dtype=np.intp)
    _sort_by_bits(column, single.view(np.uint32), packed[0], packed[1], count, order)


@jit
def _sort_by_bits(column: Any, bits: Any, packed: Any, spare: Any, count: Any, order: Any) -> None:
    """Sort by the bits of float32 values, then by the values; packed, spare, count are memory."""
    n = column.shape[0]
    # As unsigned integers these keys have the order of the floats: flip all bits of negative
    # numbers, the sign bit of others.
    for i in range(n):
        negative = bits[i] >> np.uint32(31)
        key = ~bits[i] if negative else bits[i] | np.uint32(0x80000000)
        packed[i] = (np.uint64(key) << np.uint64(32)) | np.uint64(i)
    for k in range(3):
        if _pass_by_digit(packed, spare, count, np.uint64(32 + k * DIGIT)):
            packed, spare = spare, packed
    start = 0
    for i in range(n):
        order[i] = np.uint32(packed[i] & np.uint64(0xFFFFFFFF))
    for i in range(1, n + 1):
        if i == n or (packed[i] >> np.uint64(32)) != (packed[start] >> np.uint64(32)):
            if i - start > 1:
                _sort_run(column, order[start:i])
            start = i


@jit
def _pass_by_digit(source: Any, target: Any, count: Any, shift: Any) -> Any:
    """Sort the keys into target by one digit; return False if it is the same for all."""
    mask = np.uint64((1 << DIGIT) - 1)
    count[:] = 0
    for i in range(source.shape[0]):
        count[(source[i] >> shift) & mask] += 1
    if count[(source[0] >> shift) & mask] == source.shape[0]:
        return False
    before = 0
    for digit in range(count.shape[0]):
        here = count[digit]
        count[digit] = before
        before += here
    for i in range(source.shape[0]):
        digit = (source[i] >> shift) & mask
        target[count[digit]] = source[i]
        count[digit] += 1
    return True


@jit
def _sort_run(column: Any, rows: Any) -> None:
    """Sort samples with the same float32 key by their values."""
    # Ties of equal values are the common case, and already sorted.
    k = 1
    while k < rows.shape[0] and column[rows[k - 1]] <= column[rows[k]]:
        k += 1
    if k == rows.shape[0]:
        return
    if rows.shape[0] > SHORT:
        _heap_sort(column, rows)
        return
    for k in range(1, rows.shape[0]):
        row = rows[k]
        value = column[row]
        place = k
        while place > 0 and column[rows[place - 1]] > value:
            rows[place] = rows[place - 1]
            place -= 1
        rows[place] = row


@jit
def _heap_sort(column: Any, rows: Any) -> None:
    """Sort samples by their values, equal ones by index: numba's sorting takes long to compile."""
    n = rows.shape[0]
    for k in range(n // 2 - 1, -1, -1):
        _sink(column, rows, k, n)
    for k in range(n - 1, 0, -1):
        rows[0], rows[k] = rows[k], rows[0]
        _sink(column, rows, 0, k)


@jit
def _sink(column: Any, rows: Any, k: Any, size: Any) -> None:
    """Restore the heap rows[:size] after its entry k was replaced by a smaller one."""
    while 2 * k + 1 < size:
        child = 2 * k + 1
        if child + 1 < size and _after(column, rows[child + 1], rows[child]):
            child += 1
        if not _after(column, rows[child], rows[k]):
            return
        rows[k], rows[child] = rows[child], rows[k]
        k = child


@jit
def _after(column: Any, a: Any, b: Any) -> Any:
    """Return whether sample a comes after sample b."""
    x, y = column[a], column[b]
    return x > y or (x == y and a > b)


@jit
def mark_last_of_equals(column: Any, order: Any, last: Any) -> None:
    """Mark the positions after which the value changes, the only possible cuts."""
    n = order.shape[0]
    for k in range(n - 1):
        last[k] = column[order[k]] != column[order[k + 1]]
    last[n - 1] = True


# ---------------------------------------------------------------------------------- binning


@jit
def write_codes(X: Any, first: Any, edges: Any, codes: Any) -> None:
    """Write for each value the number of edges below it; features first, first + 1, ... of X.

    edges has 255 increasing numbers per feature, the last ones infinite. The bisection is unrolled
    and free of branches that depend on the data.
    """
    n = X.shape[0]
    for start in range(0, n, TILE):
        stop = min(n, start + TILE)
        for f in range(edges.shape[0]):
            edge, code = edges[f], codes[f]
            for i in range(start, stop):
                x = X[i, first + f]
                at = 0
                at += 128 if edge[at + 127] < x else 0
                at += 64 if edge[at + 63] < x else 0
                at += 32 if edge[at + 31] < x else 0
                at += 16 if edge[at + 15] < x else 0
                at += 8 if edge[at + 7] < x else 0
                at += 4 if edge[at + 3] < x else 0
                at += 2 if edge[at + 1] < x else 0
                at += 1 if edge[at] < x else 0
                code[i] = at


@jit
def all_known(column: Any, code: Any, values: Any) -> Any:
    """Return whether every entry equals the value of its bin."""
    for i in range(column.shape[0]):
        if code[i] >= values.shape[0] or column[i] != values[code[i]]:
            return False
    return True


@jit
def add_mass(codes: Any, rows: Any, sides: Any, mass: Any, sums: Any) -> None:
    """Add the mass of some samples to the sums of their bins, for several features.

    Four features at a time, whose additions are independent and can overlap.
    """
    n_features = codes.shape[0]
    whole = n_features - n_features % 4
    for f in range(0, whole, 4):
        c0, c1, c2, c3 = codes[f], codes[f + 1], codes[f + 2], codes[f + 3]
        s0, s1, s2, s3 = sums[f], sums[f + 1], sums[f + 2], sums[f + 3]
        for k in range(rows.shape[0]):
            i, side, amount = rows[k], np.intp(sides[k]) << 8, mass[k]
            s0[side + c0[i]] += amount
            s1[side + c1[i]] += amount
            s2[side + c2[i]] += amount
            s3[side + c3[i]] += amount
    for f in range(whole, n_features):
        code, total = codes[f], sums[f]
        for k in range(rows.shape[0]):
            total[(np.intp(sides[k]) << 8) + code[rows[k]]] += mass[k]


# ----------------------------------------------------------------------------------- search


@jit
def scan_bins(sums: Any, negative: Any, positive: Any, least: Any, floor: Any) -> None:
    """Compute per feature the least error of cuts between bins, and a lower bound for all cuts.

    Inside a bin of masses (a, b) that begins at the balance G, no cut has a balance below G - a or
    above G + b.
    """
    for f in range(sums.shape[0]):
        balance, best, bound = 0.0, np.inf, np.inf
        for b in range(BINS):
            low, high = sums[f, b], sums[f, BINS + b]
            bound = min(bound, negative + (balance - low), positive - (balance + high))
            balance += high - low
            best = min(best, negative + balance, positive - balance)
        least[f], floor[f] = best, bound


@jit
def search_inside(
    sums: Any,
    order: Any,
    last: Any,
    starts: Any,
    mixed: Any,
    signed: Any,
    sides: Any,
    best: Any,
    slack: Any,
) -> Any:
    """Return the least error of a cut of one feature, exact if it is within slack of `best`.

    Bins whose lower bound exceeds best by more than slack are skipped, as are bins with a single
    value.
    """
    balance, own = 0.0, np.inf
    for b in range(BINS):
        low, high = sums[b], sums[BINS + b]
        bound = min(sides[0] + (balance - low), sides[1] - (balance + high))
        if mixed[b] and bound <= min(best, own) + slack:
            inside = balance
            for k in range(starts[b], starts[b + 1]):
                inside += signed[order[k]]
                if last[k]:
                    own = min(own, sides[0] + inside, sides[1] - inside)
        balance += high - low
        own = min(own, sides[0] + balance, sides[1] - balance)
    return own


@jit
def first_inside(
    sums: Any,
    order: Any,
    last: Any,
    starts: Any,
    mixed: Any,
    signed: Any,
    sides: Any,
    goal: Any,
    slack: Any,
) -> Any:
    """Return the first cut with an error of at most goal, as (position below it, sign)."""
    balance = 0.0
    for b in range(BINS):
        low, high = sums[b], sums[BINS + b]
        bound = min(sides[0] + (balance - low), sides[1] - (balance + high))
        if mixed[b] and bound <= goal + slack:
            inside = balance
            for k in range(starts[b], starts[b + 1]):
                inside += signed[order[k]]
                if last[k] and sides[0] + inside <= goal:
                    return k, 1
                if last[k] and sides[1] - inside <= goal:
                    return k, -1
        balance += high - low
        if starts[b + 1] > starts[b] and sides[0] + balance <= goal:
            return starts[b + 1] - 1, 1
        if starts[b + 1] > starts[b] and sides[1] - balance <= goal:
            return starts[b + 1] - 1, -1
    return -1, 0


@jit
def first_between(sums: Any, sides: Any, goal: Any) -> Any:
    """Return the first cut between bins with an error of at most goal, as (bin below it, sign)."""
    balance = 0.0
    for b in range(BINS):
        balance += sums[BINS + b] - sums[b]
        if sides[0] + balance <= goal:
            return b, 1
        if sides[1] - balance <= goal:
            return b, -1
    return -1, 0


# ------------------------------------------------------------------------------- prediction


@jit
def add_stumps(X: Any, feature: Any, threshold: Any, step: Any, out: Any) -> None:
    """Add the values of the stumps to out: step above the threshold, -step elsewhere."""
    for i in range(X.shape[0]):
        value = out[i]
        for t in range(feature.shape[0]):
            value += step[t] if X[i, feature[t]] > threshold[t] else -step[t]
        out[i] = value
