r"""Newton's method for kernel ranking: first in a small basis, then in the whole kernel space.

Pivoted Cholesky selects samples whose images :math:`\phi(x_p)` nearly span those of all samples.
With an orthonormal basis U of their span, :math:`G = \Phi U` holds the coordinates of the samples:
:math:`K \approx GG'`, and :math:`f = Gv` are exactly the utilities of :math:`Uv`. The problem
restricted to the span is therefore a linear one in G, cheap to solve, and only its search space is
approximate: its optimum is a feasible point of the whole problem.

From there Newton's method continues in the whole space, with conjugate gradients in the inner
product of the kernel, one product with K per iteration. (A preconditioner from G was measured and
is not faster: the part of the residual that matters for the gap is in the leading eigenspace of K,
which conjugate gradients resolve first.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from widemargin._base.jit import jit
from widemargin._base.threads import for_each
from widemargin._base.tolerances import OBJECTIVE_ROUNDING
from widemargin._base.typing import FloatArray, IntArray, RealArray
from widemargin.certificate import relative_gap
from widemargin.kernels import Rows
from widemargin.problems.preference import PreferenceProblem
from widemargin.problems.preference.bounds import dual_terms
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

BLOCK = 64  # candidate pivots drawn at a time
FRESH = 0.2  # candidates with a residual below this share of the block's largest are put back
SPANNED = 1e-13  # residuals below this share of the largest diagonal entry are rounding errors
SLAB = 512  # rows of K per task of a thread
SMALL_BYTES = 64e6  # matrices up to this size are held in float64
WORTH_HOLDING = 4  # number of products after which holding the matrix is faster
WHOLE_BASIS = 300  # up to this number of samples the basis spans them all: one stage suffices
LARGEST_BASIS = 2000  # the same as a fallback, if conjugate gradients stall
PER_ROOT = 3.0  # largest size of other bases, in units of sqrt(n): cheaper than computing K once
START = 1e-2  # relative gap to which a problem restricted to such a basis is solved
WITHIN = 0.3  # share of tol for a basis that spans everything; the certificate is computed with K


@dataclass(frozen=True, eq=False)
class Basis:
    """Coordinates of all samples in an orthonormal basis of the span of some of them.

    Attributes
    ----------
    pivots : ndarray of shape (rank,)
        The samples that span.
    G : ndarray of shape (n_rows, rank)
        Coordinates; G of the pivots is lower triangular.
    spans : bool
        Whether the image of every sample is in the span, up to rounding.
    """

    pivots: IntArray
    G: FloatArray
    spans: bool

    def coefficients(self, v: FloatArray) -> FloatArray:
        """Return the expansion coefficients, over all samples, of the vector with coordinates v."""
        out = np.zeros(len(self.G))
        out[self.pivots] = solve_triangular(self.G[self.pivots], v, lower=True, trans="T")
        return out


def pivoted_basis(product: KernelProducts, largest: int) -> Basis:
    """Compute a basis of at most ``largest`` vectors by randomly pivoted block Cholesky.

    Candidates are drawn in blocks, with probability proportional to their squared distance from the
    span so far; those that the others of their block nearly span are put back. There are fewer
    vectors if they already span the images of all samples.
    """
    rng = np.random.default_rng(0)  # a fixed seed keeps fits reproducible
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
        G[chosen, new] = factor  # exactly triangular, for `Basis.coefficients`
        lack = np.maximum(lack - np.einsum("ij,ij->i", G[:, new], G[:, new]), 0.0)
        lack[chosen] = 0.0
        pivots.append(chosen)
        rank += len(chosen)
    found = np.concatenate(pivots) if pivots else np.zeros(0, np.intp)
    return Basis(found, np.ascontiguousarray(G[:, :rank]), bool(lack.max(initial=0.0) <= enough))


def _fresh(small: FloatArray, enough: float, most: int) -> tuple[IntArray, FloatArray]:
    """Factorise a block by pivoted Cholesky; stop at candidates that the others nearly span.

    Returns the positions of the pivots and the factor of their block.
    """
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
    """Compute out = K v with float64 sums for any dtype of K.

    A float32 matrix halves the memory traffic without adding rounding errors of the sums. Four rows
    at a time share each read of v.
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
    """Products with the kernel matrix, which is recomputed for each or held in memory.

    For few samples the matrix is held from the start, in float64. Otherwise it is held after a few
    products if it fits the memory: small ones in float64, larger ones in float32 until
    :meth:`sharpen` is called.
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
        """Whether the matrix may be held: it fits `cache_bytes`, and the kernel is not linear."""
        fits = self.dtype.itemsize * self.rows.n**2 <= self.cache_bytes
        return fits and self.rows.kernel.name != "linear"

    @property
    def is_exact(self) -> bool:
        """Whether all products use float64 kernel values."""
        return self.dtype == np.float64 or not self.may_hold

    def sharpen(self) -> None:
        """Switch to float64 kernel values for all further products."""
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
        """Return K v with float64 kernel values, recomputed unless they are held."""
        if self.K is not None and self.K.dtype == np.float64:
            return np.asarray(self.K @ v)
        # The symmetric sum computes n^2 / 2 kernel values, the other one n for each nonzero v_j.
        some = np.flatnonzero(v)
        if 2 * len(some) <= len(v):
            return self.rows.weighted_sum(self.every, self.rows, some, v[some])
        return self.rows.symmetric_sum(self.every, v)

    def block(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """Return a block of kernel values in float64."""
        if self.K is not None and self.K.dtype == np.float64:
            return np.asarray(self.K[np.ix_(rows, columns)])
        return self.rows.block(rows, self.rows, columns).astype(np.float64, copy=False)


class KernelSpace(FeatureSpace):
    """Expansions sum_i beta_i k(x_i, .) over all samples, with the kernel's inner product."""

    def __init__(self, product: KernelProducts) -> None:
        self.product = product

    @property
    def trust(self) -> Trust:
        """Accuracy of the preconditioner, which is the identity."""
        return "rough"

    def dot(self, a: Element, b: Element) -> float:
        """Return beta_a' K beta_b."""
        return float(a.coef @ b.image)

    def expand(self, beta: FloatArray) -> Element:
        """Return the expansion with its image, at the cost of one product with K."""
        return Element(beta, self.product(beta))

    def at(self, coef: FloatArray) -> Element:
        """Return the expansion with its image."""
        return self.expand(coef)

    def prepare(self, at: Point, width: float, ramp: float | None = None) -> Curvature:
        """Return the curvature; there is no preconditioner to prepare."""
        return at.sums.curvature(width, ramp)

    def precondition(self, r: Element) -> Element:
        """Return r: the space has no preconditioner."""
        return r


