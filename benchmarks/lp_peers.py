"""Data and candidates of the lp benchmark: HiGHS, Clarabel and ours on the same linear programs.

HiGHS and Clarabel receive the matrix of the dual form, max z'1 s.t. G z <= c, 0 <= z <= 1, which
they solve faster than the primal. Only their own run is timed, without computing the kernel or
passing the problem; alpha is then the multiplier of G z <= c. For ours the whole of ``fit(X, y)``
is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from benchmarks.data import SEED, MissingExtra
from benchmarks.measure import timed

FloatArray = npt.NDArray[np.float64]

SIMPLEX, IPM, CLARABEL, OURS = "HiGHS simplex", "HiGHS ipm", "Clarabel", "widemargin"
BLOCK = 2_000  # rows of the kernel matrix in memory while an objective is recomputed


@dataclass(frozen=True)
class Case:
    """A linear program: data, kernel and formulation.

    Attributes
    ----------
    name : str
        Name of the data for the tables.
    X, y : ndarray
        Samples, and labels -1 and +1.
    sigma : float
        Width of the kernel exp(-|x - x'|^2 / (2 sigma^2)).
    machine : {"LOO", "AM", "LP", "nu-LP"}
        Formulation: LOOSVC, AdaptiveMarginSVC, LPSVC or NuLPSVC.
    value : float
        Its parameter lam or nu; 1 for LOO.
    """

    name: str
    X: FloatArray
    y: FloatArray
    sigma: float
    machine: str = "LOO"
    value: float = 1.0

    @property
    def gamma(self) -> float:
        """Kernel parameter of the estimators, 1 / (2 sigma^2)."""
        return 1.0 / (2.0 * self.sigma**2)

    @property
    def label(self) -> str:
        """Name of the case in tables and JSON."""
        parameter = "" if self.machine == "LOO" else f" {self.value:g}"
        return f"{self.machine}{parameter}, {self.name} {len(self.y):,}"

    @property
    def shift(self) -> float:
        """Number subtracted from the diagonal of the kernel matrix in G."""
        return self.value if self.machine in ("LOO", "AM") else 0.0

    @property
    def price(self) -> float:
        """Right-hand side c of the dual: the cost of a unit of alpha."""
        return self.value if self.machine == "LP" else 0.0

    @property
    def nu(self) -> float | None:
        """Parameter nu of NuLPSVC; None for the others."""
        return self.value if self.machine == "nu-LP" else None

    def matrix(self) -> FloatArray:
        """Return the n x n matrix G, y_i y_j k(x_i, x_j) less `shift` on the diagonal."""
        G: FloatArray = rbf_kernel(self.X, gamma=self.gamma) * np.outer(self.y, self.y)
        G.flat[:: len(G) + 1] -= self.shift
        return G


def crescents(rows: int, sigma: float = 0.5) -> Case:
    """Generate two overlapping crescents: the kernel matrix has a small numerical rank."""
    X, label = make_moons(rows, noise=0.35, random_state=SEED)
    X = StandardScaler().fit_transform(X)
    return Case("crescents", X, np.where(label == 1, 1.0, -1.0), sigma)


def gauss10(rows: int, sigma: float = 2.0) -> Case:
    """Generate two overlapping Gaussians in ten dimensions: the kernel matrix has full rank."""
    rng = np.random.default_rng(SEED)
    y = rng.choice([-1.0, 1.0], size=rows)
    X = rng.standard_normal((rows, 10)) + 0.3 * y[:, None]
    return Case("gauss10", X, y, sigma)


def estimator(case: Case) -> Any:
    """Return our unfitted estimator for a case."""
    from widemargin import LOOSVC, LPSVC, AdaptiveMarginSVC, NuLPSVC

    makers: dict[str, Callable[[], Any]] = {
        "LOO": lambda: LOOSVC(gamma=case.gamma),
        "AM": lambda: AdaptiveMarginSVC(lam=case.value, gamma=case.gamma),
        "LP": lambda: LPSVC(lam=case.value, gamma=case.gamma),
        "nu-LP": lambda: NuLPSVC(nu=case.value, gamma=case.gamma),
    }
    return makers[case.machine]()


@dataclass(frozen=True)
class Solved:
    """Result of a candidate: seconds, alpha and, for ours, the fitted model."""

    seconds: float
    alpha: FloatArray
    model: Any = None


def solve(case: Case, candidate: str) -> Solved:
    """Solve a case once by one candidate."""
    if candidate == OURS:
        model = estimator(case)
        seconds, _ = timed(lambda: model.fit(case.X, case.y))
        return Solved(seconds, np.asarray(model.alpha_), model)
    if candidate == CLARABEL:
        return _clarabel(case)
    return _highs(case, "simplex" if candidate == SIMPLEX else "ipm")


def _highs(case: Case, method: str) -> Solved:
    """Solve the dual form by HiGHS; its interior-point method without crossover to a vertex."""
    try:
        import highspy
    except ModuleNotFoundError as error:
        raise MissingExtra("highspy") from error
    matrix, low, high, cost, right = _dual_form(case)
    n_rows, n_columns = matrix.shape
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n_columns, n_rows
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, low, high
    program.row_lower_ = np.full(n_rows, -highspy.kHighsInf)
    program.row_upper_ = right
    if case.nu is not None:
        program.row_lower_ = np.append(program.row_lower_[:-1], case.nu)
    columns = sp.csc_matrix(matrix)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = columns.indptr
    program.a_matrix_.index_ = columns.indices
    program.a_matrix_.value_ = columns.data
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", method)
    solver.setOptionValue("run_crossover", "off")
    solver.passModel(program)
    seconds, _ = timed(solver.run)
    prices = -np.asarray(solver.getSolution().row_dual)[: len(case.y)]
    return Solved(seconds, np.maximum(0.0, prices))


def _clarabel(case: Case) -> Solved:
    """Solve the dual form by Clarabel, an interior-point method for conic programs."""
    import clarabel

    matrix, low, high, cost, right = _dual_form(case)
    n, n_columns = len(case.y), matrix.shape[1]
    box = np.eye(n, n_columns)
    rows = np.vstack([matrix, box, -box])
    limits = np.concatenate([right, high[:n], -low[:n]])
    cones = [clarabel.NonnegativeConeT(len(limits))]
    if case.nu is not None:  # the zero cone, hence the equation, comes first
        order = np.r_[n, 0:n, n + 1 : len(limits)]
        rows, limits = rows[order], limits[order]
        cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(len(limits) - 1)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solver = clarabel.DefaultSolver(
        sp.csc_matrix((n_columns, n_columns)), cost, sp.csc_matrix(rows), limits, cones, settings
    )
    seconds, solution = timed(solver.solve)
    first = 0 if case.nu is None else 1
    return Solved(seconds, np.maximum(0.0, np.asarray(solution.z)[first : first + n]))


def _dual_form(case: Case) -> tuple[FloatArray, ...]:
    """Return matrix, bounds of the variables, cost and right-hand side of matrix z <= right.

    The dual of NuLPSVC minimises s over z with G z <= s and sum z = nu: s is the last variable, the
    equation the last row.
    """
    n, G = len(case.y), case.matrix()
    if case.nu is None:
        return G, np.zeros(n), np.ones(n), -np.ones(n), np.full(n, case.price)
    matrix = np.zeros((n + 1, n + 1))
    matrix[:n, :n], matrix[:n, n], matrix[n, :n] = G, -1.0, 1.0
    low, high = np.append(np.zeros(n), -np.inf), np.append(np.full(n, 1.0 / n), np.inf)
    cost, right = np.append(np.zeros(n), 1.0), np.append(np.zeros(n), case.nu)
    return matrix, low, high, cost, right


def objective(case: Case, alpha: FloatArray) -> float:
    """Recompute the primal objective at alpha >= 0 in float64, identically for all candidates.

    For NuLPSVC alpha is scaled to sum 1 and rho is optimal, a quantile of the margins. The diagonal
    of the kernel is set to k(x, x) = 1 rather than computed, since alpha may be as large as 1e8.
    """
    n, support = len(case.y), np.flatnonzero(alpha)
    if case.nu is not None:
        alpha = alpha / alpha.sum()
    margins = np.empty(n)
    signed = (case.y * alpha)[support]
    for start in range(0, n, BLOCK):
        rows = np.arange(start, min(start + BLOCK, n))
        block = rbf_kernel(case.X[rows], case.X[support], gamma=case.gamma)
        block[rows[:, None] == support] = 1.0 - case.shift
        margins[rows] = case.y[rows] * (block @ signed)
    if case.nu is None:
        return float(case.price * alpha.sum() + np.maximum(0.0, 1.0 - margins).sum())
    rho = np.sort(margins)[min(n - 1, int(np.ceil(case.nu * n * (1 - 1e-12))) - 1)]
    return float(np.maximum(0.0, rho - margins).mean() - case.nu * rho)
