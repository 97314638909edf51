r"""
Generalisation bounds, leave-one-out error and test error
=========================================================

A generalisation bound holds for every distribution of the data, so it has to allow for the worst
one. This example shows how far bounds exceed the true error on two easy problems with increasing
numbers of samples: two classes with a wide gap between them, and the same with 2 % of the labels
flipped. For each number of samples

* the **test error** of a linear classifier is measured on 200,000 new samples,
* **leave-one-out** estimates it from the training samples alone (:mod:`widemargin.loo`),
* :func:`widemargin.bounds.summary` computes **bounds** on it from the same samples: by the smallest
  margin (Herbrich et al. 2000, theorem 2.3), by the distribution of margins (Smola et al. 2000,
  theorem 2.1) and by the fraction of margins below a level (theorem 1.5).
"""

import matplotlib.pyplot as plt
import numpy as np

from widemargin import LinearSVC, bounds, loo

SIZES = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000]
MORE = np.geomspace(SIZES[-1], 1e8, 30).astype(int)
LOO_ROWS = 3_000
DELTA = 0.05
CURVES = {
    "test error": ("0.1", "o", "-"),
    "leave-one-out": ("#0072B2", "s", "-"),
    "shawe_taylor": ("#009E73", "^", "--"),
    "margin_distribution": ("#E69F00", "D", "--"),
    "margin_cover": ("#CC79A7", "v", "--"),
}
NAMES = {
    "shawe_taylor": "bound by the smallest margin (2.3)",
    "margin_distribution": "bound by the distribution of margins (2.1)",
    "margin_cover": "bound by the margin error (1.5)",
}


def draw(n, flipped, rng):
    """Return samples in the unit ball, with a gap of 1.4 between the classes, and labels."""
    y = rng.integers(0, 2, n)
    side = np.where(y == 1, 1.0, -1.0)
    X = np.column_stack([side * rng.uniform(0.7, 0.9, n), rng.uniform(-0.4, 0.4, n)])
    return X, np.where(rng.uniform(size=n) < flipped, 1 - y, y)


def measure(n, flipped):
    """Return the test error, the leave-one-out error and the bounds of one model."""
    rng = np.random.default_rng((n, round(100 * flipped)))
    X, y = draw(n, flipped, rng)
    model = LinearSVC(loss="hinge", fit_intercept=False, C=100.0 / n).fit(X, y)
    found = {"test error": 1.0 - model.score(*draw(200_000, flipped, rng))}
    if n <= LOO_ROWS:
        found["leave-one-out"] = loo.error(model)
    # No sample has a norm above 1 by construction, so R need not be estimated from the data.
    listed = bounds.summary(model, X, y, delta=DELTA, R=1.0)
    return found | {row.function: float(row.value) for row in listed}, listed


def with_more_rows(row, m):
    """Return a bound for m samples with the same margins."""
    has = row.inputs
    if row.function == "shawe_taylor":
        return bounds.shawe_taylor(m, has["k"], DELTA)
    if row.function == "margin_distribution":
        lacking = has["D"] * np.sqrt(m / has["m"])  # root of a sum of squares over the samples
        return bounds.margin_distribution(m, has["R"], lacking, has["rho"], DELTA)
    share, error = has["share of delta"], has["margin_error"]
    return bounds.margin_cover(m, has["rho"], has["R"], share, error)


# %%
# Results
# -------
# In the grey region above 1 a bound is vacuous. The vertical scale is logarithmic down to 0.001 and
# linear from there to 0. Dotted lines extrapolate with the margins of the last model: they show the
# bounds for more samples of the same kind.

figure, panels = plt.subplots(1, 2, figsize=(11, 5.2), sharey=True, layout="constrained")
for axes, flipped in zip(panels, (0.0, 0.02), strict=True):
    results = {n: measure(n, flipped) for n in SIZES}
    axes.axhspan(1.0, 1e4, color="0.92", zorder=0)
    axes.text(1.4e7, 5e3, "vacuous", color="0.4", va="top", ha="center")
    for name, (colour, marker, line) in CURVES.items():
        points = [(n, found[name]) for n, (found, _) in results.items() if name in found]
        points = [point for point in points if np.isfinite(point[1])]
        if points:
            label = NAMES.get(name, name)
            # Two bounds on the left nearly coincide: large open markers keep both visible.
            open_one = {"ms": 11, "mfc": "none", "mew": 2} if marker == "D" else {}
            n, value = zip(*points, strict=True)
            axes.plot(n, value, line, marker=marker, color=colour, label=label, **open_one)
    for row in results[SIZES[-1]][1]:
        on = [float(with_more_rows(row, int(m))) for m in MORE]
        axes.plot(MORE, on, ":", color=CURVES[row.function][0])
    axes.set(xscale="log", xlabel="number of samples", ylim=(-2e-4, 1e4))
    axes.set_yscale("symlog", linthresh=1e-3)
    axes.set_yticks([0, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000])
    axes.set_yticklabels(["0", "0.001", "0.01", "0.1", "1", "10", "100", "1000"])
    axes.set_title("a gap between the classes" if flipped == 0 else "2 % of the labels flipped")
    axes.grid(alpha=0.3)
    for n in (1_000, SIZES[-1]):
        print(f"flipped {flipped:.0%}, {n:>7,} samples:", end=" ")
        print({name: float(f"{value:.3g}") for name, value in results[n][0].items()})
panels[0].set_ylabel("error rate")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
# Discussion
# ----------
# Leave-one-out is close to the test error from a few hundred samples on. Even on the easiest
# problem the bounds are vacuous below about a hundred thousand samples, and beyond that they remain
# far above the test error. They hold for *all* hyperplanes and *all* distributions at once, and
# their constants are artefacts of the proofs.
#
# The bounds describe correctly what makes learning possible. None of them depends on the number of
# features, only on the ratio of margin to radius. On the right, 2 % of wrong labels invalidate the
# two bounds that require (nearly) all margins to be large: one no longer applies, and the other is
# infinite for any number of samples, because the sum of the squared margin deficits grows in
# proportion to that number. The bound by the *fraction* of small margins counts them as 2 % and
# finally decreases to this value.
#
# The summary lists each bound with its inputs, and the reasons why others are missing:

print(results[SIZES[-1]][1])
