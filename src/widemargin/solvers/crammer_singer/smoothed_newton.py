r"""Newton's method for the smoothed problem of Crammer and Singer: one smoothing level.

The loss of sample i is smoothed by a proximal term in its shares p, with centre
:math:`\bar p_i` and width :math:`h_i`:

.. math::

    M_i = c_i \max_{p \in \Delta} \; p \cdot G_i - \tfrac{h_i}{2} |p - \bar p_i|^2 - G_{i y_i},

with the simplex :math:`\Delta` and G as in :mod:`widemargin.problems.crammer_singer`. The maximiser
is the projection of :math:`\bar p_i + G_i / h_i` onto the simplex, and the derivative with respect
to the decision values is :math:`-\alpha_i = c_i (p_i - [k = y_i])`. The smoothed objective is

.. math:: \psi(W, b) = \tfrac12 |W|^2 + \sum_i M_i .

Its Newton matrix is :math:`I + \sum_i \frac{c_i}{h_i} (P_i \otimes x_i x_i')`, where
:math:`P_i` centres the *free* classes of sample i, those with a positive share, and is zero in
the others. Samples with only one free class do not enter it.

Using the last shares as the next centre makes the sequence of levels a method of multipliers, whose
limit is the problem itself.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from widemargin._base.typing import BoolArray, FloatArray, Matrix
from widemargin.problems.crammer_singer import CrammerSinger
from widemargin.solvers.numerics.conjugate_gradients import conjugate_gradients

LARGEST_FACTOR = 1500  # largest order of a Newton matrix that is factorised
FORCING = 0.02  # relative residual of the linear system otherwise (inexact Newton)
MOST_PRODUCTS = 300  # conjugate-gradient iterations per Newton step
SUFFICIENT = 1e-3  # decrease relative to that of the slope
SHORTEST = 1e-10  # step lengths below this change nothing
DAMPING = 1e-15, 1e-6, 1e-2  # least, first and largest ridge of the intercepts, see `Level`
STEADY = 1e-6  # ridge of the intercepts relative to their typical curvature


def project(Z: FloatArray) -> FloatArray:
    """Return the projection of each row onto the simplex.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.solvers.crammer_singer.smoothed_newton import project
    >>> project(np.array([[0.9, 0.5, -1.0], [5.0, 0.0, 0.0]]))
    array([[0.7, 0.3, 0. ],
           [1. , 0. , 0. ]])
    """
    Z = Z - Z.max(axis=1, keepdims=True)  # a common term does not change the projection
    ordered = -np.sort(-Z, axis=1)
    count = np.arange(1.0, Z.shape[1] + 1.0)
    levels = (np.cumsum(ordered, axis=1) - 1.0) / count
    last = (ordered > levels).sum(axis=1) - 1  # at least 0, since the largest entry is zero
    p = np.maximum(Z - levels[np.arange(len(Z)), last][:, None], 0.0)
    return p / p.sum(axis=1, keepdims=True)  # rounding errors of large entries


class Level:
    """Data, current iterate and smoothing of one level.

    Attributes
    ----------
    W, b : weights (n_classes, n_features) and intercepts (n_classes,); zero without intercepts
    F : decision values X W' + b
    centre, h : centre (n_rows, n_classes) and width (n_rows,) of the smoothing
    p : shares at (W, b), from the last :meth:`respond`
    alpha, U, s : dual variables of these shares, X'alpha of shape (n_classes, n_features), and the
        sums of alpha per class
    value : psi
    damping : ridge of the intercepts, which may have no curvature, relative to their mean
        curvature; larger after short steps, smaller after full ones
    """

    def __init__(self, problem: CrammerSinger, X: Matrix) -> None:
        self.problem, self.X = problem, X
        n, d = X.shape
        self.W, self.b = np.zeros((problem.n_classes, d)), np.zeros(problem.n_classes)
        self.F = np.zeros((n, problem.n_classes))
        self.centre, self.h = problem.own.copy(), np.ones(n)
        self.damping = DAMPING[1]
        self.respond()

    def move_to(self, W: FloatArray, b: FloatArray) -> None:
        """Set the model, recompute its decision values and respond."""
        self.W, self.b = W, b
        self.F = np.asarray(self.X @ W.T) + b
        self.respond()

    def respond(self) -> None:
        """Update the shares and the objective to the model and the smoothing."""
        self.value, self.p = self._smoothed(self.W, self.F)
        self.alpha = self.problem.variables(self.p)
        self.U = self.expand(self.alpha)
        self.s = self.alpha.sum(axis=0)

    def expand(self, alpha: FloatArray) -> FloatArray:
        """Return sum_i alpha_ik x_i, one row per class."""
        return np.asarray(self.X.T @ alpha).T

    def smoothing_gap(self) -> float:
        """Return by how much the loss exceeds what the current shares give."""
        G = self.problem.rivals(self.F)
        return float(self.problem.cost @ (G.max(axis=1) - (self.p * G).sum(axis=1)))

    def proximal_term(self) -> float:
        """Return twice the sum of the proximal terms."""
        moved = self.p - self.centre
        return float((self.problem.cost * self.h) @ (moved * moved).sum(axis=1))

    def _smoothed(self, W: FloatArray, F: FloatArray) -> tuple[float, FloatArray]:
        """Return psi and the shares."""
        G = self.problem.rivals(F)
        p = project(self.centre + (G - G.max(axis=1, keepdims=True)) / self.h[:, None])
        moved = p - self.centre
        inner = (p * G).sum(axis=1) - 0.5 * self.h * (moved * moved).sum(axis=1)
        inner -= F[np.arange(len(F)), self.problem.codes]
        return float(0.5 * np.vdot(W, W) + self.problem.cost @ inner), p

    def step(self, *, ahead: bool) -> bool:
        """Take one Newton step with line search; return whether psi decreased.

        ``ahead`` marks the first step after a change of the centre. The smoothed loss has then
        moved away from the samples that were free before, but these will be free again at the new
        optimum. So the step uses the free classes of the centre.
        """
        free, alpha, U, s = self.p > 0.0, self.alpha, self.U, self.s
        if ahead:
            free = self.centre > 0.0
            G = self.problem.rivals(self.F)
            pull = _centred(G, free) / self.h[:, None]
            alpha = self.problem.variables(self.centre + pull)
            U, s = self.expand(alpha), alpha.sum(axis=0)
        dW, db = self._direction(free, self.W - U, -s)
        slope = float(np.vdot(self.W - self.U, dW) - self.s @ db)
        if not np.isfinite(slope) or slope >= 0.0:
            return False
        change = np.asarray(self.X @ dW.T) + db
        length = 1.0
        while length >= SHORTEST:
            W = self.W + length * dW
            value, _ = self._smoothed(W, self.F + length * change)
            if value <= self.value + SUFFICIENT * length * slope:
                self.move_to(W, self.b + length * db)
                change_by = 0.1 if length == 1.0 else 10.0 if length < 0.3 else 1.0
                self.damping = min(max(self.damping * change_by, DAMPING[0]), DAMPING[2])
                return True
            # Minimiser of the parabola through both values and the slope, within limits.
            bend = 2.0 * (value - self.value - length * slope)
            best = -slope * length * length / bend if bend > 0.0 else 0.5 * length
            length = min(max(best, 0.1 * length), 0.5 * length)
        return False

    def _direction(
        self, free: BoolArray, gradient: FloatArray, lack: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the Newton direction (dW, db) for a gradient with respect to W and b."""
        if not self.problem.intercept:
            lack = np.zeros_like(lack)
        some = np.flatnonzero(free.sum(axis=1) > 1)
        curvature = self.problem.cost[some] / self.h[some]
        system = _System(
            self.X[some], free[some], curvature, self.problem.intercept,
            float((self.problem.cost / self.h).mean()), self.damping,
        )  # fmt: skip
        if self.W.size + self.b.size <= LARGEST_FACTOR:
            try:
                return system.factorised(-gradient, -lack)
            except LinAlgError:
                pass  # numerically singular: conjugate gradients still give a descent direction
        return system.iterated(-gradient, -lack)


