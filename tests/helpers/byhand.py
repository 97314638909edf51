"""The mathematics of the soft-margin machines, written a second time for the tests.

Nothing here imports widemargin: kernels come from scipy's distances, objectives from the
textbook formulas in the expansion coefficients ``beta`` (f = K beta), thresholds from trying
every breakpoint. Slow and plain on purpose; everything is float64 on n x n matrices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import cdist


def gram(A, B, kernel="rbf", gamma=1.0, degree=3, coef0=0.0):
    """Return k(a, b) for all rows of A and B; a vector gamma weighs the features."""
    A, B = (np.asarray(m.toarray() if sp.issparse(m) else m, dtype=np.float64) for m in (A, B))
    if kernel == "linear":
        return A @ B.T
    if kernel == "poly":
        return (gamma * (A @ B.T) + coef0) ** degree
    if kernel == "sigmoid":
        return np.tanh(gamma * (A @ B.T) + coef0)
    # Differences first: rows far from the origin would lose them to a factor.
    each = np.broadcast_to(np.asarray(gamma, dtype=np.float64), A.shape[1])
    return np.exp(-cdist(A, B, "sqeuclidean", w=each))


def scale_gamma(X, weight=None):
    """Return gamma="scale" with weights as repetitions: 1 / (d Var(all entries))."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    share = weight / weight.sum()
    mean = share @ X.mean(axis=1)
    variance = share @ ((X - mean) ** 2).mean(axis=1)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def dense(values):
    """Return coefficients as an array; those of models of sparse samples are sparse."""
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def row_coefficients(model, n_rows):
    """Spread a binary model's or regressor's dual_coef_ over the training rows."""
    beta = np.zeros(n_rows)
    beta[model.support_] = dense(model.dual_coef_).ravel()
    return beta


@dataclass
class Hinge:
    """min 1/2 |w|^2 + sum cost_i max(0, 1 - y_i (f_i + b)); no b without intercept."""

    K: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    intercept: bool = True

    def dual(self, beta):
        """Return sum alpha - 1/2 beta'K beta."""
        return self.y @ beta - 0.5 * beta @ self.K @ beta

    def primal_at(self, beta, b):
        """Return the primal objective of f + b."""
        f = self.K @ beta
        slack = np.maximum(0.0, 1.0 - self.y * (f + b))
        return 0.5 * beta @ f + self.cost @ slack

    def primal(self, beta):
        """Return the primal objective at the best threshold (a breakpoint)."""
        if not self.intercept:
            return self.primal_at(beta, 0.0)
        return min(self.primal_at(beta, b) for b in self.y - self.K @ beta)

    def infeasibility(self, beta):
        """Return how far beta leaves the box and the equality, relative to the costs."""
        alpha = self.y * beta
        box = max(0.0, -alpha.min(), ((alpha - self.cost) / self.cost.max()).max())
        return max(box, abs(beta.sum()) / self.cost.sum() if self.intercept else 0.0)

    def kkt(self, beta):
        """Return LIBSVM's violation, or without intercept the largest projected gradient."""
        lower = np.where(self.y > 0, 0.0, -self.cost)
        upper = np.where(self.y > 0, self.cost, 0.0)
        return _overlap(self.y - self.K @ beta, beta, lower, upper, self.intercept)


@dataclass
class SquaredHinge(Hinge):
    """min 1/2 |w|^2 + sum cost_i max(0, 1 - y_i (f_i + b))^2."""

    def dual(self, beta):
        """Return the hinge's dual minus 1/2 sum beta^2 / (2 cost)."""
        return super().dual(beta) - 0.25 * (beta**2 / self.cost).sum()

    def primal_at(self, beta, b):
        """Return the primal objective of f + b."""
        f = self.K @ beta
        slack = np.maximum(0.0, 1.0 - self.y * (f + b))
        return 0.5 * beta @ f + self.cost @ slack**2

    def primal(self, beta):
        """Return the primal at the best threshold: the vertex of one of its parabolas."""
        if not self.intercept:
            return self.primal_at(beta, 0.0)
        gap = self.y - self.K @ beta  # row i is active where y_i (gap_i - b) > 0
        knots = np.sort(gap)
        inside = np.concatenate([[knots[0] - 1], 0.5 * (knots[1:] + knots[:-1]), [knots[-1] + 1]])
        vertices = list(knots)
        for x in inside:
            active = self.y * (gap - x) > 0
            if active.any():
                vertices.append((self.cost @ (gap * active)) / (self.cost @ active))
        return min(self.primal_at(beta, b) for b in vertices)

    def infeasibility(self, beta):
        """Return the largest wrong sign or the broken equality."""
        wrong = max(0.0, -(self.y * beta).min())
        return max(wrong, abs(beta.sum()) if self.intercept else 0.0) / max(1.0, abs(beta).max())

    def kkt(self, beta):
        """Return LIBSVM's violation of the ridge problem."""
        scores = self.y - self.K @ beta - beta / (2.0 * self.cost)
        lower = np.where(self.y > 0, 0.0, -np.inf)
        upper = np.where(self.y > 0, np.inf, 0.0)
        return _overlap(scores, beta, lower, upper, self.intercept)


