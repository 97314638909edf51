"""The linear programs of the kernel machines, written a second time for the tests.

Nothing here imports widemargin. A row of weight w that has the coefficient alpha stands for w equal
rows with alpha / w each. Objectives are in `exact_programs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

UNIT = 64 * np.finfo(float).eps  # what a short sum may be wrong by, relative to its terms
LIMIT = 1e8  # documented: no alpha_i k(x_i, x_i) is larger


@dataclass
class MarginProgram:
    """min price sum(alpha) + sum w_i max(0, 1 - y_i f(x_i) + lam k(x_i, x_i) alpha_i / w_i).

    0 <= alpha <= limit; f(x) = sum_j alpha_j y_j k(x_j, x); error bounds that of each kernel value.
    """

    y: np.ndarray
    K: np.ndarray
    weight: np.ndarray
    limit: np.ndarray
    error: np.ndarray
    lam: float = 0.0
    price: float = 0.0

    def __post_init__(self):
        own = self.lam * np.diag(self.K) / self.weight
        self.G = self.y[:, None] * self.K * self.y - np.diag(own)

    def slack(self, alpha):
        """Return what each row lacks of the margin 1."""
        return np.maximum(0.0, 1.0 - self.G @ alpha)

    def error_of_slack(self, alpha):
        """Return what rounding can do to the slacks."""
        own = self.lam * np.diag(self.error) * alpha / self.weight
        return UNIT * (1.0 + np.abs(self.G) @ alpha) + self.error @ alpha + own


@dataclass
class NuProgram:
    """min -nu rho + sum share_i max(0, rho - y_i f(x_i)), sum(alpha) = 1; shares have the sum 1."""

    y: np.ndarray
    K: np.ndarray
    weight: np.ndarray
    limit: np.ndarray
    error: np.ndarray
    nu: float

    def __post_init__(self):
        self.share = self.weight / self.weight.sum()
        self.Q = self.y[:, None] * self.K * self.y
        self.nu = max(self.nu, float(self.share.min()))  # documented: below it is the hard margin

    def at(self, rho, margins):
        """Return the objective at a margin rho."""
        return float(self.share @ np.maximum(0.0, rho - margins) - self.nu * rho)

    def scale_of_gap(self, alpha):
        """Return what the tolerance is relative to: nu rho, or a little where there is none."""
        margins = self.Q @ alpha
        rho = min(margins, key=lambda r: (self.at(r, margins), r))
        size = np.divide(LIMIT, self.limit, out=np.zeros_like(alpha), where=self.limit > 0)
        typical = float(self.share @ np.abs(margins))
        return self.nu * max(abs(rho), 1e-6 * typical, 1e-9 * float(size @ alpha))


def limits(K, mercer):
    """Return the largest coefficients: by Cauchy-Schwarz where that holds, else by every entry."""
    own = np.maximum(np.diag(K), 0.0)
    size = np.sqrt(own * own.max()) if mercer else np.abs(K).max(axis=1)
    return np.divide(LIMIT, size, out=np.zeros(len(size)), where=size > 1e-250)  # underflow
