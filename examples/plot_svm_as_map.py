r"""
Support vector machine as the mode of a Gaussian process
========================================================

Give a latent function f a Gaussian prior with covariance k, add noise :math:`\xi`, and let the
label be the sign of the sum. The most probable f and :math:`\xi` given the labels are both zero,
since an arbitrarily small value of the right sign explains any label. If a margin of 1 is required
instead of the sign alone, the mode is a support vector machine (section 8.4 of Opper and Winther
2000):

.. math::

    \min_{f, \xi} \; \tfrac12 f' K^{-1} f - \sum_i \log p(\xi_i)
    \quad\text{subject to}\quad y_i (f_i + \xi_i) \ge 1 .

* **Gaussian noise** of variance v costs :math:`\xi^2 / (2v)`: quadratic slack,
  ``SVC(loss="squared_hinge", C=1 / (2 * v))``.
* **Laplace noise** :math:`p(\xi) = \tfrac{C}{2} e^{-C|\xi|}` costs :math:`C |\xi|`: linear slack,
  ``SVC(C=C)``.

The intercept is the constant mean of the process; here it is zero, ``fit_intercept=False``.

With the margin the likelihoods of the two labels no longer sum to one, so the mode does not provide
probabilities. :class:`~widemargin.MeanFieldGPClassifier` does: it has the same kernel and the same
noise, and averages over all f instead of taking the most probable one.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, minimize
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, MeanFieldGPClassifier

X, label = make_moons(80, noise=0.3, random_state=3)
X = StandardScaler().fit_transform(X)
y = np.where(label == 1, 1.0, -1.0)
GAMMA, V, C = 0.8, 0.5, 1.0
K = np.exp(-GAMMA * ((X[:, None] - X[None, :]) ** 2).sum(axis=2))

# %%
# Mode by a general-purpose optimiser
# -----------------------------------
# scipy minimises the negative logarithm of the posterior over f and :math:`\xi` as stated above,
# without dual variables or support vectors. Noise is only ever needed in the direction of the
# label, so :math:`\xi` is measured in that direction, and the absolute value becomes a bound,
# :math:`\xi \ge 0`. The function values are written as f = L u with K = L L', which makes the prior
# term u'u / 2.

n = len(y)
L = np.linalg.cholesky(K + 1e-12 * np.eye(n))  # 1e-12: positive definite despite rounding


def negative_log_posterior(point, noise):
    """Return the objective and its gradient; `point` contains u and the noise."""
    u, xi = point[:n], point[n:]
    if noise == "Gaussian":
        return 0.5 * u @ u + xi @ xi / (2 * V), np.concatenate([u, xi / V])
    return 0.5 * u @ u + C * xi.sum(), np.concatenate([u, np.full(n, C)])


def find_mode(noise):
    """Minimise subject to y (f + xi) >= 1; return f at the samples and the minimum."""
    margin = LinearConstraint(np.hstack([y[:, None] * L, np.eye(n)]), lb=1.0)
    start = np.concatenate([np.zeros(n), np.full(n, 2.0)])
    bounds = Bounds(np.concatenate([np.full(n, -np.inf), np.zeros(n)]), np.inf)
    curvature = np.concatenate([np.ones(n), np.full(n, 1 / V if noise == "Gaussian" else 0.0)])
    found = minimize(
        negative_log_posterior,
        start,
        args=(noise,),
        jac=True,
        hess=lambda point, noise: np.diag(curvature),
        method="trust-constr",
        bounds=bounds,
        constraints=margin,
        options={"gtol": 1e-9, "xtol": 1e-13, "barrier_tol": 1e-11, "maxiter": 3000},
    )
    return L @ found.x[:n], found.fun


machines = {
    "Gaussian": SVC(
        loss="squared_hinge", C=1 / (2 * V), gamma=GAMMA, fit_intercept=False, tol=1e-9
    ),
    "Laplace": SVC(C=C, gamma=GAMMA, fit_intercept=False, tol=1e-9),
}
TOLERANCE = 1e-5
for noise, machine in machines.items():
    machine.fit(X, y)
    mode, objective = find_mode(noise)
    apart = np.abs(machine.decision_function(X) - mode).max()
    certificate = machine.certificate_
    print(f"{noise} noise: largest difference of f between SVC and the mode {apart:.0e}")
    print(f"    minimum by scipy {objective:.8f}, of SVC {certificate.primal:.8f}")
    assert apart <= TOLERANCE
    assert abs(objective - certificate.primal) <= TOLERANCE * objective
print(f"both within {TOLERANCE:g}")

# %%
# Mode and posterior mean
# -----------------------
# The figure shows four models with the same kernel: the two modes, and the posterior means of the
# naive mean field and of TAP for the Gaussian noise of the first. The size of a sample is its
# embedding strength :math:`\alpha`. Samples with more than a thousandth of the largest strength are
# counted as contributing: with linear slack fewer than half of them, in the posterior means all.
# The boundaries hardly differ.

models = {
    "mode, Gaussian noise\n= SVC, quadratic slack": machines["Gaussian"],
    "mode, Laplace noise\n= SVC, linear slack": machines["Laplace"],
    "mean, Gaussian noise\nnaive mean field": MeanFieldGPClassifier(
        gamma=GAMMA, input_noise=V, mean_variance=0
    ).fit(X, y),
    "mean, Gaussian noise\nTAP": MeanFieldGPClassifier(
        gamma=GAMMA, input_noise=V, mean_variance=0, inference="tap"
    ).fit(X, y),
}


def latent(model, points):
    """Return f of a support vector machine, or the posterior mean."""
    if isinstance(model, SVC):
        return model.decision_function(points)
    return model.predict_latent(points)[0]


def strengths(model):
    """Return alpha of every sample."""
    if not isinstance(model, SVC):
        return model.alpha_
    alpha = np.zeros(n)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    return alpha


low, high = X.min(axis=0) - 0.4, X.max(axis=0) + 0.4
across, up = np.meshgrid(*(np.linspace(low[j], high[j], 140) for j in (0, 1)))
points = np.column_stack([across.ravel(), up.ravel()])
levels = np.linspace(-1.5, 1.5, 13)
figure, panels = plt.subplots(2, 2, figsize=(8.6, 7.4), layout="constrained")
for axes, (name, model) in zip(panels.flat, models.items(), strict=True):
    values = latent(model, points).reshape(across.shape)
    shades = axes.contourf(across, up, values, levels, cmap="PuOr", extend="both", alpha=0.8)
    axes.contour(across, up, values, [0], colors="black", linewidths=2)
    alpha = strengths(model)
    for sign, marker, colour in ((-1, "o", "white"), (1, "^", "black")):
        mine, edge = y == sign, "black" if sign < 0 else "white"
        size = 8 + 90 * alpha[mine] / alpha.max()
        axes.scatter(*X[mine].T, s=size, c=colour, edgecolors=edge, linewidths=0.7, marker=marker)
    heard = int(np.sum(alpha > 1e-3 * alpha.max()))
    axes.set(title=name, xticks=[], yticks=[], aspect="equal")
    axes.set_xlabel(f"{heard} of {n} samples contribute")
figure.colorbar(shades, ax=panels, label="latent function", shrink=0.6)
plt.show()

# %%
# Predictions agree nearly everywhere, as the chapter states:

reference = np.sign(latent(models["mean, Gaussian noise\nTAP"], points))
for name, model in models.items():
    same = np.mean(np.sign(latent(model, points)) == reference)
    print(f"{name.replace(chr(10), ', '):55} agrees with TAP on {same:.1%} of the square")