def _centred(R: FloatArray, free: BoolArray) -> FloatArray:
    """Subtract from each row its mean over the free classes; the other classes become zero."""
    count = np.maximum(free.sum(axis=1), 1)
    mean = np.where(free, R, 0.0).sum(axis=1) / count
    return np.where(free, R - mean[:, None], 0.0)


class _System:
    """Newton system of the samples with at least two free classes.

    Without intercepts the part of the system for b is the identity.
    """

    def __init__(
        self,
        X: Matrix,
        free: BoolArray,
        curvature: FloatArray,
        intercept: bool,
        typical: float,
        damping: float,
    ) -> None:
        self.X, self.free, self.curvature, self.intercept = X, free, curvature, intercept
        # Changing all intercepts together has no curvature, so that of the others is added to it.
        # Where the weights can follow an intercept, its curvature is about 1 / |x|^2; that of a
        # class without free samples is zero.
        self.common = float(curvature.sum()) / free.shape[1]
        squares = X.data @ X.data if sp.issparse(X) else np.vdot(X, X)
        follow = STEADY * X.shape[0] / float(squares) if squares > 0.0 else self.common
        self.ridge = max(damping * self.common, min(STEADY * self.common, follow))
        if self.common == 0.0:
            self.ridge = typical

    def factorised(self, right: FloatArray, lack: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve the system by a Cholesky factorisation."""
        K, d = right.shape
        Z = self.X.toarray() if sp.issparse(self.X) else self.X
        Z = np.hstack([Z, np.full((len(Z), 1), float(self.intercept))])
        H = np.zeros((K, d + 1, K, d + 1))
        count = self.free.sum(axis=1)
        for k in range(K):
            for other in range(k + 1):
                both = np.flatnonzero(self.free[:, k] & self.free[:, other])
                if len(both):
                    weight = self.curvature[both] * (float(k == other) - 1.0 / count[both])
                    part = Z[both]
                    H[k, :, other] = (part * weight[:, None]).T @ part
        if self.intercept:
            H[:, -1, :, -1] += self.common / K
        H = H.reshape(K * (d + 1), K * (d + 1))
        ridge = np.ones((K, d + 1))
        if self.intercept:
            ridge[:, -1] = self.ridge
        H[np.diag_indices_from(H)] += ridge.ravel()
        factor = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
        both_sides = np.hstack([right, lack[:, None]])
        found = cho_solve(factor, both_sides.ravel(), check_finite=False).reshape(K, d + 1)
        return found[:, :-1], found[:, -1] * float(self.intercept)

    def iterated(self, right: FloatArray, lack: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve the system approximately by conjugate gradients."""
        K, d = right.shape

        def times(v: FloatArray) -> FloatArray:
            V = v.reshape(K, d + 1)
            R = np.asarray(self.X @ V[:, :-1].T)
            if self.intercept:
                R = R + V[:, -1]
            T = _centred(R, self.free) * self.curvature[:, None]
            out = V.copy()
            out[:, :-1] += np.asarray(self.X.T @ T).T
            if self.intercept:
                out[:, -1] = self.ridge * V[:, -1] + T.sum(axis=0) + self.common * V[:, -1].mean()
            return out.ravel()

        share = self.free * (1.0 - 1.0 / np.maximum(self.free.sum(axis=1), 1))[:, None]
        share *= self.curvature[:, None]
        squares = self.X.multiply(self.X) if sp.issparse(self.X) else self.X * self.X
        diagonal = np.ones((K, d + 1))
        diagonal[:, :-1] += np.asarray(squares.T @ share).T
        if self.intercept:
            diagonal[:, -1] = self.ridge + share.sum(axis=0) + self.common / K
        found = conjugate_gradients(
            times,
            np.hstack([right, lack[:, None]]).ravel(),
            lambda r: r / diagonal.ravel(),
            goal=lambda size: FORCING**2 * size,
            most=MOST_PRODUCTS,
        )
        V = found.x.reshape(K, d + 1)
        return V[:, :-1], V[:, -1] * float(self.intercept)