@dataclass
class Nu:
    """min 1/2 |w|^2 - nu rho sum(weight) + sum weight_i max(0, rho - y_i (f_i + b))."""

    K: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    nu: float

    def rescaled(self, beta):
        """Undo the division by rho: scale beta so that y'beta = nu sum(weight).

        LIBSVM divides by a rho that may come out negative where the reduced hulls meet.
        """
        return beta * (self.nu * self.weight.sum() / (self.y @ beta))

    def dual(self, beta):
        """Return -1/2 beta'K beta of the rescaled coefficients."""
        beta = self.rescaled(beta)
        return -0.5 * beta @ self.K @ beta

    def primal(self, beta):
        """Return the primal at the best b and rho; each class has its own threshold."""
        beta = self.rescaled(beta)
        f = self.K @ beta
        half = 0.5 * self.nu * self.weight.sum()
        total = 0.5 * beta @ f
        for sign in (1, -1):  # threshold t = sign * b - rho: cost w max(0, -sign f - t) + half t
            row = self.y == sign
            s, w = -sign * f[row], self.weight[row]
            total += min(w @ np.maximum(0.0, s - t) + half * t for t in s)
        return total

    def infeasibility(self, beta):
        """Return how far the rescaled beta leaves the box and the two equalities."""
        alpha = self.y * self.rescaled(beta)
        half = 0.5 * self.nu * self.weight.sum()
        box = max(0.0, -alpha.min(), ((alpha - self.weight) / self.weight.max()).max())
        return max(box, *(abs(alpha[self.y == s].sum() - half) / half for s in (1, -1)))

    def kkt(self, beta):
        """Return the worse of the two classes' violations."""
        beta = self.rescaled(beta)
        s = -self.K @ beta
        lower = np.where(self.y > 0, 0.0, -self.weight)
        upper = np.where(self.y > 0, self.weight, 0.0)
        groups = (self.y > 0, self.y < 0)
        return max(_overlap(s[g], beta[g], lower[g], upper[g], True) for g in groups)


@dataclass
class Tube:
    """min 1/2 |w|^2 + sum cost_i max(0, |y_i - f_i - b| - epsilon)."""

    K: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    epsilon: float
    intercept: bool = True

    def dual(self, beta):
        """Return y'beta - epsilon |beta|_1 - 1/2 beta'K beta."""
        return self.y @ beta - self.epsilon * np.abs(beta).sum() - 0.5 * beta @ self.K @ beta

    def primal_at(self, beta, b):
        """Return the primal objective of f + b."""
        f = self.K @ beta
        return 0.5 * beta @ f + self.cost @ np.maximum(0.0, np.abs(self.y - f - b) - self.epsilon)

    def primal(self, beta):
        """Return the primal objective at the best threshold (a breakpoint)."""
        if not self.intercept:
            return self.primal_at(beta, 0.0)
        residual = self.y - self.K @ beta
        knots = np.concatenate([residual - self.epsilon, residual + self.epsilon])
        return min(self.primal_at(beta, b) for b in knots)

    def infeasibility(self, beta):
        """Return how far beta leaves the box and the equality, relative to the costs."""
        box = max(0.0, ((np.abs(beta) - self.cost) / self.cost.max()).max())
        return max(box, abs(beta.sum()) / self.cost.sum() if self.intercept else 0.0)

    def kkt(self, beta):
        """Return the violation over the two variables of each row."""
        residual = self.y - self.K @ beta
        zero = np.zeros_like(beta)
        return _overlap(
            np.concatenate([residual - self.epsilon, residual + self.epsilon]),
            np.concatenate([np.maximum(beta, 0), np.minimum(beta, 0)]),
            np.concatenate([zero, -self.cost]),
            np.concatenate([self.cost, zero]),
            self.intercept,
        )


@dataclass
class NuTube:
    """min 1/2 |w|^2 + nu eps sum(cost) + sum cost_i max(0, |y_i - f_i - b| - eps)."""

    K: np.ndarray
    y: np.ndarray
    cost: np.ndarray
    nu: float

    def dual(self, beta):
        """Return y'beta - 1/2 beta'K beta."""
        return self.y @ beta - 0.5 * beta @ self.K @ beta

    def primal(self, beta):
        """Return the primal at the best edges b + eps and b - eps of the tube."""
        f = self.K @ beta
        residual = self.y - f
        half = 0.5 * self.nu * self.cost.sum()
        total = 0.5 * beta @ f
        for side in (residual, -residual):
            total += min(self.cost @ np.maximum(0.0, side - t) + half * t for t in side)
        return total

    def infeasibility(self, beta):
        """Return how far beta leaves the box, the equality and the nu budget."""
        box = max(0.0, ((np.abs(beta) - self.cost) / self.cost.max()).max())
        excess = np.abs(beta).sum() / self.cost.sum() - self.nu
        return max(box, abs(beta.sum()) / self.cost.sum(), excess)


def _overlap(scores, b, lower, upper, intercept):
    # Coefficients that were split or rescaled miss their bound by a rounding error.
    reach = 1e-11 * np.where(np.isfinite(upper - lower), upper - lower, 0.0)
    up, down = b < upper - reach, b > lower + reach
    highest = max((s for s, free in zip(scores, up, strict=True) if free), default=-np.inf)
    lowest = min((s for s, free in zip(scores, down, strict=True) if free), default=np.inf)
    if intercept:
        return max(0.0, highest - lowest)
    return max(0.0, highest, -lowest)


def rounding(K, beta, cost):
    """Return bounds on what rounding can do to the dual and the primal objective.

    Each f_i is a sum whose terms have the size |K_ij| |beta_j|, and a kernel value itself is right
    to a few units in its last place.
    """
    terms = np.abs(K) @ np.abs(beta)
    unit = 64 * np.finfo(float).eps
    dual = unit * float(np.abs(beta) @ terms)
    return dual, dual + unit * float(cost @ terms)
