r"""
AdaBoost, AdaBoost_Reg and LPBoost: three distributions of margins
==================================================================

Boosting combines decision stumps, which compare a single feature with a threshold, to a vote
:math:`f = \sum_t \alpha_t g_t` with :math:`\sum_t \alpha_t = 1`. The margins :math:`y_i f(x_i)` of
the training samples lie between -1 and 1. Three ways to choose the coefficients are compared on
noisy data, a tenth of whose labels are flipped:

- **AdaBoost** (Smola et al. 2000, Table 1.2) increases all margins, those of wrong labels as well;
- **AdaBoost_Reg** (Rätsch, Onoda and Müller 2001) demands less of samples that remain difficult;
- **LPBoost** (Demiriz, Bennett and Shawe-Taylor 2002) maximises the soft margin

.. math:: \rho - \frac{1}{\nu m} \sum_i \max(0, \rho - y_i f(x_i)) .

The last is a linear program with a certificate: no vote of any stumps has a larger soft margin than
the one that was found, up to a millionth.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import AdaBoostClassifier, LPBoostClassifier

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.45"


def two_clouds(rng, n):
    """Draw n samples of two classes around opposite corners of a cube."""
    y = rng.choice([-1, 1], n)
    return rng.standard_normal((n, 20)) + 2 / np.sqrt(20) * y[:, None], y


rng = np.random.default_rng(0)
X, y = two_clouds(rng, 300)
X_test, y_test = two_clouds(rng, 5_000)
flipped = rng.random(len(y)) < 0.1
noisy = np.where(flipped, -y, y)

models = {
    "AdaBoost": AdaBoostClassifier(n_rounds=200),
    "AdaBoost_Reg, reg = 1000": AdaBoostClassifier(n_rounds=200, reg=1e3),
    r"LPBoost, $\nu$ = 0.05": LPBoostClassifier(nu=0.05),
    r"LPBoost, $\nu$ = 0.3": LPBoostClassifier(nu=0.3),
}
for model in models.values():
    model.fit(X, noisy)

# %%
# Margins of correct and of flipped labels
# ----------------------------------------
# A small :math:`\nu` leaves LPBoost little choice: nearly all samples have exactly the margin
# :math:`\rho` (dotted). With a :math:`\nu` above the fraction of wrong labels, many of them are
# given up, and the others gain a larger margin.

figure, panels = plt.subplots(1, 4, figsize=(12, 3.6), sharey=True, layout="constrained")
for axes, (name, model) in zip(panels, models.items(), strict=True):
    for rows, colour, style, what in (
        (~flipped, BLUE, "-", "correct label"),
        (flipped, ORANGE, "--", "flipped label"),
    ):
        ordered = np.concatenate([[-1], np.sort(model.margins_[rows]), [1]])
        share = np.concatenate([[0], np.arange(1, rows.sum() + 1) / rows.sum(), [1]])
        axes.step(ordered, share, where="post", color=colour, ls=style, lw=2.2, label=what)
    if hasattr(model, "rho_"):
        axes.axvline(model.rho_, color=GREY, lw=1.2, ls=":")
    error = 100 * np.mean(model.predict(X_test) != y_test)
    axes.set_title(f"{name}\ntest error {error:.1f} %", fontsize=10)
    axes.set(xlim=(-0.35, 0.55), ylim=(0, 1.02), xlabel=r"margin of the given label")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("fraction of samples with a margin up to that")
panels[0].legend(frameon=False, loc="upper left")
plt.show()

# %%
# Objectives and the upper bound
# ------------------------------
# At most a fraction :math:`\nu` of the samples has a margin below :math:`\rho`. The upper bound
# holds for every vote of stumps, so that AdaBoost can be measured by it.


def soft_margin(margins, nu):
    """Return the soft margin at the best rho, which is one of the margins."""
    return max(rho - np.maximum(0, rho - margins).mean() / nu for rho in margins)


for nu in (0.05, 0.3):
    best = next(m for m in models.values() if getattr(m, "nu", None) == nu)
    below = (best.margins_ < best.rho_ - 1e-6).mean()
    print(f"nu = {nu}: {below:.3f} of the samples are below rho = {best.rho_:.3f}")
    print(f"   no vote of stumps has a soft margin above {best.margin_limit_:.5f}")
    for name, model in models.items():
        print(f"   {name:25} {soft_margin(model.margins_, nu):8.5f}")
