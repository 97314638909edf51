r"""
Bounds, leave-one-out and the test error
========================================

A bound holds for every distribution of rows, and so pays for the worst. How much is that? Here are
two easy problems, drawn again and again with more and more rows: two classes with a wide gap
between them, and the same with 2 % of the labels flipped. For each number of rows

* the **test error** of a linear machine is measured on 200,000 new rows,
* **leave-one-out** estimates it from the training rows alone (:mod:`widemargin.loo`),
* :func:`widemargin.bounds.summary` lists what can be **proved** about it from the same rows: by the
  smallest margin (Herbrich et al. 2000, theorem 2.3), by the distribution of margins (Smola et al.
  2000, theorem 2.1) and by the share of margins below a level (theorem 1.5).
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
    """Return rows within the unit ball, a gap of 1.4 between the classes, and their labels."""
    y = rng.integers(0, 2, n)
    side = np.where(y == 1, 1.0, -1.0)
    X = np.column_stack([side * rng.uniform(0.7, 0.9, n), rng.uniform(-0.4, 0.4, n)])
    return X, np.where(rng.uniform(size=n) < flipped, 1 - y, y)


def measure(n, flipped):
    """Return the test error, the leave-one-out error and the bounds of one machine."""
    rng = np.random.default_rng((n, round(100 * flipped)))
    X, y = draw(n, flipped, rng)
    model = LinearSVC(fit_intercept=False, C=100.0 / n).fit(X, y)
    found = {"test error": 1.0 - model.score(*draw(200_000, flipped, rng))}
    if n <= LOO_ROWS:
        found["leave-one-out"] = loo.error(model)
    # That no row is longer than 1 is known here, and need not be read off the rows.
    listed = bounds.summary(model, X, y, delta=DELTA, R=1.0)
    return found | {row.function: float(row.value) for row in listed}, listed


def with_more_rows(row, m):
    """Return a bound for m rows with the same margins."""
    has = row.inputs
    if row.function == "shawe_taylor":
        return bounds.shawe_taylor(m, has["k"], DELTA)
    if row.function == "margin_distribution":
        lacking = has["D"] * np.sqrt(m / has["m"])  # a root of a sum of squares over the rows
        return bounds.margin_distribution(m, has["R"], lacking, has["rho"], DELTA)
    share, error = has["share of delta"], has["margin_error"]
    return bounds.margin_cover(m, has["rho"], has["R"], share, error)


# %%
# What comes out
# --------------
# Above the line at 1 a bound says nothing. The scale is logarithmic down to 0.001 and linear from
# there to 0. Dotted lines go on with the margins of the last machine: what the bounds would be with
# more rows of the same kind.

figure, panels = plt.subplots(1, 2, figsize=(11, 5.2), sharey=True, layout="constrained")
for axes, flipped in zip(panels, (0.0, 0.02), strict=True):
    results = {n: measure(n, flipped) for n in SIZES}
    axes.axhspan(1.0, 1e4, color="0.92", zorder=0)
    axes.text(1.4e7, 5e3, "says nothing", color="0.4", va="top", ha="center")
    for name, (colour, marker, line) in CURVES.items():
        points = [(n, found[name]) for n, (found, _) in results.items() if name in found]
        points = [point for point in points if np.isfinite(point[1])]
        if points:
            label = NAMES.get(name, name)
            # The two bounds on the left nearly agree: large and open markers let the other be seen.
            open_one = {"ms": 11, "mfc": "none", "mew": 2} if marker == "D" else {}
            n, value = zip(*points, strict=True)
            axes.plot(n, value, line, marker=marker, color=colour, label=label, **open_one)
    for row in results[SIZES[-1]][1]:
        on = [float(with_more_rows(row, int(m))) for m in MORE]
        axes.plot(MORE, on, ":", color=CURVES[row.function][0])
    axes.set(xscale="log", xlabel="number of rows", ylim=(-2e-4, 1e4))
    axes.set_yscale("symlog", linthresh=1e-3)
    axes.set_yticks([0, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000])
    axes.set_yticklabels(["0", "0.001", "0.01", "0.1", "1", "10", "100", "1000"])
    axes.set_title("a gap between the classes" if flipped == 0 else "2 % of the labels flipped")
    axes.grid(alpha=0.3)
    for n in (1_000, SIZES[-1]):
        print(f"flipped {flipped:.0%}, {n:>7,} rows:", end=" ")
        print({name: float(f"{value:.3g}") for name, value in results[n][0].items()})
panels[0].set_ylabel("error rate")
figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
plt.show()

# %%
# What it tells
# -------------
# Leave-one-out is near the truth from a few hundred rows on. The bounds need a hundred thousand to
# say anything about the easiest problem there is, and they say far less than is true. They hold for
# *all* planes and *all* distributions at once, and their constants are what the proofs happen to
# give.
#
# What they get right is what makes learning work. Nothing in them depends on the number of
# features, only on the margin in units of the radius. On the right, 2 % of wrong labels are enough
# for the two bounds that want (nearly) all margins to be large: one does not apply any more, and
# the other is infinite with any number of rows, as what is lacking grows as fast as they do. The
# bound by the *share* of small margins takes them as what they are, 2 %, and comes down to that in
# the end.
#
# The list itself says all that in words:

print(results[SIZES[-1]][1])
