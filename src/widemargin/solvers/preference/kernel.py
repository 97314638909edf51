r"""Preference machines with a kernel: Newton's method in a small basis, then in the whole space.

Pivoted Cholesky picks rows whose images :math:`\phi(x_p)` nearly span those of all rows. With an
orthonormal basis U of their span, :math:`G = \Phi U` holds the rows' coordinates:
:math:`K \approx GG'`, and :math:`f = Gv` are exactly the utilities of :math:`Uv`. So the problem
restricted to the span is a linear machine in G, cheap to solve and no approximation of anything
but the search: its optimum is a point of the whole problem.

What is left is the part of the optimum outside the span. There Newton's method goes on in the
whole space by conjugate gradients in its own inner product, one product by K for each. (A
preconditioner from G was measured and does not pay: the part of the residual that the gap sees
lies in the leading directions of K, which conjugate gradients settle first.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from widemargin._base.jit import jit
from widemargin._base.threads import for_each
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.certificate import Certificate
from widemargin.kernels import Rows
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.pair_sums import Curvature, DualPoint
from widemargin.solvers.base import Budget, Status
from widemargin.solvers.numerics.data_products import LinearRows
from widemargin.solvers.preference.descent import (
    Descent,
    Element,
    FeatureSpace,
    Point,
    PreferenceResult,
    Trust,
)

BLOCK = 64  # pivots looked for at a time
FRESH = 0.2  # a candidate whose residual falls below this share of the block's largest waits
SPANNED = 1e-13  # residual relative to the kernel's diagonal that is rounding
SLAB = 512  # rows of a product that one thread takes
SMALL_BYTES = 64e6  # a matrix held in float64
WORTH_HOLDING = 4  # products after which it pays to hold the matrix
WHOLE_BASIS = 300  # rows up to which all of them may span: the restricted problem is the whole one
LARGEST_BASIS = 2000  # rows up to which they may, if conjugate gradients do not get through
PER_ROOT = 3.0  # largest size of another basis, in units of sqrt(n): it costs less than one K
START = 1e-2  # gap at which a problem restricted to such a basis is left
WITHIN = 0.3  # share of tol to which the restricted problem is solved


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates of all rows in an orthonormal basis of the span of some of them.

    Attributes
    ----------
    pivots : ndarray of shape (rank,)
        The rows that span.
    G : ndarray of shape (n_rows, rank)
        Coordinates; G of the pivots is lower triangular.
    spans : bool
        Whether every row's image is in the span but for rounding.
    """

    pivots: IntArray
    G: FloatArray
    spans: bool

    def coefficients(self, v: FloatArray) -> FloatArray:
        """Return the expansion coefficients, on all rows, of the vector with coordinates v."""
        out = np.zeros(len(self.G))
        out[self.pivots] = solve_triangular(self.G[self.pivots], v, lower=True, trans="T")
        return out


def pivoted_basis(product: KernelProducts, largest: int) -> Basis:
    """Return a basis of at most ``largest`` vectors, fewer if they span all rows' images.

    Candidates are drawn a block at a time with probability in proportion to what the basis lacks
    of them, and those that the others of their block span already are put back.
    """
    rng = np.random.default_rng(0)
    rows, every = product.rows, product.every
    lack = rows.diagonal().copy()
    enough = SPANNED * float(lack.max(initial=0.0))
    G = np.empty((rows.n, min(largest, rows.n)))
    pivots: list[IntArray] = []
    rank = 0
    while rank < G.shape[1] and lack.max() > enough:
        wanted = min(BLOCK, int((lack > enough).sum()))
        odds = np.where(lack > enough, lack, 0.0)
        drawn = rng.choice(rows.n, wanted, replace=False, p=odds / odds.sum())
        small = product.block(drawn, drawn) - G[drawn, :rank] @ G[drawn, :rank].T
        kept, factor = _fresh(small, enough, G.shape[1] - rank)
        chosen = drawn[kept]
        columns = product.block(every, chosen) - G[:, :rank] @ G[chosen, :rank].T
        new = slice(rank, rank + len(chosen))
        G[:, new] = solve_triangular(factor, columns.T, lower=True, check_finite=False).T
        G[chosen, new] = factor  # exactly triangular
        lack = np.maximum(lack - np.einsum("ij,ij->i", G[:, new], G[:, new]), 0.0)
        lack[chosen] = 0.0
        pivots.append(chosen)
        rank += len(chosen)
    found = np.concatenate(pivots) if pivots else np.zeros(0, np.intp)
    return Basis(found, np.ascontiguousarray(G[:, :rank]), bool(lack.max(initial=0.0) <= enough))


