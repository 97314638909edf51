r"""
Maps of predicted ranks
=======================

This example follows Fig. 2.3 of Herbrich et al. (2000): the unit square is coloured by the
predicted rank, from :math:`r_1` (black) to :math:`r_5` (white), after training on 5 to 25 samples.
The task is that of :ref:`sphx_glr_auto_examples_plot_ordinal_learning_curves.py`, with the same
kernel :math:`(x \cdot x' + 1)^2` and :math:`C = 10^6`. Regression is tried with two numerical
codings of the ranks, :math:`i` and :math:`e^i`, which both preserve the order.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from widemargin import SVC, SVR, OrdinalSVC, metrics

THRESHOLDS = [-1.0, -0.1, 0.25, 1.0]
KERNEL = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0, "C": 1e6}
SIZES = [5, 10, 15, 20, 25]


def utility(X):
    """Return the utility without noise."""
    return 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)


def ranks(values):
    """Return ranks 1 to 5; a value on a threshold has the lower rank."""
    return 1 + np.searchsorted(THRESHOLDS, values, side="left")


def draw_rows(rng, n=25):
    """Return samples with noisy ranks; the first five have one of each rank."""
    X = rng.uniform(size=(200, 2))
    y = ranks(utility(X) + 0.125 * rng.standard_normal(200))
    first = np.unique(y, return_index=True)[1]
    order = np.append(first, np.setdiff1d(np.arange(200), first))[:n]
    return X[order], y[order]


def by_ordinal(X, y, fresh):
    """Predict by one utility and its thresholds."""
    return OrdinalSVC(**KERNEL).fit(X, y).predict(fresh)


def by_pairs(X, y, fresh):
    """Predict by votes of one model per pair of ranks."""
    return SVC(**KERNEL).fit(X, y).predict(fresh)


def by_numbers(X, y, fresh):
    """Predict by regression on 1, ..., 5, rounded to the nearest number."""
    values = SVR(epsilon=0.5, **KERNEL).fit(X, y).predict(fresh)
    return np.clip(np.ceil(values - 0.5), 1, 5)


def by_exponentials(X, y, fresh):
    """Predict by regression on e, ..., e^5, with boundaries midway between these."""
    values = SVR(epsilon=0.5, **KERNEL).fit(X, np.exp(y)).predict(fresh)
    return 1 + np.searchsorted(np.exp(np.arange(1, 5)) * (1 + np.e) / 2, values)


def truth(X, y, fresh):
    """Return the true ranks, without noise."""
    return ranks(utility(fresh))


COLUMNS = {
    "OrdinalSVC": by_ordinal,
    "SVC, pairs of ranks": by_pairs,
    "SVR on $i$": by_numbers,
    "SVR on $e^i$": by_exponentials,
    "truth": truth,
}

# %%
# Maps after 5 to 25 samples
# --------------------------
# Each row of the figure has five more training samples than the one above. The label below each map
# is the fraction of pairs, among all points of the square with different true ranks, that it does
# not put in the right order. A single draw of samples is weak evidence: this one was selected from
# thirty because its errors are close to their mean.

side = np.linspace(0, 1, 101)
fresh = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
true_ranks = ranks(utility(fresh))
greys = ListedColormap([str(level) for level in np.linspace(0, 1, 5)])
X, y = draw_rows(np.random.default_rng(26))

figure, panels = plt.subplots(5, 5, figsize=(9, 10.2), layout="constrained")
for line, size in zip(panels, SIZES, strict=True):
    line[0].set_ylabel(f"n = {size}", fontsize=12)
    for axes, (name, method) in zip(line, COLUMNS.items(), strict=True):
        found = method(X[:size], y[:size], fresh)
        square = {"origin": "lower", "extent": (0, 1, 0, 1), "interpolation": "nearest"}
        axes.imshow(found.reshape(101, 101), cmap=greys, vmin=0.5, vmax=5.5, **square)
        axes.set(xticks=[], yticks=[])
        if size == SIZES[0]:
            axes.set_title(name, fontsize=11)
        if name != "truth":
            risk = metrics.preference_risk(true_ranks, found, scaled=True)
            axes.set_xlabel(f"{risk:.0%} of pairs wrong")
            shown = {"c": y[:size], "cmap": greys, "vmin": 0.5, "vmax": 5.5}
            axes.scatter(*X[:size].T, s=24, edgecolors="#D55E00", linewidths=1.4, **shown)
plt.show()

# %%
# From ten samples on, ``OrdinalSVC`` finds the shape of the saddle. Its boundaries are level lines
# of one utility, so each rank lies between its neighbours, and where there are no samples of a rank
# the others still determine its place. The votes of the ten one-vs-one models do not have this
# property: with five samples black touches white, and with twenty the lower left corner has not
# been found. The result of regression depends on the coding: with 25 samples its errors are fewer
# with 1 to 5 than with :math:`e` to :math:`e^5`, although both codings contain the same
# information. For ``OrdinalSVC`` only the order of the numbers matters:

machine = OrdinalSVC(**KERNEL)
small = machine.fit(X, y).utility(fresh)
large = machine.fit(X, 10**y).utility(fresh)
print("ranks 1 to 5, or 10 to 100,000: utilities differ by", np.abs(small - large).max())
