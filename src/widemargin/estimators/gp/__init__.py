"""Gaussian-process classification by mean field: MeanFieldGPClassifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widemargin._base.multiclass import check_classes, rest_labels
from widemargin._base.progress import Watch
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import TrainingSet, check_X, require, require_bool, require_number
from widemargin.certificate import Certificate, worst
from widemargin.estimators._base.classification import (
    OneVsRestClassifier,
    ScoredClassifier,
    of_given_rows,
    set_per_machine,
)
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.kernel import KernelEstimator, same_container
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.gp.fit import (
    certificates,
    check_memory,
    check_method,
    covariance,
    solve_function,
    warn_unconverged,
)
from widemargin.fitted.by_response import (
    LatentTraining,
    Reading,
    posterior_variances,
    probabilities,
    readings,
    scores,
)
from widemargin.fitted.latent import LatentFunctions
from widemargin.fitted.record import Record, record_of
from widemargin.kernels import Kernel
from widemargin.problems.mean_field import naive
from widemargin.solvers.base import Budget
from widemargin.solvers.mean_field import MeanFieldResult

BLOCK_ROWS = 2_048  # new rows whose kernel values are held at once


class MeanFieldGPClassifier(
    OneVsRestClassifier, ScoredClassifier, Diagnosed, Displayed, KernelEstimator
):
    r"""Gaussian-process classification with leave-one-out and evidence from the fit itself.

    A latent function with covariance k gives labels by its sign, after Gaussian noise of variance
    `input_noise` and flips of probability `flip_noise` (Opper and Winther 2000, sections 8.2 and
    8.3). The posterior is approximated by mean field. The naive theory at flip noise 0 is a convex
    problem that Newton's method solves in a few steps; TAP and expectation propagation agree with
    each other, cost several times as much, and have better means and variances.

    Leave-one-out by (8.41) costs one factorisation and no fit. It is found when `loo_error_`,
    `loo_proba_`, a probability or a decision value is asked for. Its fields set the one scalar by
    which the latent mean is scaled before it becomes a probability: means of the naive theory are
    too large or too small as they are. For the naive theory they also tell whether the mean is
    better divided by the posterior standard deviation or by that of the prior (see `readings_`).
    The decision function is that quotient: the normal distribution function of it is the
    probability, but for flips and normalisation.

    Three and more classes: one latent function a class, against the rest; their probabilities are
    normalised.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        Covariance of the latent function, positive semi-definite. A precomputed one must have a
        constant diagonal for probabilities, because new rows come without theirs.
    degree : float, default=3
        Degree of the polynomial kernel.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Coefficient of rbf and poly, as for :class:`SVC`.
    coef0 : float, default=0.0
        Constant of poly.
    inference : {"naive", "tap", "ep"}, default="naive"
        Which mean-field theory. "ep" is expectation propagation, another algorithm for the
        solution of "tap".
    input_noise : float, default=1.0
        Variance v of the noise that is added to the latent function, in units of k(x, x) (1 for
        the rbf kernel). 0 asks for classes that can be separated.
    flip_noise : float, default=0.0
        Probability, below 0.5, that a label is flipped wherever it is: robust to wrong labels. The
        problem is then no longer convex.
    mean_variance : float, default=0.0
        Variance of the Gaussian prior of a constant mean (threshold); 0 means that there is none.
    solver : {"auto", "newton", "newton_cg", "table"}, default="auto"
        For the naive theory and TAP: Newton's method by factorisation or conjugate gradients;
        "table" is the iteration of Table 8.1, naive only, for study.
    calibrate : bool, default=True
        Scale the latent mean by leave-one-out, see above.
    tol : float, default=1e-10
        Largest error of the equations, relative to max(1, embedding strength).
    cache_size : float, default=4000
        Megabytes that the n x n matrices of a fit may take, factors for prediction included.
    max_iter : int, default=-1
        Largest number of steps; -1 is a budget that depends on the method.
    time_limit : float, default=None
        Seconds after which the fit stops with the model reached.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    alpha_ : ndarray of shape (n_samples,) or (n_classes, n_samples)
        Embedding strengths, not negative: the latent mean is sum_i y_i alpha_i k(x, x_i) with
        labels y of -1 and +1. They add up over the repetitions that a sample weight stands for.
    omega_ : ndarray of the same shape
        Omega of (8.42); infinite for rows that do not constrain the latent function, negative for
        those that flip noise explains away.
    log_evidence_ : float or ndarray of shape (n_classes,)
        Approximation of log p(y).
    residual_ : float
        Largest error of the equations that is left, in the units of `tol`.
    certificate_ : Certificate or None
        Naive theory at flip noise 0, whose equations are those of the minimum of a convex function
        of the coefficients: `primal` is its value at `alpha_`, `dual` Fenchel's lower bound at the
        means of the training rows, `kkt_violation` the residual. All three are recomputed from
        `alpha_` and the kernel matrix; the worst of all classes. None for the others, whose
        equations are not those of an optimum.
    certificates_ : list of Certificate
        Those of all classes, or none.
    n_iter_ : int
        Steps taken, of all classes the most.
    classes_, gamma_
        Class labels, and the gamma used.
    n_features_in_, feature_names_in_
        Number of the features, and their names where X has any.

    See Also
    --------
    tune : Chooses kernel and noise by leave-one-out or evidence.
    SVC : The same kind of model without variances.

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

    tunable = ("gamma", "ard", "input_noise", "flip_noise")  # by `tune`
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
        mean_variance: float = 0.0,
        solver: str = "auto",
        calibrate: bool = True,
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
        require_number("mean_variance", self.mean_variance, "a number, not negative", least=0.0)
        require_number("flip_noise", self.flip_noise, "a number in [0, 0.5)", least=0.0)
        require(self.flip_noise < 0.5, "flip_noise", self.flip_noise, "a number in [0, 0.5)")
        require_bool("calibrate", self.calibrate)
        check_method(self.inference, self.solver)

    def _check_kernel_matrix(self, kernel: Kernel, X: Matrix) -> bool:
        """Check nothing: `covariance` refuses what is not positive semi-definite."""
        return False

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MeanFieldGPClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows, or the kernel matrix when ``kernel="precomputed"``.
        y : array-like of shape (n_samples,)
            Class labels of any kind, two or more classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 means the same as the row twice, 0 the same as its absence.

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
        check_memory(rows, len(labels), self.inference, self.cache_size)
        K = covariance(rows, self.kernel, self.mean_variance, self.input_noise)
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(labels)) as watch:
            results = [self._solve(K, label, data.weight, watch) for label in labels]
        self._keep(data, results)
        self._certify(K, results, rows.evaluations)
        if self.residual_ > self.tol:
            warn_unconverged(name, results, self.residual_, self.tol, self.solver)
        return self

    def _solve(
        self, K: FloatArray, label: FloatArray, weight: FloatArray, watch: Watch
    ) -> MeanFieldResult:
        """Solve for one latent function."""
        watch.next_part()
        noise, flips = float(self.input_noise), float(self.flip_noise)
        return solve_function(
            naive(label, weight, np.diagonal(K).copy(), noise, flips),
            K,
            tol=self.tol,
            budget=Budget(int(self.max_iter), watch),
            method=self.solver,
            inference=self.inference,
            kernel=self.kernel,
        )

    def _keep(self, data: TrainingSet, results: list[MeanFieldResult]) -> None:
        """Store what predicts and, in the order of the given rows, the solutions."""
        self._latent_ = LatentFunctions(
            data.X,
            self._kernel_,
            self._centre_,
            data.index,
            float(self.mean_variance),
            np.column_stack([result.coefficients for result in results]),
            np.column_stack([result.precision() for result in results]),
            float(self.input_noise),
            float(self.flip_noise),
        )
        has_choice = self.inference == "naive"
        calibrate = bool(self.calibrate)
        self._record_ = Record(LatentTraining(data, self._latent_, results, calibrate, has_choice))
        strengths = np.array([np.abs(r.coefficients) / data.weight for r in results])
        set_per_machine(
            self,
            alpha_=of_given_rows(strengths, data) * data.given_weight,
            omega_=of_given_rows(np.array([r.problem.omega(r.z) for r in results]), data),
            log_evidence_=np.array([result.log_evidence for result in results]),
        )
        self.n_iter_ = max(1, *(result.n_iter for result in results))

    def _certify(self, K: FloatArray, results: list[MeanFieldResult], evaluations: int) -> None:
        """Certify the convex problems; note the largest error of the equations."""
        self.certificates_: list[Certificate] = []
        if self.inference == "naive" and self.flip_noise == 0:
            self.certificates_ = certificates(K, results, self.tol, evaluations)
        self.certificate_ = worst(self.certificates_) if self.certificates_ else None
        proved = [certificate.kkt_violation for certificate in self.certificates_]
        self.residual_ = max(proved or [result.residual for result in results])

    # -- prediction ------------------------------------------------------------------------

    def _blocks(self, X: Any) -> Iterator[tuple[Matrix, FloatArray]]:
        """Yield rows, a block at a time, with their kernel values."""
        check_is_fitted(self)
        X = check_X(self, X, accept_sparse=self.kernel != "precomputed")
        latent = self._latent_
        if latent.kernel.name == "precomputed":
            X = X[:, latent.index]
        else:
            X, own = same_container(X, latent.X)
            latent = replace(latent, X=own)
        for start in range(0, X.shape[0], BLOCK_ROWS):
            block = X[start : start + BLOCK_ROWS]
            yield block, latent.cross(block)

    def predict_latent(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the latent function, without the input noise.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        mean, variance : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: of the one function, positive for ``classes_[1]``. The mean is not scaled
            by leave-one-out.
        """
        means, variances = [], []
        for block, cross in self._blocks(X):
            latent, prior = self._latent_, self._latent_.prior_variance(block)
            means.append(latent.mean(cross))
            variances.append(posterior_variances(self._record_, latent, cross, prior))
        mean, variance = np.concatenate(means), np.concatenate(variances)
        return (mean[:, 0], variance[:, 0]) if len(self.classes_) == 2 else (mean, variance)

    def _machine_values(self, X: Any) -> FloatArray:
        """Return the standardised fields, a column for each latent function."""
        found = []
        for block, cross in self._blocks(X):
            prior = self._latent_.prior_variance(block)
            found.append(scores(self._record_, self._latent_, cross, prior))
        return np.concatenate(found)

    def _deciding_scores(self, X: Any) -> FloatArray:
        """Return the mean for two classes: its sign needs no variances and no leave-one-out."""
        check_is_fitted(self)
        if len(self.classes_) > 2:
            return self.decision_function(X)
        return np.concatenate([self._latent_.mean(cross) for _, cross in self._blocks(X)])[:, 0]

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class; the likeliest one is always the predicted one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`.
        """
        fields = self._machine_values(X)
        return probabilities(self._latent_, fields)

    # -- leave-one-out ---------------------------------------------------------------------

    @property
    def loo_error_(self) -> float:
        """Leave-one-out error rate of the training rows, by linear response; no fit is repeated."""
        return self.loo_error()

    @property
    def loo_proba_(self) -> FloatArray:
        """Probabilities of the training rows, each by the model without the row."""
        fields = record_of(self).left_out().values
        return probabilities(self._latent_, fields)

    @property
    def readings_(self) -> list[Reading]:
        """How each latent function becomes a probability, as leave-one-out has found."""
        return readings(record_of(self))

    def compact(self) -> Any:
        """Return a copy without what only leave-one-out needs; it predicts as before.

        The training rows stay, because the latent function depends on all of them: what is dropped
        are the labels, the weights and the solutions. The scale of probabilities is found first.
        Leave-one-out results that were computed before are kept; others are refused.

        Returns
        -------
        MeanFieldGPClassifier
            The copy.
        """
        readings(record_of(self))
        return super().compact()
