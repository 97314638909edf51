r"""
Learning ranks
==============

Fig. 2.2 of Herbrich et al. (2000): rows of the unit square have one of five ranks, by a utility

.. math:: f(x) = 10 (x_1 - 0.5)(x_2 - 0.5) + \varepsilon

between thresholds. Three machines learn the ranks from a few rows, all with the kernel
:math:`(x \cdot x' + 1)^2`, in whose space the utility lies, and with :math:`C = 10^6`:

* :class:`~widemargin.OrdinalSVC` looks for **one** utility that puts higher ranks above lower ones;
* a machine for **each pair** of ranks (:class:`~widemargin.SVC`) does not know that ranks have an
  order;
* **regression** on the numbers 1 to 5 (:class:`~widemargin.SVR`) takes it for granted that ranks
  are equally far apart.
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import SVC, SVR, OrdinalSVC, metrics

THRESHOLDS = [-1.0, -0.1, 0.25, 1.0]
KERNEL = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0, "C": 1e6}


def utility(X):
    """The utility without noise."""
    return 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5)


def ranks(values):
    """Ranks 1 to 5; a value on a threshold has the lower one."""
    return 1 + np.searchsorted(THRESHOLDS, values, side="left")


rng = np.random.default_rng(0)
X = rng.uniform(size=(1000, 2))
clean = ranks(utility(X))
y = ranks(utility(X) + 0.125 * rng.standard_normal(1000))
print("rows whose rank the noise has changed:", f"{np.mean(y != clean):.1%}")

# %%
# How to measure the error
# ------------------------
# A rank that is off by one is not as bad as one that is off by four. Herbrich et al. count *pairs*:
# of two rows with different ranks, how often does the prediction not put the higher one above the
# lower one? That is the **preference risk**, here as a share of the pairs that can be compared. Two
# rows with the same predicted rank count as wrong.


def predicted_ranks(model, X):
    """Round what regression says to a rank."""
    return np.clip(np.ceil(model.predict(X) - 0.5), 1, 5)


def training_rows(size, seed):
    """Draw rows at random until every rank is among them."""
    rng = np.random.default_rng((seed, size))
    while True:
        rows = rng.permutation(1000)[:size]
        if len(np.unique(y[rows])) == 5:
            return np.isin(np.arange(1000), rows)


MACHINES = {
    "a machine for each pair of ranks": (SVC(**KERNEL), "#D55E00", "s--"),
    "regression on 1, ..., 5": (SVR(epsilon=0.5, **KERNEL), "#009E73", "^-."),
    "one utility: OrdinalSVC": (OrdinalSVC(**KERNEL), "#0072B2", "o-"),
}
SIZES = [5, 10, 15, 20, 25, 35, 45]
DRAWS = 20
risks = {name: np.empty((len(SIZES), DRAWS)) for name in MACHINES}
for i, size in enumerate(SIZES):
    for draw in range(DRAWS):
        chosen = training_rows(size, draw)
        for name, (machine, _, _) in MACHINES.items():
            machine.fit(X[chosen], y[chosen])
            found = predicted_ranks(machine, X[~chosen])
            risks[name][i, draw] = metrics.preference_risk(y[~chosen], found, scaled=True)

# %%
# Who learns faster?
# ------------------
# Left: rows, the true boundaries between the ranks, and with black edges those that the noise has
# put on the wrong side. Right: the mean over the draws and the interval that holds the true mean
# with 95 %. The grey line is the score of the true ranks without noise, which nobody can beat by
# much.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 201)]), axis=-1)
values = utility(grid.reshape(-1, 2)).reshape(201, 201)
left.contour(*np.moveaxis(grid, -1, 0), values, THRESHOLDS, colors="0.2", linestyles="-")
colours = plt.get_cmap("viridis")((y - 1) / 4)
moved = y != clean
left.scatter(*X[~moved].T, s=10, color=colours[~moved], alpha=0.55, linewidths=0)
left.scatter(*X[moved].T, s=30, color=colours[moved], edgecolors="black", linewidths=0.9)
for rank in range(1, 6):
    left.scatter([], [], color=plt.get_cmap("viridis")((rank - 1) / 4), label=f"{rank}")
left.legend(title="rank", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
left.set(xlim=(0, 1), ylim=(0, 1), xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
left.set_title("the task: with black edges, moved by the noise")

right.axhline(
    metrics.preference_risk(y, clean, scaled=True), color="0.6", linestyle=":", label="true ranks"
)
for shift, (name, (_, colour, style)) in zip((-0.3, 0.3, 0), MACHINES.items(), strict=True):
    half = 1.96 * risks[name].std(axis=1, ddof=1) / np.sqrt(DRAWS)
    mean, where = risks[name].mean(axis=1), np.array(SIZES) + shift
    right.errorbar(where, mean, half, fmt=style, color=colour, capsize=3, label=name, linewidth=1.8)
right.set(xlabel="training rows", xticks=SIZES, ylim=(0, None))
right.set_ylabel("share of fresh pairs in the wrong order")
right.set_title(f"learning curves, {DRAWS} draws")
right.legend(frameon=False)
plt.show()

# %%
# In numbers
# ----------

print(f"{'training rows':34}" + "".join(f"{size:7d}" for size in SIZES))
for name, found in risks.items():
    print(f"{name:34}" + "".join(f"{value:7.3f}" for value in found.mean(axis=1)))

# %%
# From ten rows on one utility does better than a machine for each pair of ranks: its boundaries are
# coupled, and every row says something about all of them. With one row of each rank it does not.
# Regression keeps up at first, although the thresholds are 0.9, 0.35 and 0.75 apart; with more
# rows the price of equal distances shows. ``python -m benchmarks ordinal`` has 60 draws, and other
# methods; a :class:`~widemargin.CumulativeLinkClassifier` on the quadratic features is the best of
# them here, where the noise is as it assumes.
