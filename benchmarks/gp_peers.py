"""Data and candidates of the gp benchmark: approximate posteriors of one Gaussian process prior.

All candidates have the covariance exp(-gamma |x - x'|^2), mean 0 and noise of variance v, set by
hand and not tuned. scikit-learn's likelihood is logistic. With a latent function 1.7 times as large
it agrees with the probit likelihood to some hundredths. Its Laplace approximation has no scale that
is fitted to leave-one-out predictions; `ScaledLaplace` adds one, determined as ours is, for a
comparison on equal terms.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.data import DataSet, keel
from benchmarks.proba import Split, split

FloatArray = npt.NDArray[np.float64]

NAIVE, RAW, TAP, EP = "naive", "naive, not calibrated", "TAP", "EP by sweeps"
LAPLACE, SCALED, GPYTORCH = "Laplace", "Laplace, scaled", "variational (GPyTorch)"

LOGISTIC_TO_PROBIT = 1.7  # factor of the latent function, see above
NODES = np.linspace(-8.0, 8.0, 161)  # of the quadrature, in standard deviations of the Gaussian


@dataclass(frozen=True)
class Setting:
    """A data set and the parameters of its Gaussian process prior."""

    name: str
    gamma: float
    input_noise: float

    def split(self, rows: int, seed: int) -> Split:
        """Draw training and test samples, standardised by the training set."""
        return split(self.data(), rows, seed)

    def data(self) -> DataSet:
        """Load the whole data set."""
        return keel(self.name, C=1.0, gamma=self.gamma)


SETTINGS = (
    Setting("banana", gamma=1.0, input_noise=0.1),
    Setting("ring", gamma=0.05, input_noise=0.1),
    Setting("magic", gamma=0.1, input_noise=0.3),
    Setting("phoneme", gamma=0.5, input_noise=0.3),
)


def ours(setting: Setting, **options: Any) -> Any:
    """Return an unfitted MeanFieldGPClassifier with the prior of a setting."""
    from widemargin import MeanFieldGPClassifier

    noise = setting.input_noise
    return MeanFieldGPClassifier(gamma=setting.gamma, input_noise=noise, mean_variance=0, **options)


def laplace(setting: Setting) -> GaussianProcessClassifier:
    """Return scikit-learn's unfitted classifier with the same prior, in units of the noise."""
    size = LOGISTIC_TO_PROBIT**2 / setting.input_noise
    kernel = ConstantKernel(size) * RBF(1.0 / np.sqrt(2.0 * setting.gamma))
    return GaussianProcessClassifier(kernel, optimizer=None)


class ScaledLaplace:
    """scikit-learn's classifier with its latent mean scaled to fit leave-one-out predictions.

    The linear response is the same as ours. The Gaussian posterior approximation divided by the
    factor of one sample (the cavity distribution) has mean f - g Sigma / (1 - W Sigma) and variance
    Sigma / (1 - W Sigma), where g and W are the derivative and the negative second derivative of
    the sample's log-likelihood.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def fit(self, X: FloatArray, y: FloatArray) -> ScaledLaplace:
        """Fit scikit-learn's classifier; maximise the leave-one-out likelihood over the scale."""
        self.model = laplace(self.setting).fit(X, y)
        mean, variance = self._left_out(X)
        sign = np.where(y == self.model.classes_[1], 1.0, -1.0)

        def cost(log_scale: float) -> float:
            return -float(_log_average(sign * np.exp(log_scale) * mean, variance).sum())

        self.scale = float(np.exp(minimize_scalar(cost, bounds=(-3.0, 3.0), method="bounded").x))
        return self

    def _left_out(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        inside = self.model.base_estimator_
        curvature = inside.W_sr_**2
        slope = inside.y_train_ - inside.pi_
        kept = np.sum(np.linalg.inv(inside.L_) ** 2, axis=0)  # 1 - W Sigma
        cavity = (1.0 - kept) / (curvature * kept)
        return inside.kernel_(X) @ slope - slope * cavity, cavity

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return probabilities: the logistic function averaged over the scaled latent Gaussian."""
        mean, variance = self.model.base_estimator_.latent_mean_and_variance(X)
        second = np.exp(_log_average(self.scale * mean, variance))
        return np.column_stack([1.0 - second, second])


def _log_average(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the log of the mean logistic function under Gaussians, by the trapezoidal rule."""
    weight = np.exp(-0.5 * NODES**2)
    weight /= weight.sum()
    spread = np.sqrt(np.maximum(variance, 0.0))
    return np.asarray(np.log(expit(mean[:, None] + spread[:, None] * NODES) @ weight))


def factories(setting: Setting) -> dict[str, Callable[[], Any]]:
    """Return functions that create the candidates; GPyTorch's only if it is installed."""
    found: dict[str, Callable[[], Any]] = {
        NAIVE: lambda: ours(setting),
        RAW: lambda: ours(setting, calibrate=False),
        TAP: lambda: ours(setting, inference="tap"),
        EP: lambda: ours(setting, inference="ep", solver="sweeps"),
        LAPLACE: lambda: laplace(setting),
        SCALED: lambda: ScaledLaplace(setting),
    }
    if has_gpytorch():
        from benchmarks.gp_gpytorch import Variational

        found[GPYTORCH] = lambda: Variational(setting.gamma, setting.input_noise)
    return found


def has_gpytorch() -> bool:
    """Return whether GPyTorch is installed; it is not part of the bench extra."""
    return importlib.util.find_spec("gpytorch") is not None
