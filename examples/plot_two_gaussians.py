r"""
Bayes rule for two Gaussian classes and learned classifiers
===========================================================

In example 1.1 of Smola et al. (2000) the two classes are normally distributed with the same
covariance :math:`\Sigma` and the means :math:`\mu_+` and :math:`\mu_-`,

.. math::

   p(x, y) = \frac{1}{2 (2 \pi)^{N/2} |\Sigma|^{1/2}} \;
   e^{-\frac12 (x - \mu_y)^\top \Sigma^{-1} (x - \mu_y)} .

(The book prints :math:`(2 \sigma)^{N/2}`, with which the density would not integrate to 1.) If
these parameters are known, the best possible rule predicts the class with the larger density. Its
boundary (1.9) is a straight line:

.. math::

   f(x) = (\mu_+ - \mu_-)^\top \Sigma^{-1} x
        - \tfrac12 (\mu_+^\top \Sigma^{-1} \mu_+ - \mu_-^\top \Sigma^{-1} \mu_-) .

The classifiers below are given samples only.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from widemargin import (
    LOOSVC,
    SVC,
    AdaBoostClassifier,
    LinearSVC,
    MaxMarginClassifier,
    PerceptronClassifier,
)

MEANS = np.array([[-1.0, -0.3], [1.0, 0.3]])  # of classes 0 and 1
COVARIANCE = np.array([[1.0, -0.6], [-0.6, 1.0]])
INVERSE = np.linalg.inv(COVARIANCE)
NORMAL = INVERSE @ (MEANS[1] - MEANS[0])
OFFSET = -0.5 * (MEANS[1] @ INVERSE @ MEANS[1] - MEANS[0] @ INVERSE @ MEANS[0])


def density(X, y):
    """Return p(x, y) of (1.6), corrected."""
    away = X - MEANS[y]
    exponent = -0.5 * np.einsum("...i,ij,...j", away, INVERSE, away)
    return np.exp(exponent) / (2 * (2 * np.pi) * np.sqrt(np.linalg.det(COVARIANCE)))


def bayes(X):
    """Return f(x) of (1.9), which is also the logarithm of the ratio of the densities."""
    return X @ NORMAL + OFFSET


def draw(n, rng):
    """Return n samples and their classes."""
    y = rng.integers(0, 2, n)
    return rng.multivariate_normal([0, 0], COVARIANCE, n) + MEANS[y], y


distance = np.sqrt((MEANS[1] - MEANS[0]) @ INVERSE @ (MEANS[1] - MEANS[0]))
best = norm.cdf(-distance / 2)
side = np.linspace(-8, 8, 400)
lattice = np.dstack(np.meshgrid(side, side))
total = sum(density(lattice, y).sum() for y in (0, 1)) * (side[1] - side[0]) ** 2
print(f"the density integrates to {total:.6f}; no rule has an error below {best:.4f}")

# %%
# Sixty samples
# -------------
# The dashed line is the Bayes rule, the solid one the boundary learned from sixty samples; the
# colour is the difference between the two densities. The numbers are error rates, computed from the
# densities. The classes overlap, so the perceptron does not converge: it is shown after a hundred
# passes.

MACHINES = {
    "LinearSVC": LinearSVC(loss="hinge"),
    "MaxMarginClassifier(norm=1)": MaxMarginClassifier(norm=1),
    "PerceptronClassifier": PerceptronClassifier(max_iter=100),
    'SVC(kernel="rbf")': SVC(gamma=0.25),
    "LOOSVC": LOOSVC(gamma=0.25),
    "AdaBoostClassifier": AdaBoostClassifier(50),
}
COLOURS = ["#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00"]
warnings.simplefilter("ignore", ConvergenceWarning)  # of the perceptron, see above

X, y = draw(60, np.random.default_rng(3))
side = np.linspace(-4, 4, 300)
lattice = np.dstack(np.meshgrid(side, side)).reshape(-1, 2)
ratio = bayes(lattice).reshape(300, 300)
difference = (density(lattice, 1) - density(lattice, 0)).reshape(300, 300)

figure, panels = plt.subplots(
    2, 3, figsize=(11, 7.4), sharex=True, sharey=True, layout="constrained"
)
for axes, (name, machine) in zip(panels.flat, MACHINES.items(), strict=True):
    machine.fit(X, y)
    axes.imshow(difference, origin="lower", extent=(-4, 4, -4, 4), cmap="PuOr", alpha=0.6,
                vmin=-difference.max(), vmax=difference.max())  # fmt: skip
    for label, marker, colour in ((0, "o", "#E66101"), (1, "^", "#5E3C99")):
        axes.plot(*X[y == label].T, marker, color=colour, markeredgecolor="white", markersize=7)
    axes.contour(side, side, ratio, levels=[0], colors="0.3", linestyles="--")
    learnt = machine.decision_function(lattice).reshape(300, 300)
    axes.contour(side, side, learnt, levels=[0], colors="black", linewidths=2)
    wrong = (machine.predict(lattice) == 1) != (bayes(lattice) > 0)
    more = np.abs(difference.ravel())[wrong].sum() * (side[1] - side[0]) ** 2
    axes.set_title(f"{name}: {best + more:.1%}")
    axes.set_aspect("equal")
figure.suptitle(f"error rates; Bayes rule: {best:.1%}")
plt.show()

# %%
# More samples
# ------------
# The excess error of a rule over the Bayes rule can be computed without test labels: it is the
# integral of :math:`|p(x, 1) - p(x, 0)|` over the points where the two disagree. The curves are
# means over six draws.

test = draw(40_000, np.random.default_rng(0))[0]
larger = 1 / (1 + np.exp(-np.abs(bayes(test))))  # probability of the more likely class
loss = 2 * larger - 1
SIZES = [20, 50, 100, 200, 500, 1000]


def lost(machine, n, seed):
    """Return the excess error over the Bayes rule of a classifier trained on n samples."""
    X, y = draw(n, np.random.default_rng((seed, n)))
    predicted = machine.fit(X, y).predict(test)
    return float((loss * ((predicted == 1) != (bayes(test) > 0))).mean())


figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
markers = "osvD^P"
for (name, machine), colour, marker in zip(MACHINES.items(), COLOURS, markers, strict=True):
    mean = np.array([np.mean([lost(machine, n, seed) for seed in range(6)]) for n in SIZES])
    axes.loglog(SIZES, mean, marker=marker, color=colour, label=name)
    print(f"{name:28}", dict(zip(SIZES, mean.round(4).tolist(), strict=True)))
axes.set(xlabel="number of training samples", ylabel="excess error over the Bayes rule")
axes.set_xticks(SIZES, [str(n) for n in SIZES])
axes.set_xticks([], minor=True)
axes.grid(alpha=0.3, which="both")
axes.legend(loc="lower left", fontsize=9)
plt.show()

# %%
# From 100 samples on, ``LinearSVC`` and ``MaxMarginClassifier``, whose boundaries are straight
# lines like that of the Bayes rule, come closest. Classifiers with a Gaussian kernel can represent
# any curve, and need a few times as many samples. Stumps can only split along the axes, and
# approximate the slanted line by steps. The perceptron hardly improves once the classes are not
# separable: the point at which it stops is arbitrary.