def _fresh(small: FloatArray, enough: float, most: int) -> tuple[IntArray, FloatArray]:
    """Cholesky with pivoting of a block; stop at candidates that the others nearly span."""
    small = small.copy()
    lack = np.diagonal(small).copy()
    stop = max(enough, FRESH * float(lack.max()))
    kept: list[int] = []
    columns = np.zeros((len(small), min(most, len(small))))
    while len(kept) < columns.shape[1]:
        k = int(np.argmax(lack))
        if kept and lack[k] <= stop:
            break
        c = len(kept)
        columns[:, c] = (small[:, k] - columns[:, :c] @ columns[k, :c]) / np.sqrt(lack[k])
        lack -= columns[:, c] ** 2
        lack[k] = -np.inf
        kept.append(k)
    factor = np.tril(columns[kept, : len(kept)])
    return np.array(kept, dtype=np.intp), factor


@jit(fast=True)
def _mixed_product(K: Any, v: Any, out: Any) -> None:
    """out = K v with sums in float64 whatever K is: half the memory to read, and no noise.

    Four rows at a time, so that v is read once for all of them.
    """
    n = K.shape[0]
    whole = n - n % 4
    for i in range(0, whole, 4):
        s0 = 0.0
        s1 = 0.0
        s2 = 0.0
        s3 = 0.0
        for j in range(len(v)):
            s0 += K[i, j] * v[j]
            s1 += K[i + 1, j] * v[j]
            s2 += K[i + 2, j] * v[j]
            s3 += K[i + 3, j] * v[j]
        out[i] = s0
        out[i + 1] = s1
        out[i + 2] = s2
        out[i + 3] = s3
    for i in range(whole, n):
        s0 = 0.0
        for j in range(len(v)):
            s0 += K[i, j] * v[j]
        out[i] = s0


class KernelProducts:
    """Products with the kernel matrix: computed afresh, or with a matrix that is held.

    A matrix of few rows is held from the start, in float64. Others are held once there are many
    products, small ones in float64, larger ones in float32 until :meth:`sharpen` is called.
    """

    def __init__(self, rows: Rows, cache_bytes: float) -> None:
        self.rows, self.cache_bytes = rows, cache_bytes
        self.every = np.arange(rows.n)
        small = 8.0 * rows.n**2 <= min(cache_bytes, SMALL_BYTES)
        self.dtype = np.dtype(np.float64 if small else np.float32)
        self.calls = 0
        self.K: RealArray | None = None
        if small and rows.n <= WHOLE_BASIS and self.may_hold:
            self._hold()

    def _hold(self) -> None:
        self.K = np.empty((self.rows.n, self.rows.n), dtype=self.dtype)
        self.rows.fill_symmetric(self.every, self.K)

    @property
    def may_hold(self) -> bool:
        """Whether the matrix fits the memory allowed; a linear kernel needs none."""
        fits = self.dtype.itemsize * self.rows.n**2 <= self.cache_bytes
        return fits and self.rows.kernel.name != "linear"

    @property
    def is_exact(self) -> bool:
        """Whether every product is one with float64 kernel values."""
        return self.dtype == np.float64 or not self.may_hold

    def sharpen(self) -> None:
        """Use kernel values in float64 only from now on."""
        self.dtype = np.dtype(np.float64)
        self.K = None

    def __call__(self, v: FloatArray) -> FloatArray:
        """Return K v."""
        self.calls += 1
        if self.K is None and self.may_hold and self.calls > WORTH_HOLDING:
            self._hold()
        return self.exact(v) if self.K is None else self._read(self.K, v)

    def _read(self, K: RealArray, v: FloatArray) -> FloatArray:
        out = np.empty(len(v))

        def multiply(first: int) -> None:
            slab = slice(first, first + SLAB)
            _mixed_product(K[slab], v, out[slab])

        for_each(multiply, range(0, len(v), SLAB), self.rows.threads)
        return out

    def exact(self, v: FloatArray) -> FloatArray:
        """Return K v from kernel values in float64, computed afresh where they are not held."""
        if self.K is not None and self.K.dtype == np.float64:
            return np.asarray(self.K @ v)
        some = np.flatnonzero(v)
        if 2 * len(some) <= len(v):
            return self.rows.weighted_sum(self.every, self.rows, some, v[some])
        return self.rows.symmetric_sum(self.every, v)

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return some kernel values in float64."""
        if self.K is not None and self.K.dtype == np.float64:
            return np.asarray(self.K[np.ix_(rows, columns)])
        return self.rows.block(rows, self.rows, columns).astype(np.float64, copy=False)


class KernelSpace(FeatureSpace):
    """Expansions sum_i beta_i k(x_i, .) over all rows, in the inner product of the kernel."""

    def __init__(self, product: KernelProducts) -> None:
        self.product = product

    @property
    def trust(self) -> Trust:
        """Return that there is no preconditioner to speak of."""
        return "rough"

    def dot(self, a: Element, b: Element) -> float:
        """Return beta_a' K beta_b."""
        return float(a.coef @ b.image)

    def expand(self, beta: FloatArray) -> Element:
        """Return the expansion with its image: one product by K."""
        return Element(beta, self.product(beta))

    def at(self, coef: FloatArray) -> Element:
        """Return the expansion with its image."""
        return self.expand(coef)

    def prepare(self, at: Point, width: float, ramp: float | None = None) -> Curvature:
        """Return the curvature; there is no preconditioner to prepare."""
        return at.sums.curvature(width, ramp)

    def precondition(self, r: Element) -> Element:
        """Return the residual itself."""
        return r


