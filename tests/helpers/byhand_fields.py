"""Mean-field equations of Gaussian-process classification, written a second time for the tests.

Nothing here imports widemargin. The equations are read from the public strengths and Omega of a
model and the kernel matrix: roots are bracketed and bisected, inverses are inverses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr, ndtr

UNIT = 64 * np.finfo(float).eps


def strength(z, flips=0.0):
    """Return F(z) = (log Z)'(z), Z = flips + (1 - 2 flips) Phi(z)."""
    z = np.asarray(z, dtype=float)
    if flips == 0:
        return np.sqrt(2 / np.pi) / erfcx(-z / np.sqrt(2))
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return (1 - 2 * flips) * density / (flips + (1 - 2 * flips) * ndtr(z))


def slope(z, flips=0.0):
    """Return -F'(z) = F (z + F)."""
    F = strength(z, flips)
    return F * (z + F)


@dataclass
class Fields:
    """The equations of one latent function at given cavity variances c; naive: c = diag(K)."""

    K: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    noise: float
    flips: float = 0.0
    cavity: np.ndarray | None = None

    def __post_init__(self):
        self.c = np.diag(self.K).copy() if self.cavity is None else self.cavity
        self.lam = self.c + self.noise
        self.sd = np.sqrt(self.lam)

    def field(self, alpha):
        """Return K A, A = w y alpha, for the strengths alpha of single rows."""
        return self.K @ (self.weight * self.y * alpha)

    def reached(self, alpha):
        """Return z = y h / sqrt(lambda), the field without the row itself."""
        return self.y * (self.field(alpha) - self.c * self.y * alpha) / self.sd

    def rounding_of_z(self, alpha):
        """Return what rounding can do to z."""
        terms = np.abs(self.K) @ np.abs(self.weight * alpha) + self.c * np.abs(alpha)
        return UNIT * (1.0 + terms / self.sd)

    def residual(self, alpha, kernel_error=0.0):
        """Return the largest error of the equations, relative to max(1, F), and its rounding.

        kernel_error is what errors of the kernel values can do to each z.
        """
        z = self.reached(alpha)
        asked = strength(z, self.flips)
        error = np.abs(alpha * self.sd - asked) / np.maximum(1.0, asked)
        # |F'| < 1 without flips; with them it is at most that of a density over flips.
        steep = 1.0 if self.flips == 0 else 1.0 / self.flips**2
        rounding = steep * (self.rounding_of_z(alpha) + kernel_error) + UNIT * alpha * self.sd
        return float(error.max()), float(rounding.max())

    # -- flips = 0: a convex function and its Fenchel dual ---------------------------------------

    def psi(self, t):
        """Return the loss of a row whose strength is F(t) / sqrt(lambda)."""
        F = strength(t)
        return log_ndtr(t) - t * F - 0.5 * self.c * (F / self.sd) ** 2

    def fields_of(self, alpha):
        """Return t with F(t) = alpha sqrt(lambda), by bisection."""
        found = []
        for asked in alpha * self.sd:
            if not asked >= 0:
                found.append(np.nan)
                continue
            low, high = -1.01 * asked - 1.0, 38.0  # F(t) > -t; beyond 38 it is nothing
            far = asked <= strength(high)
            found.append(
                high if far else brentq(lambda t, a=asked: float(strength(t)) - a, low, high)
            )
        return np.array(found)

    def primal(self, alpha, error=0.0):
        """Return E, and what rounding can do to it; error is that of the kernel values."""
        t = self.fields_of(alpha)
        if np.isnan(t).any():
            return np.inf, 0.0
        A = self.weight * self.y * alpha
        value = 0.5 * A @ self.K @ A + self.weight @ self.psi(t)
        off = np.abs(A) @ (UNIT * np.abs(self.K) + error) @ np.abs(A)
        return float(value), float(off + UNIT * self.weight @ (4.0 + 4.0 * t**2))

    def dual(self, alpha, error=0.0):
        """Return Fenchel's lower bound at f = K A, and what rounding can do to it."""
        f = self.field(alpha)
        A = self.weight * self.y * alpha
        signed = self.y * f
        t = np.array([self._supporting(i, s) for i, s in enumerate(signed)])
        if np.isnan(t).any():
            return -np.inf, 0.0
        conjugate = -signed * strength(t) / self.sd - self.psi(t)
        value = -0.5 * A @ f - self.weight @ conjugate
        off_f = (UNIT * np.abs(self.K) + error) @ np.abs(A)
        terms = np.abs(A) @ off_f + UNIT * self.weight @ (4.0 + 4.0 * t**2)
        with np.errstate(over="ignore"):  # then nothing can be told
            slopes = strength(t) / self.sd + off_f * self._bend(signed - off_f)
            return float(value), float(terms + (self.weight * slopes) @ off_f)

    def _bend(self, signed):
        """Bound the bend of the conjugate, which falls: slope / (noise + c (1 - slope)).

        1 - slope is the variance of a normal number known to be beyond -t: above 1 / (t^2 + 6).
        """
        t = np.array([self._supporting(i, s) for i, s in enumerate(signed)])
        return np.nan_to_num(1.0 / (self.noise + self.c / (t**2 + 6.0)), nan=1e300)

    def _supporting(self, i, signed):
        """Return t at which sqrt(lambda) t + c F(t) / sqrt(lambda), which rises, is signed."""
        sd, c = self.sd[i], self.c[i]

        def excess(t):
            return sd * t + c * float(strength(t)) / sd - signed

        low, high = -1.0, 1.0
        while excess(low) > 0:
            low *= 2.0
            if low < -1e12:
                return np.nan
        while excess(high) < 0:
            high *= 2.0
        return brentq(excess, low, high, xtol=1e-15, rtol=1e-14)


def implied_cavity(K, weight, noise, omega):
    """Return the variance of f at each row as seen without one of its copies, row by row."""
    with np.errstate(divide="ignore"):
        tau = np.where(np.isinf(omega), 0.0, 1.0 / (noise + omega))
    found = []
    for i in range(len(K)):
        others = weight.copy()
        others[i] -= 1.0
        # (K^-1 + diag(w tau))^-1, without the inverse of K.
        found.append(np.linalg.solve(np.eye(len(K)) + K * (others * tau), K)[i, i])
    return np.array(found)
