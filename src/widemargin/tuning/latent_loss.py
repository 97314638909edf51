r"""Gradients of the leave-one-out log-loss and the evidence of a Gaussian-process classifier.

The problem is binary and its mean-field equations are solved; the symbols are those of
:mod:`widemargin.problems.mean_field`. Both losses are in nats per sample, with the total weight m
as the number of samples.

**Evidence**, :math:`J = -\frac1m \log p(y)`. The solution is a stationary point of the approximate
evidence with respect to all variables that are solved for, at any flip noise, so only the explicit
dependence on the parameters contributes to the gradient. For the naive theory the evidence is

.. math::

    \log p(y) = \tfrac12 A'KA - \tfrac12 \sum_i w_i c_i \alpha_i^2
    + \sum_i w_i \bigl[\log Z(z_i) - z_i \sqrt{\lambda_i}\, \alpha_i \bigr],

stationary in z and :math:`\alpha`. Its derivative is :math:`\tfrac12 AA'` with respect to K,
:math:`-\tfrac12 w (\alpha^2 + z\alpha/\sqrt\lambda)` with respect to c (which is also the diagonal
of K), the second term of that with respect to v, and the derivative of log Z with respect to
:math:`\kappa`. For TAP the evidence is the free energy of expectation propagation, stationary in
its factors and its cavities (Minka 2001): the derivative with respect to K is
:math:`\tfrac12 (AA' - R)`, :math:`R = (K + \mathrm{diag}(1/n))^{-1}`, and those with respect to v
and :math:`\kappa` are as before.

**Leave-one-out** (Opper and Winther 2000, (8.41), without the division by n). Let
:math:`\sigma = \min(1, w)/w` be the fraction of a sample's weight that is left out. Its field and
variance are then

.. math::

    m_l = f_l - \sigma_l A_l u_l, \qquad u_l = \frac{S_l}{1 - \sigma_l n_l S_l}, \qquad
    t_l = \frac{y_l m_l}{\sqrt{u_l + v}},

and J is the mean of :math:`-\log Z(s\, t_l)`, the log-loss of the leave-one-out probabilities. The
scale s is 1, or for a calibrated model that of :func:`~widemargin.solvers.mean_field.fit_scale`,
whose penalty on log s is then a part of J: a model whose probabilities need a large factor has too
narrow a kernel or too much noise. As s minimises J, it adds nothing to the derivatives. Those of t
with respect to the parameters follow from :mod:`widemargin.tuning.latent_response`.

A calibrated model of the naive theory may standardise by the prior variance instead, if that
predicts the left-out labels better. Tuning always uses u. With little noise, linear response
underestimates fields of the wrong sign, and u, which increases with them, compensates for it.
Compared with refits (banana, 400 samples, gamma 3, v 0.001) J is 0.286 instead of 0.294 as defined
here, and would be 0.210 instead of 0.261 with the prior variance. Gradient descent would exploit
such an error and drive the noise to 0.
"""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin.problems.mean_field import MeanField
from widemargin.solvers.mean_field import MeanFieldResult, fit_scale, scale_cost
from widemargin.tuning.latent_response import (
    LatentGradient,
    Response,
    SolutionGradient,
    flip_slopes,
    shrinkage,
)


def evidence_loss(
    K: FloatArray, result: MeanFieldResult, *, self_consistent: bool
) -> LatentGradient:
    """Compute minus the log evidence per sample and its gradient.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Kernel matrix.
    result : MeanFieldResult
        The mean-field solution.
    self_consistent : bool
        Whether it is the TAP solution, else that of the naive theory.
    """
    problem, A = result.problem, result.coefficients
    w, scale, rows = problem.weight, problem.scale, float(problem.weight.sum())
    alpha = np.abs(A) / w
    by_noise = -0.5 * w * result.z * alpha / scale
    by_flips = w @ flip_slopes(problem.likelihood, result.z)[0]
    if self_consistent:
        precision = result.precision()
        W = -0.5 * shrinkage(K, precision) * precision
    else:
        W = np.diag(by_noise - 0.5 * w * alpha**2)
    return LatentGradient(
        -result.log_evidence / rows,
        -0.5 * A / rows,
        A,
        np.triu(W).T / -rows,
        np.ones(len(A), dtype=bool),
        float(by_noise.sum()) / -rows,
        float(by_flips) / -rows,
    )


def left_out_loss(
    K: FloatArray, result: MeanFieldResult, *, self_consistent: bool, calibrate: bool
) -> LatentGradient:
    """Compute the leave-one-out log-loss and its gradient; parameters as for `evidence_loss`.

    With `calibrate`, the fields are scaled, and the loss includes the cost of the scale.
    """
    response = Response(K, result, self_consistent=self_consistent)
    problem, A = result.problem, result.coefficients
    share = np.minimum(1.0, problem.weight) / problem.weight
    left = 1 - share * (1 - response.kept)
    cavity = response.variance / left
    if float(cavity.min()) + problem.input_noise <= 0:
        raise FloatingPointError("the variance of a left-out row is negative")
    mean = result.field - share * A * cavity
    loss, by_mean, by_variance, by_flips = _log_loss(problem, mean, cavity, calibrate)
    by_cavity = by_variance - share * A * by_mean
    by = SolutionGradient(
        mean=by_mean,
        coefficients=-share * cavity * by_mean,
        precision=by_cavity * share * cavity**2,
        variance=by_cavity / left**2,
        input_noise=float(by_variance.sum()),
        flip_noise=by_flips,
    )
    return response.gradient(loss, by)


def _log_loss(
    problem: MeanField, mean: FloatArray, variance: FloatArray, calibrate: bool
) -> tuple[float, FloatArray, FloatArray, float]:
    """Return the loss as a function of t = y mean / sqrt(variance + v), and its derivatives.

    The derivatives are with respect to the means, the variances and the flip noise.
    """
    spread = variance + problem.input_noise
    t = problem.label * mean / np.sqrt(spread)
    weight, likelihood = problem.weight, problem.likelihood
    share = weight / weight.sum()
    s = fit_scale(t, weight, likelihood) if calibrate else 1.0
    loss = -float(share @ likelihood.log_probability(s * t)) + scale_cost(s) / weight.sum()
    by_t = -share * s * likelihood.strength(s * t)
    by_flips = -float(share @ flip_slopes(likelihood, s * t)[0])
    by_mean = by_t * problem.label / np.sqrt(spread)
    return loss, by_mean, -0.5 * by_t * t / spread, by_flips
