"""Mean-field Gaussian process classification: MeanFieldGPClassifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from widemargin._base.multiclass import check_classes, rest_labels
from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import TrainingSet, require, require_number
from widemargin.certificate import Certificate, worst
from widemargin.estimators._base.classification import of_given_rows, set_per_machine
from widemargin.estimators._base.diagnostics import Displayed
from widemargin.estimators._base.kernel import KernelEstimator
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.gp.fit import (
    certificates,
    check_calibrate,
    check_mean_variance,
    check_memory,
    check_method,
    covariance,
    is_calibrated,
    solve_function,
    warn_unconverged,
)
from widemargin.estimators.gp.low_rank import Induced, check_rank, induced, rank_for
from widemargin.estimators.gp.predictions import LatentPredictions
from widemargin.fitted.by_response import LatentTraining, keep_left_out, keep_posteriors
from widemargin.fitted.latent import LatentFunctions, resolved_mean_variance
from widemargin.fitted.record import Record
from widemargin.kernels import Kernel, Rows
from widemargin.problems.mean_field import naive
from widemargin.problems.mean_field.bounds import Covariance
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field import MeanFieldResult


class MeanFieldGPClassifier(LatentPredictions, Displayed, KernelEstimator):
    r"""Gaussian process classification by mean-field approximations.

    The label is the sign of a latent Gaussian process with covariance k plus Gaussian noise of
    variance `input_noise`, flipped with probability `flip_noise` (Opper and Winther 2000, sections
    8.2 and 8.3). The posterior is approximated by mean-field theory. The naive theory without flip
    noise is a convex problem, solved by Newton's method; TAP and expectation propagation have the
    same solution, cost several times as much and give better means and variances.

    Leave-one-out by (8.41) requires one factorisation per latent function and no refit. It is
    computed when `loo_error_`, `loo_proba_`, a probability or a decision value is first needed. The
    leave-one-out means calibrate the probabilities of the naive theory: they determine a scale
    factor of the latent mean, and whether the mean is divided by the posterior or the prior
    standard deviation (see `readings_`). The decision function is this standardised mean; its
    normal distribution function is the probability, before flip noise and normalisation.

    Multiclass problems are one-vs-rest, one latent function per class, with normalised
    probabilities.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        Covariance function, positive semi-definite. For probabilities, a precomputed kernel matrix
        must have a constant diagonal, because k(x, x) of new samples is not known.
    degree : float, default=3
        Degree of the "poly" kernel, positive.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of "rbf" and "poly", as for :class:`SVC`.
    coef0 : float, default=0.0
        Constant term of "poly".
    inference : {"naive", "tap", "ep"}, default="naive"
        Approximation: naive mean field, TAP, or expectation propagation, whose solution is that of
        TAP and is computed in the same way.
    input_noise : float, default=1.0
        Variance of the Gaussian noise added to the latent function, on the scale of k(x, x), which
        is 1 for "rbf". Not negative; 0 requires separable classes.
    flip_noise : float, default=0.0
        Probability, in [0, 0.5), that a label is wrong irrespective of x. Positive values make the
        model robust to label noise, but the problem is then not convex.
    mean_variance : "auto" or float, default="auto"
        Variance of the Gaussian prior of a constant mean (an intercept); "auto" is the mean of
        k(x, x) over the training samples, which is 1 for "rbf"; 0 is no constant mean.
    rank : None, "auto" or int, default=None
        None is the exact model, whose matrices grow with the square of the number of samples. An
        integer is the largest number of inducing samples of a low-rank model, whose time and memory
        grow linearly; "auto" is exact for up to 5,000 samples and chooses up to 1,000 inducing
        samples for more. What they leave of the prior variance counts as input noise.
    solver : {"auto", "newton", "newton_cg", "table", "sweeps"}, default="auto"
        Newton's method by factorisation or by conjugate gradients; "auto" chooses by size. "table"
        is the iteration of Table 8.1, for the naive theory only; "sweeps" are those of expectation
        propagation, for "tap" and "ep", which take several times as long.
    calibrate : "auto" or bool, default="auto"
        Whether to scale the latent mean by leave-one-out, see above. "auto" does so for the naive
        theory only: the probabilities of TAP are those of the posterior already. The scale is
        shrunk towards 1, by as much as some ten samples can say about it.
    tol : float, default=1e-10
        Largest residual of the mean-field equations, relative to max(1, embedding strength).
    cache_size : float, default=4000
        Memory limit for the n x n matrices of fit and prediction, in megabytes. `fit` raises
        ValueError if they would exceed it.
    max_iter : int, default=-1
        Maximum number of steps per latent function; -1 is a default that depends on the method.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        Embedding strengths, not negative: the latent mean is sum_i y_i alpha_i k(x, x_i) with
        labels y of -1 and +1. A sample of weight w has the sum of the strengths of w copies.
    omega_ : ndarray of the same shape
        Omega of (8.42); infinite for samples that do not constrain the latent function, negative
        for those that flip noise explains.
    log_evidence_ : float or ndarray of shape (n_classes,)
        Approximate log evidence, log p(y).
    residual_ : float
        Largest residual of the mean-field equations, in the units of `tol`.
    certificate_ : Certificate or None
        For the naive theory without flip noise, whose equations are the optimality conditions of a
        convex function of the coefficients: `primal` is its value at `alpha_`, `dual` Fenchel's
        lower bound at the means of the training samples, both with their rounding errors, and
        `kkt_violation` the residual; the worst of `certificates_`. None for the other
        approximations, which are not convex problems, and for low-rank models.
    certificates_ : list of Certificate
        Certificates, one per latent function; empty if `certificate_` is None.
    rank_ : int or None
        Number of inducing samples; None for the exact model.
    approximation_error_ : float
        Fraction of the prior variances of the training samples that the inducing samples leave out;
        0 for the exact model.
    n_iter_ : int
        Maximum number of steps over the latent functions.
    classes_, gamma_, mean_variance_
        Class labels, sorted, and values of gamma and mean_variance used in the fit.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    tune : Choose kernel parameters and noise by leave-one-out or evidence.
    SVC : Kernel classifier without predictive variances.

    References
    ----------
    Opper and Winther (2000), chapter 8 of Advances in Large Margin Classifiers.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import StandardScaler
    >>> from widemargin import MeanFieldGPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = MeanFieldGPClassifier(input_noise=0.3).fit(StandardScaler().fit_transform(X), y)
    >>> round(model.loo_error_, 3)
    0.023
    """

    # Hyperparameters that `tune` accepts.
    tunable = ("gamma", "ard", "input_noise", "flip_noise", "mean_variance")
    loo_scorings = ("error", "log_loss", "evidence")

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        inference: str = "naive",
        input_noise: float = 1.0,
        flip_noise: float = 0.0,
        mean_variance: Any = "auto",
        rank: Any = None,
        solver: str = "auto",
        calibrate: Any = "auto",
        tol: float = 1e-10,
        cache_size: float = 4000,
        max_iter: int = -1,
        time_limit: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.inference = inference
        self.input_noise = input_noise
        self.flip_noise = flip_noise
        self.mean_variance = mean_variance
        self.rank = rank
        self.solver = solver
        self.calibrate = calibrate
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.verbose = verbose

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_number("input_noise", self.input_noise, "a number, not negative", least=0.0)
        check_mean_variance(self.mean_variance)
        require_number("flip_noise", self.flip_noise, "a number in [0, 0.5)", least=0.0)
        require(self.flip_noise < 0.5, "flip_noise", self.flip_noise, "a number in [0, 0.5)")
        check_calibrate(self.calibrate)
        check_method(self.inference, self.solver)
        check_rank(self.rank, self.kernel, self.solver)

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Skip the check here; `covariance` raises if the matrix is not positive semi-definite."""
        return False

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MeanFieldGPClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their kernel matrix if ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : MeanFieldGPClassifier
            The fitted model.
        """
        self._check_parameters()
        data = self._training_set(X, y, sample_weight, numeric=False)
        self.classes_, codes = check_classes(data.y)
        labels = rest_labels(codes, len(self.classes_))
        rows = self._kernel_rows(data)
        most = rank_for(self.rank, rows.n, self.cache_size)
        if most is None:
            check_memory(rows, len(labels), self.inference, self.solver, self.cache_size)
        offset = resolved_mean_variance(self.mean_variance, rows.diagonal(), data.weight)
        self.mean_variance_ = offset
        low = None if most is None else induced(rows, self.rank, most, offset)
        self.rank_ = None if low is None else low.rows.n
        self.approximation_error_ = 0.0 if low is None else low.error
        noise: Any = float(self.input_noise)
        K: Any
        if low is None:
            K = covariance(rows, self.kernel, offset, self.input_noise)
        else:
            K, noise = low.covariance, noise + low.rest
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(labels)) as watch:
            results = [self._solve(K, label, data.weight, noise, watch) for label in labels]
        self._keep(data, results, low)
        self._certify(K, rows, results, data.cost_error)
        if self.residual_ > self.tol:
            warn_unconverged(name, results, self.residual_, self.tol, self.solver)
        return self

    def _solve(
        self, K: Any, label: FloatArray, weight: FloatArray, noise: Any, watch: Watch
    ) -> MeanFieldResult:
        """Solve the mean-field equations of one latent function."""
        watch.next_part()
        return solve_function(
            naive(label, weight, K.diagonal().copy(), noise, float(self.flip_noise)),
            K,
            tol=self.tol,
            budget=Budget(int(self.max_iter), watch),
            method=self.solver,
            inference=self.inference,
            kernel=self.kernel,
        )

    def _keep(self, data: TrainingSet, results: list[MeanFieldResult], low: Induced | None) -> None:
        """Store the latent functions, and the solutions in the order of the user's samples."""
        noise, left = (float(self.input_noise), float(self.flip_noise)), None
        if low is not None:
            self._latent_, left = low.latent(data, results, *noise)
        else:
            self._latent_ = LatentFunctions(
                data.X,
                self._kernel_,
                self._centre_,
                data.index,
                self.mean_variance_,
                np.column_stack([result.coefficients for result in results]),
                np.column_stack([result.precision() for result in results]),
                *noise,
            )
        has_choice = self.inference == "naive"
        calibrate = is_calibrated(self.calibrate, self.inference)
        bare = [replace(result, posterior=None) for result in results]  # it is not pickled
        self._record_ = Record(LatentTraining(data, self._latent_, bare, calibrate, has_choice))
        if left is None:
            keep_posteriors(self._record_, results)
        else:
            keep_left_out(self._record_, left)
        strengths = np.array([np.abs(r.coefficients) / data.weight for r in results])
        set_per_machine(
            self,
            alpha_=of_given_rows(strengths, data) * data.given_weight,
            omega_=of_given_rows(np.array([r.problem.omega(r.z) for r in results]), data),
            log_evidence_=np.array([result.log_evidence for result in results]),
        )
        self.n_iter_ = max(1, *(result.n_iter for result in results))

    def _notes(self) -> list[str]:
        """Return the rank of a low-rank model and its error, for the HTML representation."""
        rank = getattr(self, "rank_", None)
        error = getattr(self, "approximation_error_", 0.0)
        return [f"rank {rank}: {error:.2g} of the prior variance is left out"] if rank else []

    def _certify(self, K: Any, rows: Rows, results: list[MeanFieldResult], blur: float) -> None:
        """Compute certificates for convex problems, and the largest residual."""
        self.certificates_: list[Certificate] = []
        if self.inference == "naive" and self.flip_noise == 0 and self.rank_ is None:
            known = Covariance(K, rows, self.mean_variance_)
            self.certificates_ = certificates(known, results, self.tol, blur)
        self.certificate_ = worst(self.certificates_) if self.certificates_ else None
        proved = [certificate.kkt_violation for certificate in self.certificates_]
        self.residual_ = max(proved or [result.residual for result in results])
