r"""
AdaBoost increases the margins of the training samples
======================================================

The test error of AdaBoost continues to fall after its training error has become zero. Smola et al.
(2000, section 1.4) explain this by the **margins** of the samples, which boosting increases:

.. math:: \rho_i = y_i \frac{\sum_t \alpha_t g_t(x_i)}{\sum_t \alpha_t} \in [-1, 1].

A sample is classified correctly as soon as its margin is positive, but the margin can still grow.
In this example, decision stumps, which compare a single feature with a threshold, are boosted on
two Gaussian clouds in twenty dimensions (the "twonorm" data of the literature: the Bayes error is
2.3 %, and no single feature is very informative).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import GridSearchCV

from widemargin import AdaBoostClassifier, bounds

ROUNDS = 1000
SHOWN = (5, 20, 100, 1000)
COLOURS = dict(zip(SHOWN, plt.cm.viridis([0.9, 0.62, 0.32, 0.02]), strict=True))
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.45"


def two_clouds(rng, n):
    """Draw n samples of two classes around opposite corners of a cube."""
    y = rng.choice([-1, 1], n)
    return rng.standard_normal((n, 20)) + 2 / np.sqrt(20) * y[:, None], y


rng = np.random.default_rng(0)
X, y = two_clouds(rng, 200)
X_test, y_test = two_clouds(rng, 5_000)
model = AdaBoostClassifier(n_rounds=ROUNDS).fit(X, y)

# %%
# Margins and errors over the rounds
# ----------------------------------
# Left: the fraction of training samples with a margin up to :math:`\rho`, after different numbers
# of rounds. Right: training and test error. The test error falls further in the grey region, where
# the training error is zero; the dots mark the numbers of rounds shown on the left.

margins = np.array(list(model.staged_margins(X, y)))
test_margins = np.array(list(model.staged_margins(X_test, y_test)))
training_error = 100 * (margins <= 0).mean(axis=1)
test_error = 100 * (test_margins <= 0).mean(axis=1)
last_wrong = int(np.flatnonzero(training_error)[-1]) + 1  # last round with a training error


def draw_distribution(axes):
    """Draw the cumulative distribution of the margins after the rounds in SHOWN."""
    share = np.arange(1, len(y) + 1) / len(y)
    for T in SHOWN:
        axes.step(np.sort(margins[T - 1]), share, where="post", color=COLOURS[T], lw=2.2)
        axes.plot([], [], color=COLOURS[T], lw=2.2, label=f"{T} rounds")
    axes.axvline(0, color=GREY, lw=0.8, ls=":")
    axes.set(xlim=(-0.7, 1), ylim=(0, 1.02), xlabel=r"margin $\rho$")
    axes.set_ylabel(r"fraction of training samples with a margin up to $\rho$")
    axes.legend(frameon=False, loc="upper left")


def draw_errors(axes):
    """Draw both errors over the rounds, and mark the rounds in SHOWN."""
    rounds = np.arange(1, ROUNDS + 1)
    axes.axvspan(last_wrong, ROUNDS, color="0.94", lw=0)
    axes.text(last_wrong * 1.15, 33, "training error is zero", color=GREY, va="center")
    axes.semilogx(rounds, test_error, color=ORANGE, lw=2)
    axes.semilogx(rounds, training_error, color=BLUE, lw=2, ls="--")
    for T in SHOWN:
        marker = {"ms": 9, "mfc": COLOURS[T], "mec": "white", "zorder": 3, "clip_on": False}
        axes.plot(T, test_error[T - 1], "o", **marker)
    axes.text(5.6, 22, "test", color=ORANGE, fontweight="bold")
    axes.text(1.5, 13, "training", color=BLUE, fontweight="bold")
    axes.set(xlim=(1, ROUNDS), ylim=(-0.5, 36), xlabel="rounds", ylabel="error in per cent")


figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
draw_distribution(panels[0])
draw_errors(panels[1])
for axes in panels:
    axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# From round to round the smallest margins increase, at the expense of the largest ones:

print("rounds   smallest margin   training error   test error")
for T in SHOWN:
    errors = f"{training_error[T - 1]:13.1f} %  {test_error[T - 1]:9.2f} %"
    print(f"{T:6}   {margins[T - 1].min():15.3f}  {errors}")
print(f"the last training error was made in round {last_wrong}")

# %%
# Bound on the margin distribution
# --------------------------------
# Theorem 1.12 of Smola et al. (2000), their (1.86), bounds the fraction of training samples with a
# margin below :math:`\rho` by the weighted errors :math:`\epsilon_t` of the rounds,
#
# .. math:: \prod_{t=1}^T 2 \sqrt{\epsilon_t^{1 - \rho} (1 - \epsilon_t)^{1 + \rho}} .
#
# At :math:`\rho = 0` this is the exponential loss, which decreases in each round. The figure
# compares the bound (dashed) with the observed fraction (solid).

rho = np.linspace(0, 0.75, 301)
figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
for T in SHOWN[1:]:
    promised = np.array([float(bounds.adaboost(model.errors_[:T], r)) for r in rho])
    axes.plot(rho, np.where(promised <= 1, promised, np.nan), color=COLOURS[T], lw=2, ls="--")
    kept = [(margins[T - 1] < r).mean() for r in rho]
    axes.plot(rho, kept, color=COLOURS[T], lw=2.2, label=f"{T} rounds")
axes.plot([], [], color="black", lw=2, ls="--", label="bound (1.86)")
axes.set(xlim=(0, 0.75), ylim=(0, 1.02), xlabel=r"$\rho$")
axes.set_ylabel(r"fraction of training samples with a margin below $\rho$")
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="lower right")
plt.show()

# %%
# With more rounds the bound becomes a steep wall. To the left of it no training sample remains, and
# the smallest margin is close to it. For larger margins the bound is vacuous.
#
# Wrong labels
# ------------
# AdaBoost enforces a positive margin for every sample, including those with wrong labels. With a
# tenth of the training labels flipped, it learns all of them. AdaBoost_Reg (Rätsch, Onoda and
# Müller 2001) allows a smaller margin, even a negative one, for samples that have had a large
# weight in many rounds. The strength of this regularisation, ``reg``, is chosen by cross-validation
# on the noisy samples. In the figure, a sample to the left of zero is classified against its given
# label.

flipped = rng.random(len(y)) < 0.1
noisy = np.where(flipped, -y, y)
hard = AdaBoostClassifier(n_rounds=200).fit(X, noisy)
search = GridSearchCV(AdaBoostClassifier(n_rounds=200), {"reg": [1e2, 1e3, 1e4]}, cv=5)
soft = search.fit(X, noisy).best_estimator_
names = {"AdaBoost": hard, f"AdaBoost_Reg, reg = {soft.reg:g}": soft}

figure, panels = plt.subplots(1, 2, figsize=(10.5, 4), sharey=True, layout="constrained")
for axes, (name, booster) in zip(panels, names.items(), strict=True):
    for rows, colour, style, what in (
        (~flipped, BLUE, "-", "samples with the correct label"),
        (flipped, ORANGE, "--", "samples with a flipped label"),
    ):
        ordered = np.concatenate([[-1], np.sort(booster.margins_[rows]), [1]])
        share = np.concatenate([[0], np.arange(1, rows.sum() + 1) / rows.sum(), [1]])
        axes.step(ordered, share, where="post", color=colour, ls=style, lw=2.2, label=what)
    axes.axvline(0, color=GREY, lw=0.8, ls=":")
    error = 100 * np.mean(booster.predict(X_test) != y_test)
    axes.set_title(f"{name}: test error {error:.1f} %")
    axes.set(xlim=(-0.3, 0.6), ylim=(0, 1.02), xlabel=r"margin $\rho$ of the given label")
    axes.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel(r"fraction of samples with a margin up to $\rho$")
panels[0].legend(frameon=False, loc="lower right")
plt.show()

# %%
# With AdaBoost_Reg more than half of the flipped labels are not learnt, and the samples with
# correct labels have larger margins.

for name, booster in names.items():
    followed = (booster.margins_[flipped] > 0).mean()
    print(f"{name:26}  wrong labels learnt: {followed:.0%}")
