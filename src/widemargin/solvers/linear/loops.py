"""Compiled loops of the smoothed Newton method: dual variables and line search.

Formulas and symbols: :mod:`widemargin.solvers.linear.smoothed_newton`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.jit import jit


@jit(fast=True)
def stationary(
    v: Any, e: Any, centre: Any, cost: Any, bounded: Any, h: Any, rho: Any, tube: Any,
    slope: Any, curve: Any, t: Any, near: Any,
) -> Any:  # fmt: skip
    """Solve abs(slope + curve t - sum_i a_i(v_i - t e_i) e_i) <= near for t, from a guess of t.

    The function in abs() is nondecreasing and piecewise linear in t, so Newton's method terminates
    at a root; bisection safeguards it where the function is flat.
    """
    # v, e, centre, cost, h: one value per sample, read only; v the slacks at t = 0 and e their
    # rates, the others as in the formulas of the module. bounded: the hinge (u = cost), else
    # u is infinite. tube: eps of regression, else None; branches on None are resolved when the
    # function is compiled. Invariant: the root is between low and high.
    low = -np.inf
    high = np.inf
    stride = 1.0
    for _ in range(200):
        value = slope + curve * t
        size = abs(slope) + abs(curve * t)
        rate = curve
        for i in range(len(v)):
            scale = 1.0 / (h[i] + rho)
            raw = (h[i] * centre[i] + cost[i] * (v[i] - t * e[i])) * scale
            if tube is None:
                a = max(raw, 0.0)
                if bounded:
                    a = min(a, cost[i])
                free = a == raw
            else:
                shift = tube * cost[i] * scale
                raw = max(raw - shift, 0.0) + min(raw + shift, 0.0)
                a = raw
                if bounded:
                    a = max(min(a, cost[i]), -cost[i])
                free = a == raw and a != 0.0
            value -= a * e[i]
            size += abs(a * e[i])
            rate += cost[i] * e[i] * e[i] * scale if free else 0.0
        # size is the sum of absolute terms, so 1e-15 * size is the rounding error of value.
        if abs(value) <= max(near, 1e-15 * size):
            break
        if value < 0.0:
            low = t
        else:
            high = t
        new = t - value / rate if rate > 0.0 else low
        if not low < new < high:
            # Not bracketed yet: walk outwards with growing strides. Bracketed: bisect.
            if high == np.inf:
                new = t + stride
            elif low == -np.inf:
                new = t - stride
            else:
                new = 0.5 * (low + high)
            stride *= 4.0
        if new == t or not low <= new <= high:
            break
        t = new
    return t


@jit
def respond(
    v: Any, centre: Any, cost: Any, bounded: Any, h: Any, rho: Any, tube: Any, a_out: Any
) -> Any:
    """Write a(v); return the sums of the losses, of the losses' gaps and of 1/2 rho a^2 / c."""
    # Compiled without fast=True: these sums enter the duality gap.
    loss = 0.0
    gap = 0.0
    ridge = 0.0
    for i in range(len(v)):
        z = h[i] * centre[i] + cost[i] * v[i]
        if tube is None:
            a = max(z / (h[i] + rho), 0.0)
            up = max(v[i], 0.0)
        else:
            shift = tube * cost[i]
            a = (max(z - shift, 0.0) + min(z + shift, 0.0)) / (h[i] + rho)
            up = max(abs(v[i]) - tube, 0.0)
        if bounded:
            a = max(min(a, cost[i]), -cost[i])
        a_out[i] = a
        phi = cost[i] * up if bounded else cost[i] * up * up
        own = 0.5 * rho * a * a / cost[i]
        loss += phi
        gap += phi - a * v[i] + own
        if tube is not None:
            gap += tube * abs(a)
        ridge += own
    return loss, gap, ridge
