"""Ordered ranks, written a second time for the tests: all pairs one by one, literal likelihoods.

Nothing here imports widemargin. Where an optimum is asked for, another solver proposes a model,
and only the objective of its model counts: whatever it is, the optimum is not above it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog, minimize
from scipy.special import log_expit, log_ndtr

UNIT = 64 * np.finfo(float).eps


def comparable_pairs(codes, group):
    """Return the rows of all pairs in which the first one has the higher rank."""
    rows = itertools.product(range(len(codes)), repeat=2)
    found = [(i, j) for i, j in rows if codes[i] > codes[j] and group[i] == group[j]]
    return np.array(found, dtype=int).reshape(-1, 2).T


def preference_risk(codes, score, group, weight, ties=1.0, scaled=False):
    """Return the share of the pairs in the wrong order, nan where there is no pair."""
    upper, lower = comparable_pairs(codes, group)
    cost = weight[upper] * weight[lower]
    wrong = cost @ ((score[upper] < score[lower]) + ties * (score[upper] == score[lower]))
    whole = cost.sum() if scaled else 0.5 * weight.sum() ** 2
    return wrong / whole if cost.sum() > 0 else np.nan


@dataclass
class Preference:
    """min penalty + sum over all pairs of cost_ij loss(1 - (f_i - f_j))."""

    codes: np.ndarray
    group: np.ndarray
    weight: np.ndarray
    C: float
    squared: bool = False
    shared: bool = False  # C is shared by all pairs

    def __post_init__(self):
        self.upper, self.lower = comparable_pairs(self.codes, self.group)
        times = self.weight[self.upper] * self.weight[self.lower]
        self.cost = self.C * times / (times.sum() if self.shared else 1.0)

    def slack(self, f):
        """Return what each pair lacks of the difference 1."""
        return np.maximum(0.0, 1.0 - (f[self.upper] - f[self.lower]))

    def primal(self, f, penalty):
        """Return the objective of utilities f."""
        slack = self.slack(f)
        return float(penalty + self.cost @ (slack**2 if self.squared else slack))

    def rounding(self, f, error):
        """Return what errors of the utilities can do to the objective."""
        each = error[self.upper] + error[self.lower]
        each = each + UNIT * (1.0 + np.abs(f[self.upper]) + np.abs(f[self.lower]))
        slope = 2.0 * self.slack(f) + each if self.squared else 1.0
        # Sums over all pairs of a row are differences of sums over all rows of its group.
        terms = (1.0 + 2.0 * np.abs(f).max()) ** (2 if self.squared else 1)
        return float(self.cost @ (slope * each) + UNIT * self.cost.sum() * terms)

    def proposal(self, R, norm=2):
        """Return the w that another solver takes for the best, f = R w; None if it has none."""
        Z = R[self.upper] - R[self.lower]
        size = float(np.abs(Z).max(initial=0.0))
        # In units in which the features have the size 1; w grows, its penalty gets cheaper.
        if not 1e-150 < size < 1e150:
            return None
        price = size**-norm / float(self.cost.max())
        if not 1e-12 <= price <= 1e12:
            return None  # beyond what the solvers are made for
        cost = self.cost / self.cost.max()
        w = self._linear(Z / size, cost, price) if norm == 1 else self._bent(Z / size, cost, price)
        return None if w is None or not np.isfinite(w).all() else w / size

    def _linear(self, Z, cost, price):
        m, d = Z.shape
        found = linprog(
            np.concatenate([np.full(2 * d, price), cost]),
            A_ub=-np.c_[Z, -Z, np.eye(m)],
            b_ub=-np.ones(m),
            bounds=(0, None),
        )
        return None if found.x is None else found.x[:d] - found.x[d : 2 * d]

    def _bent(self, Z, cost, price):
        m, d = Z.shape
        quadratic = np.concatenate([np.full(d, price), 2.0 * cost if self.squared else np.zeros(m)])
        linear = np.concatenate([np.zeros(d), np.zeros(m) if self.squared else cost])
        A = np.block([[-Z, -np.eye(m)], [np.zeros((m, d)), -np.eye(m)]])
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        found = clarabel.DefaultSolver(
            sp.diags_array(quadratic, format="csc"),
            linear,
            sp.csc_matrix(A),
            np.concatenate([-np.ones(m), np.zeros(m)]),
            [clarabel.NonnegativeConeT(2 * m)],
            settings,
        ).solve()
        return np.asarray(found.x[:d])


def square_root(K):
    """Return R with R R' = K and T with K T = R, but for eigenvalues that are rounding."""
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * max(values[-1], 1e-300)
    root = np.sqrt(values[kept])
    return vectors[:, kept] * root, vectors[:, kept] / root


