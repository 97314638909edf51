r"""Smooth leave-one-out loss of the squared hinge and its exact gradient.

For the squared-hinge problem with support vectors M let H = [[K_MM + V, 1], [1', 0]] (no border
without intercept), v_l = 1/(2 C w_l) on the diagonal of V, P = H^-1 and [beta; b] = P [y; 0]. If no
other sample enters or leaves M, the leave-one-out margin of sample l is

.. math::

    t_l = 1 - y_l \beta_l / P_{ll} \quad (l \in M), \qquad
    t_l = y_l (K_{lM} \beta + b) \quad (l \notin M).

A sample of weight w represents w copies, of which min(1, w) is left out. Its v then increases to
v / r with r = max(0, w - 1) / w, and P_ll above becomes D_l = r/v_l + (1 - r) P_ll, so that copies
and weights are equivalent. The objective, with p_l = w_l / sum(w), is

.. math:: J = \min_{s} \sum_l p_l \log(1 + \exp(-s t_l)), \qquad s \in [s_{min}, s_{max}] .

The slope s maps margins to log-odds. J is convex in s and minimised over s, so the derivative of s
does not enter the gradient of J. With omega_l = dJ/dt_l, the adjoint of the linear system yields
for any change of K and V

.. math::

    dJ = u' \, dK \, \beta - \sum_{ij \in M} (P\, diag(c)\, P)_{ij} \, dK_{ij} + g_v' \, dv , \qquad
    u_N = \omega_N y_N, \; u_M = P q, \; c_l = \omega_l y_l \beta_l (1 - r_l) / D_l^2,

q = omega_M y_M / D - [K_MN, 1]' (omega_N y_N). All c are negative, so the matrix of the second term
is a symmetric rank-k product (dsyrk).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotri, dpotrs
from scipy.special import expit

from widemargin._base.typing import BoolArray, FloatArray
from widemargin.solvers.soft_margin import SquaredHingeResult, solve_squared_hinge
from widemargin.tuning.kernel_paths import KernelGradient

SLOPES = (0.05, 50.0)  # s_min, s_max: s would diverge if no margin is negative


@dataclass(frozen=True)
class Pair:
    """Binary problem: labels -1 and +1, sample weights, and the cost per sample at C = 1."""

    y: FloatArray
    weight: FloatArray
    cost: FloatArray
    intercept: bool


@dataclass(frozen=True, eq=False)
class LossGradient(KernelGradient):
    """Value of J at (K, v) and its derivatives, in the notation of the module.

    The support vectors are M, and W is -P diag(c) P.

    Attributes
    ----------
    margins : ndarray of shape (n,)
        Leave-one-out margins t.
    v_gradient : ndarray of shape (n,)
        dJ/dv.
    """

    margins: FloatArray
    v_gradient: FloatArray


def smooth_loss(
    K: FloatArray, pair: Pair, C: float, start: BoolArray | None = None
) -> LossGradient:
    """Compute J and its derivatives for a kernel matrix and a cost.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix.
    pair : Pair
        The binary problem.
    C : float
        Cost.
    start : ndarray of shape (n,), optional
        Mask of the support vectors of a nearby problem, as a warm start.
    """
    y, v = pair.y, 0.5 / (C * pair.cost)
    machine = solve_squared_hinge(K, y, v, intercept=pair.intercept, start=start)
    M = machine.support
    P = _inverse(machine)
    stays = np.maximum(0.0, pair.weight[M] - 1.0) / pair.weight[M]
    D = stays / v[M] + (1.0 - stays) * P.diagonal()
    alpha = y[M] * machine.beta
    t = y * machine.f
    t[M] = 1.0 - alpha / D
    share = pair.weight / pair.weight.sum()
    loss, slope = log_loss(t, share)
    omega = -slope * share * expit(-slope * t)
    u = omega * y
    outside = np.ones(len(y), dtype=bool)
    outside[M] = False
    q = u[M] / D - K[np.ix_(M, outside)] @ u[outside]
    u[M] = _solve(machine, q, -float(u[outside].sum()))
    common = omega[M] * alpha / D**2
    P *= np.sqrt(np.maximum(-common * (1.0 - stays), 0.0))  # may be positive by rounding
    W = dsyrk(1.0, P.T, trans=1, lower=1)  # P.T is in Fortran order, so it is not copied
    right = np.zeros(len(y))
    right[M] = machine.beta
    v_gradient = np.zeros(len(y))
    v_gradient[M] = u[M] * machine.beta + W.diagonal() - common * stays / v[M] ** 2
    return LossGradient(loss, u, right, W, ~outside, t, v_gradient)


def log_loss(t: FloatArray, share: FloatArray) -> tuple[float, float]:
    """Return J and the slope s for leave-one-out margins t; `share` sums to 1."""
    slope = best_slope(t, share)
    return float(share @ np.logaddexp(0.0, -slope * t)), slope


def best_slope(t: FloatArray, share: FloatArray) -> float:
    """Minimise sum_l share_l log(1 + exp(-s t_l)) over s in SLOPES, by Newton steps in log s."""
    least, most = np.log(SLOPES[0]), np.log(SLOPES[1])
    low, high = -np.inf, np.inf
    x = 0.7
    for _ in range(60):
        s = np.exp(x)
        p = expit(-s * t)
        pull = share * t * p
        first = -float(pull.sum())
        if (first >= 0 and x <= least) or (first <= 0 and x >= most):
            break
        low, high = (low, x) if first > 0 else (x, high)
        second = float((pull * t) @ (1.0 - p))
        curvature = s * second + first  # of J in log s, up to the factor s
        step = -first / (curvature if curvature > 0.1 * s * second else s * second + 1e-300)
        moved = min(max(x + step, least), most)
        # Newton step if it stays inside the bracket, else bisection.
        moved = moved if low < moved < high else 0.5 * (max(low, least) + min(high, most))
        done = abs(moved - x) < 1e-10
        x = moved
        if done:
            break
    return float(np.exp(x))


def _inverse(machine: SquaredHingeResult) -> FloatArray:
    """Return the block P_MM as a full symmetric matrix in C order."""
    lower, _ = dpotri(machine.factor, lower=1)
    P = np.add(lower, lower.T, order="C")  # the factor is zero above its diagonal
    P.flat[:: len(P) + 1] *= 0.5
    if machine.lifted is not None:
        P -= np.outer(machine.lifted, machine.lifted / machine.lifted.sum())
    return P


def _solve(machine: SquaredHingeResult, q: FloatArray, last: float) -> FloatArray:
    """Return the entries of P [q; last] that belong to M."""
    z, _ = dpotrs(machine.factor, q, lower=1)
    lifted = machine.lifted
    if lifted is not None:
        z = z - lifted * ((lifted @ q - last) / lifted.sum())
    return z
