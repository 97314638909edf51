r"""Gaussian-process regression: posterior mean, log evidence and certificate.

Targets are :math:`y_i = m + f(x_i) + e_i`. The function f has a Gaussian prior with covariance
:math:`a\, k(x, x')`, the constant mean m has the prior variance b, and the noise :math:`e_i` of
each of the w copies of a sample has the variance s. With

.. math:: \tau_i = \frac{s}{a w_i}, \qquad C = K + \mathrm{diag}(\tau), \qquad b_1 = b / a,

the posterior mean is :math:`m + \sum_j \beta_j k(x, x_j)`, where

.. math:: C \beta = y - m 1, \qquad m = b_1 1'\beta .

Hence :math:`\beta = P y`, where :math:`P = C^{-1} - z z' / q`, :math:`z = C^{-1} 1` and
:math:`q = 1'z + 1/b_1` (P = C^-1 and m = 0 if b = 0). For :math:`b = \infty`, a flat prior, m is
the generalised least-squares mean and :math:`1'\beta = 0`.

**Primal and dual.** The pair (beta, m) minimises minus the log posterior density,

.. math::

    E(\beta, m) = \frac1a \Bigl[ \tfrac12 \beta'K\beta
    + \tfrac12 \sum_i \frac{(y_i - m - (K\beta)_i)^2}{\tau_i} + \frac{m^2}{2 b_1} \Bigr] ,

with the dual (for a flat prior subject to :math:`1'\beta = 0`, without its last term)

.. math::

    D(\beta) = \frac1a \Bigl[ \beta'y - \tfrac12 \beta'K\beta - \tfrac12 \sum_i \tau_i \beta_i^2
    - \tfrac12 b_1 (1'\beta)^2 \Bigr] .

Both are y'Py / (2 a) at the solution, and enclosed with all rounding errors in
:mod:`widemargin.problems.gp_regression.bounds`.

**Evidence.** A sample of weight w stands for w observations of the same target, so that

.. math::

    \log p(y) = -\tfrac12 \Bigl[ \frac{y'Py}{a} + \log\det(a C) + W \log 2\pi
    + \sum_i \bigl((w_i - 1) \log s + \log w_i\bigr) + c \Bigr] , \qquad W = \sum_i w_i,

with c = 0 without a mean, :math:`\log(b\, q / a)` for a finite b, and
:math:`\log(q / a) - \log 2\pi` for a flat prior: the restricted likelihood, which is the limit of
:math:`\log p(y) + \tfrac12 \log(2\pi b)`.

Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, sections 2.2, 2.7 and 5.4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.certificate import USEFUL_GAP, Bracket, Certificate, relative_gap
from widemargin.kernels import Rows
from widemargin.problems.gp_regression.bounds import bracket

LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class GPRegression:
    """Regression problem with given hyperparameters.

    Attributes
    ----------
    target : ndarray of shape (n,)
        Targets y.
    weight : ndarray of shape (n,)
        Sample weights w, positive.
    amplitude, noise : float
        Prior variance a of the function, as a factor of the kernel, and noise variance s; positive.
    mean_variance : float
        Prior variance b of the constant mean, from 0 to infinity.
    """

    target: FloatArray
    weight: FloatArray
    amplitude: float
    noise: float
    mean_variance: float

    @property
    def ridge(self) -> FloatArray:
        """Noise variances of the samples in units of the amplitude, tau."""
        return np.asarray(self.noise / (self.amplitude * self.weight))

    @property
    def has_mean(self) -> bool:
        """Whether there is a constant mean."""
        return self.mean_variance > 0

    @property
    def mean_precision(self) -> float:
        """Prior precision of the constant mean in units of the amplitude, 1 / b_1."""
        return self.amplitude / self.mean_variance if self.has_mean else np.inf

    def log_evidence(self, quadratic: float, log_determinant: float, precision: float) -> float:
        """Return log p(y), given y'Py, log det C and q."""
        weight, n = self.weight, len(self.weight)
        copies = float(weight.sum()) - n
        total = quadratic / self.amplitude + log_determinant + n * np.log(self.amplitude)
        total += copies * np.log(self.noise) + float(np.log(weight).sum()) + (n + copies) * LOG_2PI
        if self.has_mean:
            flat = np.isinf(self.mean_variance)
            total += np.log(precision / self.amplitude)
            total -= LOG_2PI if flat else -np.log(self.mean_variance)
        return -0.5 * float(total)

    def certificate(
        self,
        coefficients: FloatArray,
        mean: float,
        rows: Rows,
        values: FloatArray,
        *,
        tol: float,
        blur: float,
    ) -> Certificate:
        """Return the certificate: bounds on the minimum of E, and the residual of the equations.

        `values` are K beta in float64, `blur` is the relative error of the weights.
        """

        def evaluate(precise: bool) -> Bracket:
            return bracket(self, coefficients, mean, rows, values, blur=blur, precise=precise)

        found = evaluate(False)
        # More digits cost as much as many fits; they only matter if nothing is proved without.
        if not relative_gap(found.primal, found.dual) <= USEFUL_GAP:
            more = evaluate(True)
            found = Bracket(
                min(found.primal, more.primal),
                max(found.dual, more.dual),
                min(found.rounding, more.rounding),
            )
        residual = self.residual(coefficients, mean, values)
        return Certificate.from_objectives(
            "Gaussian process regression",
            primal=found.primal,
            dual=found.dual,
            kkt_violation=residual,
            converged=residual <= tol,
            n_iter=1,
            kernel_evaluations=rows.evaluations,
            rounding=found.rounding,
        )

    def residual(self, coefficients: FloatArray, mean: float, values: FloatArray) -> float:
        """Return the largest residual of the linear system, relative to the largest target."""
        left = self.target - mean - values - self.ridge * coefficients
        size = float(np.abs(self.target - mean).max())
        return float(np.abs(left).max()) / (size or 1.0)
