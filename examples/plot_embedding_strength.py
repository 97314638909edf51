r"""
Embedding strength: the influence of a training sample
======================================================

In the mean-field theory of Gaussian processes, as in a support vector machine, the latent function
is a sum over the training samples,

.. math:: f(x) = \sum_i y_i \alpha_i k(x, x_i),

and the *embedding strength* :math:`\alpha_i` measures the influence of sample i. In the mean-field
theory it has a formula, (8.40) of Opper and Winther (2000):

.. math::

    \alpha = \frac{F(z)}{\sqrt{\lambda}}, \qquad
    F(z) = \frac{(1 - 2\kappa) D(z)}{\kappa + (1 - 2\kappa) \Phi(z)},

where z is the prediction of the *other* samples for this one, in units of the standard deviation
:math:`\sqrt{\lambda}` and positive if it agrees with the label. D is the normal density,
:math:`\Phi` its distribution function and :math:`\kappa`, the parameter ``flip_noise``, the
probability that a label is wrong, whatever the position of its sample.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from widemargin import SVC, MeanFieldGPClassifier

# %%
# The formula
# -----------
# Without flip noise, the strength of a sample increases without limit the more the others
# contradict its label. With flip noise it has a maximum (dot): beyond it the label is taken to be
# wrong, and the strength decreases again. A support vector machine does neither: with linear slack
# the samples that are hardest to predict all have the coefficient C. (After Fig. 8.1 of Opper and
# Winther, 2000.)

FLIPS = (0.0, 0.001, 0.01, 0.1)
STYLES = dict(zip(FLIPS, ("-", "--", "-.", ":"), strict=True))
COLOURS = dict(zip(FLIPS, ("black", "#0072B2", "#009E73", "#D55E00"), strict=True))


def strength(z, flips):
    """Return F(z) by its formula, for z at which the distribution function does not underflow."""
    return (1 - 2 * flips) * norm.pdf(z) / (flips + (1 - 2 * flips) * norm.cdf(z))


z = np.linspace(-6, 3, 400)
figure, axes = plt.subplots(figsize=(7.6, 4.6), layout="constrained")
for flips in FLIPS:
    curve = strength(z, flips)
    look = {"color": COLOURS[flips], "linestyle": STYLES[flips], "linewidth": 2}
    axes.plot(z, curve, label=f"{flips:g}", **look)
    if flips:
        top = int(np.argmax(curve))
        axes.plot(z[top], curve[top], "o", color=COLOURS[flips], markersize=6)
        print(f"flip noise {flips:g}: largest strength {curve[top]:.2f}, at z = {z[top]:.2f}")
axes.axvline(0, color="0.8", linewidth=1, zorder=0)
axes.set(
    xlabel="z: prediction of the other samples (positive: agrees with the label)",
    ylabel="embedding strength F(z)",
    xlim=(-6, 3),
    ylim=(0, 6),
)
axes.legend(title="flip noise κ")
axes.grid(alpha=0.3)
plt.show()

# %%
# Strengths of fitted models
# --------------------------
# The data are two classes on a line, with two wrongly labelled crosses among the dots. All models
# have the same kernel. The input noise v of the Gaussian process corresponds to quadratic slack
# with ``C = 1 / (2 v)``; the support vector machine shown has linear slack with ``C = 1``. The
# vertical scales differ.

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-3, -0.2, 30), rng.uniform(0.2, 3, 30), [-2.1, -1.9]])
y = np.repeat(["dot", "cross"], [30, 32])
X, v = x[:, None], 0.1
hinge = SVC(C=1.0, gamma=1.0, fit_intercept=False).fit(X, y)
fits = {
    flips: MeanFieldGPClassifier(gamma=1.0, input_noise=v, flip_noise=flips, mean_variance=0).fit(
        X, y
    )
    for flips in (0.0, 0.1)
}
alpha_hinge = np.zeros(len(x))
alpha_hinge[hinge.support_] = np.abs(hinge.dual_coef_[0])
strengths = {
    "mean field, no flip noise": fits[0.0].alpha_,
    "mean field, flip noise 0.1": fits[0.1].alpha_,
    "support vector machine, linear slack": alpha_hinge,
}
order = np.argsort(x)
wrong = np.arange(len(x)) >= len(x) - 2
figure, panels = plt.subplots(3, 1, figsize=(8, 6.4), layout="constrained", sharex=True)
for axes, (name, alpha) in zip(panels, strengths.items(), strict=True):
    for label, colour, marker in (("dot", "#0072B2", "o"), ("cross", "#D55E00", "X")):
        mine = y == label
        axes.vlines(x[mine], 0, alpha[mine], color=colour, linewidth=1, alpha=0.6)
        axes.scatter(x[mine], alpha[mine], color=colour, marker=marker, s=26, label=label, zorder=3)
    rings = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.2}
    axes.scatter(x[wrong], alpha[wrong], s=130, label="wrong label", **rings)
    axes.set(title=name, ylabel="α", ylim=(0, 1.22 * alpha.max()))
    axes.grid(alpha=0.3)
panels[0].legend(ncols=3, loc="upper right")
panels[-1].set_xlabel("x")
plt.show()

# %%
# Without flip noise the two wrong labels have by far the largest strengths. Their neighbours
# compensate for them, and the latent function between them is close to zero. With flip noise all
# these effects are small. Where ``omega_``, the quantity of (8.42), is negative, a sample is
# explained away: the more certain the prediction of the others is, the smaller its strength. The
# problem is then no longer convex, so there is no certificate; the fit reports the residual of the
# equations instead.

for flips, model in fits.items():
    explained = int(np.sum(model.omega_ < 0))
    print(
        f"flip noise {flips:g}: leave-one-out error {model.loo_error_:.3f}, "
        f"{explained} samples explained away, residual {model.residual_:.0e}"
    )
    mean, _ = model.predict_latent([[-2.0]])
    print(f"    latent mean between the two wrong labels: {mean[0]:+.2f} for {model.classes_[1]}")