def least_rank_error(f, codes, weight, n_ranks):
    """Return the least sum of w |predicted - rank| over all thresholds on f, cut by cut."""
    total = 0.0
    for k in range(n_ranks - 1):
        cuts = [-np.inf, *np.unique(f)]
        total += min(
            weight @ (((f <= cut) & (codes > k)) | ((f > cut) & (codes <= k))) for cut in cuts
        )
    return float(total)


# ---------------------------------------------------------------- cumulative models


def _log1mexp(gap):
    with np.errstate(divide="ignore", under="ignore"):
        return np.log(-np.expm1(-gap))


def log_interval(link, a, b):
    """Return log(P(b) - P(a)), on the side of zero where the interval has the smaller share."""
    if link == "cloglog":
        with np.errstate(over="ignore", invalid="ignore"):
            return -np.exp(a) + _log1mexp(np.exp(b) - np.exp(a))
    log_P = log_expit if link == "logit" else log_ndtr
    mirror = a + b > 0
    a, b = np.where(mirror, -b, a), np.where(mirror, -a, b)
    return log_P(b) + _log1mexp(log_P(b) - log_P(a))


@dataclass
class Cumulative:
    """min alpha / 2 |w|^2 - sum weight_i log Pr(rank_i | w x_i), thresholds rising."""

    X: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    alpha: float
    link: str

    def ends(self, w, theta):
        """Return the interval of the noise in which each row has its rank."""
        u = self.X @ w
        ends = np.concatenate([[-np.inf], theta, [np.inf]])
        return ends[self.codes] - u, ends[self.codes + 1] - u

    def likelihood(self, w, theta):
        """Return the log-likelihood; minus infinity where thresholds are not in order."""
        if (np.diff(theta) <= 0).any():
            return -np.inf
        return float(self.weight @ log_interval(self.link, *self.ends(w, theta)))

    def primal(self, w, theta):
        """Return the objective."""
        penalty = 0.5 * self.alpha * float(w @ w) if self.alpha > 0 else 0.0
        value = penalty - self.likelihood(w, theta)
        return value if np.isfinite(value) else np.inf

    def rounding(self, w, theta):
        """Return what rounding of utilities and thresholds can do, by moving all of them.

        An end of an interval of the noise is right to UNIT times what it is the difference of.
        """
        size = np.abs(self.X) @ np.abs(w)
        bounds = np.concatenate([[0.0], np.abs(theta), [0.0]])
        error = UNIT * (1.0 + size + np.maximum(bounds[self.codes], bounds[self.codes + 1]))
        a, b = self.ends(w, theta)
        here = log_interval(self.link, a, b)
        moved = [
            log_interval(self.link, a + s * error, b + t * error)
            for s, t in itertools.product((-1.0, 1.0), repeat=2)
            if s <= t
        ]
        change = np.max([np.abs(m - here) for m in moved], axis=0)
        penalty = self.alpha * float(w @ w) if self.alpha > 0 else 0.0
        return float(self.weight @ (change + UNIT * np.abs(here)) + UNIT * penalty)

    def bound(self, w, theta):
        """Return the least objective that a descent from the model, and from zero, finds."""
        d = self.X.shape[1]
        size = np.maximum(np.abs(self.X).max(axis=0), 1e-150)

        def objective(v):
            with np.errstate(all="ignore"):
                value, by_w, by_theta = self._slopes(v[:d] / size, v[d:])
            gradient = np.concatenate([by_w / size, by_theta])
            if not (np.isfinite(value) and np.isfinite(gradient).all()):
                return 1e300, np.zeros(len(v))
            return value, gradient

        tried = [self.primal(w, theta)]
        for first in (w, np.zeros(d)):
            start = np.concatenate([first * size, theta])
            found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 50})
            tried.append(self.primal(found.x[:d] / size, found.x[d:]))
        return min(tried)

    def _slopes(self, w, theta):
        """Return the objective and its gradient."""
        a, b = self.ends(w, theta)
        log_share = log_interval(self.link, a, b)
        # The derivatives of -log(P(b) - P(a)) by its two ends.
        by_a = self.weight * np.exp(_log_density(self.link, a) - log_share)
        by_b = -self.weight * np.exp(_log_density(self.link, b) - log_share)
        n_ranks = len(theta) + 1
        by_theta = np.bincount(self.codes, by_b, n_ranks)[:-1]
        by_theta = by_theta + np.bincount(self.codes, by_a, n_ranks)[1:]
        by_w = self.alpha * w - self.X.T @ (by_a + by_b)
        return self.primal(w, theta), by_w, by_theta


def _log_density(link, t):
    if link == "probit":
        return -0.5 * t**2 - 0.5 * np.log(2 * np.pi)
    if link == "logit":
        return log_expit(t) + log_expit(-t)
    return np.where(np.isfinite(t), t - np.exp(t), -np.inf)