class KernelRun:
    """Stages of a kernel problem: restricted to a basis, in the whole space, then in float64."""

    def __init__(self, problem: PreferenceProblem, rows: Rows, tol: float, budget: Budget) -> None:
        self.problem, self.rows, self.tol, self.budget = problem, rows, tol, budget
        self.before = rows.evaluations
        self.product = KernelProducts(rows, budget.cache_bytes)
        self.space = KernelSpace(self.product)
        self.certified: PreferenceResult | None = None  # set if a basis spans everything

    def solve(self, start: FloatArray | None) -> PreferenceResult:
        """Run the stages until the gap in float64 reaches the tolerance."""
        status = self._restricted() if start is None else self._whole(self.space.at(start), 1.0)
        if status == "stalled" and self.rows.n <= LARGEST_BASIS:
            # A narrow zone is a good start only near the optimum.
            near = self.descent.gap <= START
            width = self.descent.width if near else 1.0
            status = self._restricted(self.rows.n, self.descent.best.coef, width)
        if self.certified is not None:
            return self.certified
        while True:
            result, gap = self._evaluated(self.descent.point, self.descent.best, status)
            if gap <= self.tol:  # steps cannot help if it is minus infinity
                return replace(result, status="converged")
            if status in ("max_iter", "stopped") or self.product.is_exact:
                return replace(result, status="stalled" if status == "converged" else status)
            self.product.sharpen()
            status = self._whole(Element(result.coef, result.f), self.descent.width)

    def _restricted(
        self, largest: int = 0, coef: FloatArray | None = None, width: float = 1.0
    ) -> Status:
        """Solve in the span of a basis, then continue in the whole space.

        If the basis spans the images of all samples, the first solution is normally final.
        """
        n = self.rows.n
        # Leave most of the memory to kernel values.
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
            result, gap = self._evaluated(inner.point, at, status)
            if abs(gap) <= self.tol:
                self.certified = result
                return status
        return self._whole(at, inner.width, inner.point, go_on=status in ("converged", "stalled"))

    def _whole(
        self, at: Element, width: float, point: DualPoint | None = None, *, go_on: bool = True
    ) -> Status:
        """Run the descent in the whole kernel space, from a vector and optionally a dual point."""
        self.descent = Descent(self.problem, self.space, self.tol, self.budget, at, width)
        # Stop early if conjugate gradients stall: `solve` falls back to a basis of all samples.
        if self.rows.n <= LARGEST_BASIS:
            self.descent.patience = 1
        if point is not None:
            self.descent.consider(at, point)
        return self.descent.run() if go_on else self.budget.status

    def _evaluated(
        self, point: DualPoint, best: Element, status: Status
    ) -> tuple[PreferenceResult, float]:
        """Evaluate a dual point and a vector with float64 kernel values; return the relative gap.

        The expansion of the dual point is preferred as model if it meets the tolerance, because its
        coefficients are bounded; otherwise the model is the vector. The gap is minus infinity if
        the objectives cross, as they do for an indefinite kernel.
        """
        terms = dual_terms(self.problem, point)
        beta = terms.beta.hi
        image = self.product.exact(beta)
        result = PreferenceResult(
            coef=beta,
            f=image,
            penalty=0.5 * float(beta @ image),
            point=point,
            beta=beta,
            image=image,
            n_iter=max(1, self.budget.used),
            status=status,
            kernel_evaluations=self.rows.evaluations - self.before,
        )
        dual = self.problem.dual(terms, image)
        gap = self._gap(result, dual)
        if abs(gap) <= self.tol:
            return result, gap
        coef = best.coef
        f = self.product.exact(coef)
        evaluations = self.rows.evaluations - self.before
        result = replace(
            result, coef=coef, f=f, penalty=0.5 * float(coef @ f), kernel_evaluations=evaluations
        )
        return result, self._gap(result, dual)

    def _gap(self, result: PreferenceResult, dual: float) -> float:
        """Return the relative gap in float64, or minus infinity if it is negative."""
        gap = relative_gap(self.problem.primal(result.f, result.penalty), dual)
        return gap if gap >= -OBJECTIVE_ROUNDING else -np.inf
