r"""
Maps of the learned ranks
=========================

Fig. 2.3 of Herbrich et al. (2000): the unit square is coloured by the rank that a machine predicts,
from :math:`r_1` (black) to :math:`r_5` (white), after training on 5 to 25 rows. The task is that of
:ref:`sphx_glr_auto_examples_plot_ordinal_learning_curves.py`, with the same kernel
:math:`(x \cdot x' + 1)^2` and :math:`C = 10^6`. Regression is tried with two ways to write ranks as
numbers, :math:`i` and :math:`e^i`: both keep the order.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

from widemargin import SVC, SVR, OrdinalSVC, metrics

THRESHOLDS = [-1.0, -0.1, 0.25, 1.0]
KERNEL = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0, "C": 1e6}
SIZES = [5, 10, 15, 20, 25]


def utility(X):
    """The utility without noise."""
    return 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)


def ranks(values):
    """Ranks 1 to 5; a value on a threshold has the lower one."""
    return 1 + np.searchsorted(THRESHOLDS, values, side="left")


def draw_rows(rng, n=25):
    """Return rows with noisy ranks, the first five of them one of each rank."""
    X = rng.uniform(size=(200, 2))
    y = ranks(utility(X) + 0.125 * rng.standard_normal(200))
    first = np.unique(y, return_index=True)[1]
    order = np.append(first, np.setdiff1d(np.arange(200), first))[:n]
    return X[order], y[order]


def by_ordinal(X, y, fresh):
    """One utility and thresholds on it."""
    return OrdinalSVC(**KERNEL).fit(X, y).predict(fresh)


def by_pairs(X, y, fresh):
    """A machine for each pair of ranks, and a vote."""
    return SVC(**KERNEL).fit(X, y).predict(fresh)


def by_numbers(X, y, fresh):
    """Regression on 1, ..., 5; the nearest number is the rank."""
    values = SVR(epsilon=0.5, **KERNEL).fit(X, y).predict(fresh)
    return np.clip(np.ceil(values - 0.5), 1, 5)


def by_exponentials(X, y, fresh):
    """Regression on e, ..., e^5; boundaries midway between these."""
    values = SVR(epsilon=0.5, **KERNEL).fit(X, np.exp(y)).predict(fresh)
    return 1 + np.searchsorted(np.exp(np.arange(1, 5)) * (1 + np.e) / 2, values)


def truth(X, y, fresh):
    """What is to be learned, without the noise."""
    return ranks(utility(fresh))


COLUMNS = {
    "OrdinalSVC": by_ordinal,
    "SVC, pairs of ranks": by_pairs,
    "SVR on $i$": by_numbers,
    "SVR on $e^i$": by_exponentials,
    "truth": truth,
}

# %%
# Five to twenty-five rows
# ------------------------
# Each line has five rows more than the one above. Below each map: the share of pairs, among all
# points of the square with different true ranks, that it does not put in the right order. One draw
# of rows proves nothing: this one was taken from thirty because its errors are close to the mean
# of all.

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
# From ten rows on the rank machine sees the saddle: its boundaries are level lines of one utility,
# so each rank lies between its neighbours, and where there are no rows of a rank the others still
# say where it has to be. The votes of ten machines know nothing of that: with five rows black
# touches white, and with twenty the lower left corner has not been found. Regression is good if
# ranks are written as 1 to 5 and bad if they are written as :math:`e` to :math:`e^5`, although that
# is the same information. To the rank machine only the order of the numbers matters:

machine = OrdinalSVC(**KERNEL)
small = machine.fit(X, y).utility(fresh)
large = machine.fit(X, 10**y).utility(fresh)
print("ranks 1 to 5, or 10 to 100,000: utilities differ by", np.abs(small - large).max())
