"""Gaussian process regression: GPRegressor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin._base.messages import warn
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import TrainingSet, check_X
from widemargin.certificate import Certificate
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.kernel import KernelEstimator, same_container
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.gp.regression_fit import (
    check_hyperparameters,
    check_memory,
    check_positive,
    problem_of,
    solve_problem,
)
from widemargin.fitted.by_formula import RegressionTraining
from widemargin.fitted.by_formula.process import RegressionProcess
from widemargin.fitted.latent import Prior
from widemargin.fitted.record import Record, record_of
from widemargin.kernels import Kernel, Rows
from widemargin.solvers.gp_regression import GPRegressionResult, LeftOut

BLOCK_ROWS = 2_048  # new samples per block: bounds the memory of their kernel values


class GPRegressor(RegressorMixin, Diagnosed, Displayed, KernelEstimator):
    r"""Gaussian process regression, exact or with inducing points.

    The target is :math:`m + f(x)` plus Gaussian noise, where f has a Gaussian prior with covariance
    `amplitude` times the kernel, and m is a constant with a Gaussian prior of variance
    `mean_variance`. The posterior is computed by one Cholesky factorisation (Rasmussen and Williams
    2006), leave-one-out and the evidence follow from it in closed form.

    By default, amplitude and noise maximise the evidence at the given kernel, and the constant has
    a flat prior, so that predictions do not depend on the origin and the unit of the targets. Use
    :func:`tune` to choose kernel parameters as well.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        Covariance function, positive semi-definite. For predictive variances, a precomputed kernel
        matrix must have a constant diagonal, because k(x, x) of new samples is not known.
    degree : float, default=3
        Degree of the "poly" kernel, positive.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of "rbf" and "poly", as for :class:`SVC`. For "rbf" it is 1 / (2 l^2), where l
        is the length scale.
    coef0 : float, default=0.0
        Constant term of "poly".
    amplitude : "auto" or float, default="auto"
        Prior variance of f, as a factor of the kernel, in squared units of y. "auto" maximises the
        evidence, of at most 1,000 samples.
    noise : "auto" or float, default="auto"
        Variance of the noise, positive, in squared units of y. "auto" as for `amplitude`. For data
        without noise use a small number, such as 1e-8 times the variance of y.
    mean_variance : "auto" or float, default="auto"
        Prior variance of the constant m: 0 is no constant, "auto" and np.inf are a flat prior.
    rank : "auto", int or None, default="auto"
        None is the exact posterior. An integer is the largest number of inducing points, which are
        selected among the samples by pivoted Cholesky; a fit then costs n_samples times rank^2, and
        `log_evidence_` is a lower bound. "auto" is exact if the matrices fit into `cache_size`,
        else at most 2,000 points.
    tol : float, default=1e-6
        Largest residual of the linear system, relative to the largest target, above which a
        ConvergenceWarning is issued: noise is then too small for float64.
    cache_size : float, default=4000
        Memory limit for the n x n matrices, in megabytes. With rank=None, `fit` raises ValueError
        if they would exceed it.

    Attributes
    ----------
    amplitude_, noise_, mean_variance_ : float
        Hyperparameters used in the fit.
    mean_ : float
        Posterior mean of the constant m.
    dual_coef_ : ndarray of shape (n_support,)
        Coefficients of the kernel expansion: predictions are
        ``mean_ + kernel(X, support_vectors_) @ dual_coef_``.
    support_, support_vectors_
        Indices of the samples of the expansion, and these samples: all distinct ones with positive
        weight, or the inducing points.
    log_evidence_ : float
        Log marginal likelihood of the targets, or a lower bound with inducing points. For a flat
        prior of the constant it is the restricted likelihood.
    rank_error_ : float
        Largest prior variance of a sample that the inducing points do not explain, relative to the
        largest prior variance; 0 for the exact posterior.
    certificate_ : Certificate or None
        Bounds on the minimum of minus the log posterior density; `kkt_violation` is the residual
        of the linear system, in the units of `tol`. None with inducing points.
    certificates_ : list of Certificate
        List that contains `certificate_` only; empty if it is None.
    gamma_ : float or ndarray
        Value of gamma used in the fit.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    tune : Choose kernel parameters, amplitude and noise by leave-one-out or evidence.
    MeanFieldGPClassifier : Gaussian process classification.
    SVR : Sparse regression without predictive variances.

    Notes
    -----
    A sample of weight w is w samples with independent noise. Leave-one-out removes one copy, or the
    whole sample if w is below 1. It keeps amplitude and noise at their values on all samples.

    References
    ----------
    Rasmussen and Williams (2006), Gaussian Processes for Machine Learning. Titsias (2009),
    Variational learning of inducing variables in sparse Gaussian processes.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import GPRegressor
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> y = 5 + np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = GPRegressor(gamma=0.5).fit(X, y)
    >>> mean, std = model.predict([[2.0], [20.0]], return_std=True)
    >>> mean.round(2), std.round(2)
    (array([5.8 , 4.99]), array([0.04, 0.68]))
    >>> round(model.noise_, 3), round(model.loo_error(), 3)
    (0.006, 0.073)
    """

    tunable = ("gamma", "ard", "amplitude", "noise")  # hyperparameters that `tune` accepts
    loo_scorings = ("error", "log_loss", "evidence")

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        amplitude: Any = "auto",
        noise: Any = "auto",
        mean_variance: Any = "auto",
        rank: Any = "auto",
        tol: float = 1e-6,
        cache_size: float = 4000,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.amplitude = amplitude
        self.noise = noise
        self.mean_variance = mean_variance
        self.rank = rank
        self.tol = tol
        self.cache_size = cache_size

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_hyperparameters(self.amplitude, self.noise, self.mean_variance, self.rank)

    def _check_budget(self) -> None:
        """A direct method has no steps and no time limit."""

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Raise if the kernel matrix of the first samples is not positive semi-definite."""
        check_positive(kernel, X, self.kernel)
        return False

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GPRegressor:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their kernel matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : GPRegressor
            The fitted model.
        """
        self._check_parameters()
        data = self._training_set(X, y, sample_weight, numeric=True)
        rows = self._kernel_rows(data)
        check_memory(rows.n, self.rank, self.cache_size)
        problem = problem_of(data, rows, self.amplitude, self.noise, self.mean_variance)
        result = solve_problem(
            problem, rows, self.rank, tol=self.tol, cache_size=self.cache_size, kernel=self.kernel
        )
        self._keep(data, result)
        self._certify(result, rows, data.cost_error)
        if result.status != "converged":
            warn(
                f"{type(self).__name__} did not converge (rounding errors exceed tol): the "
                f"residual of the linear system is {result.residual:.2e} (asked: {self.tol:g}). "
                "Raise noise, or tol.", ConvergenceWarning,
            )  # fmt: skip
        return self

    def _keep(self, data: TrainingSet, result: GPRegressionResult) -> None:
        """Store the posterior process and the record."""
        problem = result.problem
        self.amplitude_, self.noise_ = problem.amplitude, problem.noise
        self.mean_variance_ = problem.mean_variance
        basis = np.arange(len(data.y)) if result.basis is None else result.basis
        self._keep_support(data, basis)
        X = data.X[np.ix_(basis, basis)] if self.kernel == "precomputed" else self.support_vectors_
        prior = Prior(X, self._kernel_, self._centre_, data.index[basis], 0.0)
        self._process_ = RegressionProcess.of(prior, result)
        autos = [name for name in ("amplitude", "noise") if isinstance(getattr(self, name), str)]
        held = " and ".join(autos if result.basis is None else [*autos, "pivots"])
        self._record_ = Record(
            RegressionTraining(data, self._process_, result.coefficients, result.constant, held)
        )
        if result.basis is None:
            self._record_.held("posterior", lambda: result.posterior)
        self.dual_coef_, self.mean_ = result.expansion, result.mean
        self.log_evidence_ = result.log_evidence
        self.rank_error_ = 0.0
        if result.rest is not None:
            largest = float(Rows(self._kernel_, data.X, self._centre_).diagonal().max())
            self.rank_error_ = float(result.rest.max()) / (largest or 1.0)

    def _certify(self, result: GPRegressionResult, rows: Rows, blur: float) -> None:
        """Compute the certificate of an exact fit."""
        self.certificate_: Certificate | None = None
        self.certificates_: list[Certificate] = []
        if result.basis is None:
            problem = result.problem
            self.certificate_ = problem.certificate(
                result.coefficients, result.mean, rows, result.values, tol=self.tol, blur=blur
            )
            self.certificates_ = [self.certificate_]

    # -- prediction ------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the target of each sample, with its uncertainty if requested.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        return_std : bool, default=False
            Whether to return the standard deviations of m + f(x). Those of a new target are
            ``sqrt(std**2 + noise_)``.
        return_cov : bool, default=False
            Whether to return the covariance matrix of m + f(x); not together with `return_std`.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Predicted values.
        std : ndarray of shape (n_samples,)
            Standard deviations, if `return_std`.
        cov : ndarray of shape (n_samples, n_samples)
            Covariance matrix, if `return_cov`.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise ValueError("return_std and return_cov must not both be True: choose one")
        if not (return_std or return_cov):
            return self.mean_ + self._expansion_values(X, self.dual_coef_)
        process, record = self._process_, record_of(self)
        X = check_X(self, X, accept_sparse=self.kernel != "precomputed")
        if return_cov:
            cross = np.concatenate([cross for _, cross in self._blocks(X)])
            own = process.prior.prior_covariance(X)
            return process.predictive_mean(cross), process.covariance(record, cross, own)
        means, variances = [], []
        for block, cross in self._blocks(X):
            means.append(process.predictive_mean(cross))
            own = process.prior.prior_variance(block)
            variances.append(process.variance(record, cross, own))
        return np.concatenate(means), np.sqrt(np.concatenate(variances))

    def _blocks(self, X: Matrix) -> Iterator[tuple[Matrix, FloatArray]]:
        """Yield blocks of samples with their kernel values against those of the expansion."""
        prior = self._process_.prior
        if prior.kernel.name == "precomputed":
            X = X[:, prior.index]
        else:
            X, own = same_container(X, prior.X)
            prior = replace(prior, X=own)
        for start in range(0, X.shape[0], BLOCK_ROWS):
            block = X[start : start + BLOCK_ROWS]
            yield block, prior.cross(block)

    # -- leave-one-out ---------------------------------------------------------------------

    @property
    def loo_error_(self) -> float:
        """Leave-one-out mean absolute error of the training samples."""
        return self.loo_error()

    @property
    def loo_mean_(self) -> FloatArray:
        """Leave-one-out predictions of the training samples."""
        return self.loo_decision_values()

    @property
    def loo_variance_(self) -> FloatArray:
        """Leave-one-out variances of m + f(x) at the training samples, without noise."""
        return self._left_out().variance

    @property
    def loo_log_density_(self) -> FloatArray:
        """Log density of each training target, noise included, given the other samples."""
        record = record_of(self)
        model = record.require("loo_log_density_")
        return self._left_out().log_density(model.data.given_y, self.noise_)

    def _left_out(self) -> LeftOut:
        record = record_of(self)
        model = cast(RegressionTraining, record.require("leave-one-out"))
        return model.predictions(record)

    def compact(self) -> Any:
        """Return a copy of the model without targets and weights, for storage.

        Predictions are unchanged. The samples of the kernel expansion are kept. Leave-one-out
        results that have been computed are kept; computing others raises ValueError.

        Returns
        -------
        GPRegressor
            The compact model.
        """
        return super().compact()