class KernelRun:
    """A kernel machine: restricted to a basis, then in the whole space, then in float64."""

    def __init__(self, problem: PreferenceProblem, rows: Rows, tol: float, budget: Budget) -> None:
        self.problem, self.rows, self.tol, self.budget = problem, rows, tol, budget
        self.before = rows.evaluations
        self.product = KernelProducts(rows, budget.cache_bytes)
        self.space = KernelSpace(self.product)
        self.certified: PreferenceResult | None = None  # by a basis that spans everything

    def solve(self, start: FloatArray | None) -> PreferenceResult:
        """Run the stages until one of them reaches the tolerance in float64."""
        status = self._restricted() if start is None else self._whole(self.space.at(start), 1.0)
        if status == "stalled" and self.rows.n <= LARGEST_BASIS:
            near = self.descent.gap <= START
            width = self.descent.width if near else 1.0
            status = self._restricted(self.rows.n, self.descent.best.coef, width)
        if self.certified is not None:
            return self.certified
        while True:
            result, certificate = self._evaluated(self.descent.point, self.descent.best, status)
            unbounded = certificate.dual == -np.inf  # indefinite: more steps do not help
            if certificate.converged or unbounded:
                return replace(result, status="converged")
            if status in ("max_iter", "stopped") or self.product.is_exact:
                return replace(result, status="stalled" if status == "converged" else status)
            self.product.sharpen()
            status = self._whole(Element(result.coef, result.f), self.descent.width)

    def _restricted(
        self, largest: int = 0, coef: FloatArray | None = None, width: float = 1.0
    ) -> Status:
        """Solve in the span of a basis, then in the whole space from there.

        Where the basis spans everything this ends the work; else it is but a start.
        """
        n = self.rows.n
        fits = int(0.25 * self.budget.cache_bytes / (8 * n))
        wanted = largest or (n if n <= WHOLE_BASIS else int(PER_ROOT * np.sqrt(n)))
        basis = pivoted_basis(self.product, max(1, min(fits, wanted)))
        coordinates = LinearRows(basis.G, threads=self.rows.threads)
        space = FeatureSpace(coordinates, basis.G)
        begin = space.at(np.zeros(basis.G.shape[1]) if coef is None else coef @ basis.G)
        tol = WITHIN * self.tol if basis.spans else max(self.tol, START)
        inner = Descent(self.problem, space, tol, self.budget, begin, width, polished=basis.spans)
        status = inner.run()
        at = Element(basis.coefficients(inner.best.coef), inner.best.image)
        if basis.spans and status == "converged":
            result, certificate = self._evaluated(inner.point, at, status)
            if certificate.converged:
                self.certified = result
                return status
        return self._whole(at, inner.width, inner.point, go_on=status in ("converged", "stalled"))

    def _whole(
        self, at: Element, width: float, point: DualPoint | None = None, *, go_on: bool = True
    ) -> Status:
        """Go on in the whole space; where a larger basis is at hand, do not insist."""
        self.descent = Descent(self.problem, self.space, self.tol, self.budget, at, width)
        if self.rows.n <= LARGEST_BASIS:
            self.descent.patience = 1
        if point is not None:
            self.descent.consider(at, point)
        return self.descent.run() if go_on else self.budget.status

    def _evaluated(
        self, point: DualPoint, best: Element, status: Status
    ) -> tuple[PreferenceResult, Certificate]:
        """Evaluate a dual point and a vector in float64, and certify them.

        The expansion of the dual point is the model where that closes the gap, for its
        coefficients are bounded; else the vector is.
        """
        beta = self.problem.evaluate_point(point).beta
        image = self.product.exact(beta)
        result = PreferenceResult(
            coef=beta,
            f=image,
            penalty=0.5 * float(beta @ image),
            point=point,
            image=image,
            n_iter=max(1, self.budget.used),
            status=status,
            kernel_evaluations=self.rows.evaluations - self.before,
        )
        certificate = self.problem.certificate(result, tol=self.tol)
        if certificate.converged:
            return result, certificate
        coef = best.coef
        f = self.product.exact(coef)
        evaluations = self.rows.evaluations - self.before
        result = replace(
            result, coef=coef, f=f, penalty=0.5 * float(coef @ f), kernel_evaluations=evaluations
        )
        return result, self.problem.certificate(result, tol=self.tol)
