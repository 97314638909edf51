"""Gaussian-process classification by mean field."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin._progress import Watch
from widemargin._typing import FloatArray, IntArray, Matrix
from widemargin._validation import (
    TrainingSet,
    canonical,
    check_fit,
    check_X,
    require,
    require_bool,
    require_number,
)
from widemargin.assess.probability import LIMIT, project_on_prediction
from widemargin.certificate import REASONS, Certificate, worst
from widemargin.estimators._kernel_machine import KernelMachine
from widemargin.estimators._latent import LatentRecord, Reading, kernel_matrix
from widemargin.kernels import Rows, is_mercer
from widemargin.problems.mean_field import Likelihood, naive
from widemargin.problems.one_vs_one import check_classes, predicted_class
from widemargin.solvers.mean_field import (
    INFERENCES,
    SOLVERS,
    MeanFieldResult,
    matrices_needed,
    solve_mean_field,
)

BLOCK_ROWS = 2_048  # new rows whose kernel values are held at once


class MeanFieldGPClassifier(ClassifierMixin, KernelMachine):
    r"""Gaussian-process classification with leave-one-out and evidence from the fit itself.

    A latent function with covariance k gives labels by its sign, after Gaussian noise of variance
    `input_noise` and flips of probability `flip_noise` (Opper and Winther 2000, sections 8.2 and
    8.3). The posterior is approximated by mean field. The naive theory at flip noise 0 is a convex
    problem that Newton's method solves in a few steps; TAP and expectation propagation agree with
    each other, cost several times as much, and have better means and variances.

    Leave-one-out by (8.41) costs one factorisation and no fit. It is found when
    `loo_error_`, `loo_proba_` or a probability is asked for. Its fields set the one scalar by which
    the latent mean is scaled before it becomes a probability: means of the naive theory are too
    large or too small as they are. For the naive theory they also tell whether the mean is better
    divided by the posterior standard deviation or by that of the prior (see `readings_`).

    Three and more classes: one latent function a class, against the rest; their probabilities are
    normalised.

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "precomputed"} or callable, default="rbf"
        Covariance of the latent function, positive semi-definite. A precomputed one must have a
        constant diagonal for probabilities, because new rows come without theirs.
    gamma : {"scale", "auto"}, float or array of shape (n_features,), default="scale"
        Kernel coefficient; "scale" is 1 / (n_features * X.var()).
    degree : float, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial kernel.
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
        Seconds after which the fit stops.
    verbose : int, default=0
        Show a progress bar if positive.

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
        Largest error of the equations that is left.
    certificate_ : Certificate or None
        Naive theory at flip noise 0: the convex objective, Fenchel's dual bound and, as KKT
        violation, the residual; the worst of all classes. None for the others, whose equations are
        not those of an optimum.
    certificates_ : list of Certificate
        Those of all classes, or none.
    n_iter_ : int
        Steps taken, of all classes the most.
    classes_, gamma_, n_features_in_
        Class labels, the kernel coefficient used, number of features.

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

    _record_: LatentRecord

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
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
        self.gamma = gamma
        self.degree = degree
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
        least = float(np.nextafter(0.0, -1.0))
        require_number("input_noise", self.input_noise, "a number, not negative", above=least)
        require_number("mean_variance", self.mean_variance, "a number, not negative", above=least)
        require_number("flip_noise", self.flip_noise, "a number in [0, 0.5)", above=least)
        require(self.flip_noise < 0.5, "flip_noise", self.flip_noise, "a number in [0, 0.5)")
        require_bool("calibrate", self.calibrate)
        known = self.inference in INFERENCES
        require(known, "inference", self.inference, f"one of {', '.join(INFERENCES)}")
        require(self.solver in SOLVERS, "solver", self.solver, f"one of {', '.join(SOLVERS)}")
        if self.inference == "ep":
            fix = '"auto" with inference="ep", which has an algorithm of its own'
            require(self.solver == "auto", "solver", self.solver, fix)
        if self.inference == "tap":
            fix = 'another one with inference="tap": Table 8.1 is for the naive theory'
            require(self.solver != "table", "solver", self.solver, fix)

    def _check_memory(self, n_rows: int, n_machines: int) -> None:
        """Refuse before anything of size n x n is allocated."""
        # Leave-one-out holds K, a factor for each latent function and two inverse factors.
        matrices = max(matrices_needed(self.inference), 3 + n_machines)
        needed = 8e-6 * matrices * float(n_rows) ** 2
        if needed > self.cache_size:
            raise ValueError(
                f"cache_size must be at least {needed:.0f} megabytes for {n_rows} rows, "
                f"{n_machines} latent function(s) and inference={self.inference!r}, which take "
                f"{matrices} matrices of {n_rows} x {n_rows} float64; got "
                f"cache_size={self.cache_size!r}. Raise it if the machine has the memory, or fit "
                "on a sample of the rows"
            )

    # -- fitting ---------------------------------------------------------------------------

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
        precomputed = self.kernel == "precomputed"
        X, y, weight = check_fit(
            self, X, y, sample_weight, numeric=False, accept_sparse=not precomputed
        )
        if precomputed:
            square = X.shape[0] == X.shape[1]
            require(square, "the shape of X", X.shape, 'square when kernel="precomputed"')
        data = canonical(X, y, weight, precomputed=precomputed)
        self.classes_, codes = check_classes(data.y)
        machines = [1] if len(self.classes_) == 2 else list(range(len(self.classes_)))
        self._check_memory(len(codes), len(machines))
        rows = Rows(self._resolved_kernel(data.X, data.weight), data.X)
        self.gamma_ = rows.kernel.gamma
        K = self._checked_kernel_matrix(rows)
        name = type(self).__name__
        with Watch(name, self.tol, self.verbose, self.time_limit, len(machines)) as watch:
            results = [self._latent(K, codes == k, data.weight, watch) for k in machines]
        self._keep(data, rows, results)
        self._warn_unconverged(results)
        return self

    def _checked_kernel_matrix(self, rows: Rows) -> FloatArray:
        """Return the covariance of the latent function at the rows, or refuse it."""
        K = kernel_matrix(rows, float(self.mean_variance))
        if not np.isfinite(K).all():
            raise ValueError(f"kernel={self.kernel!r} gives values that are not finite numbers")
        if rows.kernel.name == "precomputed":
            fix = "symmetric and positive semi-definite (widemargin.kernels.is_mercer)"
            require(is_mercer(K), "the kernel matrix", f"{K.shape} array", fix)
        least = float(np.diagonal(K).min()) + self.input_noise
        if least <= 0:
            raise ValueError(
                f"input_noise must be positive where k(x, x) is 0 (a row of zeros, say); got "
                f"input_noise={self.input_noise!r} and k(x, x) + input_noise = {least:g}"
            )
        return K

    def _latent(
        self, K: FloatArray, positive: Any, weight: FloatArray, watch: Watch
    ) -> MeanFieldResult:
        """Solve for one latent function."""
        label = np.where(positive, 1.0, -1.0)
        noise, flips = float(self.input_noise), float(self.flip_noise)
        problem = naive(label, weight, np.diagonal(K).copy(), noise, flips)
        watch.next_part()
        try:
            return solve_mean_field(
                problem,
                K,
                inference=self.inference,
                solver=self.solver,
                tol=self.tol,
                max_iter=None if self.max_iter < 0 else int(self.max_iter),
                monitor=watch,
            )
        except (FloatingPointError, np.linalg.LinAlgError) as failure:
            raise ValueError(
                f"kernel must be positive semi-definite and input_noise not too small; got "
                f"kernel={self.kernel!r} and input_noise={self.input_noise!r}, and {failure}"
            ) from failure

    def _keep(self, data: TrainingSet, rows: Rows, results: list[MeanFieldResult]) -> None:
        """Store the solutions, in the order of the given rows, and how they were found."""
        known = np.isin(data.given_y, self.classes_)
        codes = np.where(known, np.searchsorted(self.classes_, data.given_y), -1)
        self._record_ = LatentRecord(
            data,
            rows,
            float(self.mean_variance),
            results,
            codes,
            bool(self.calibrate),
            has_choice=self.inference == "naive",
        )
        self.alpha_ = _per_row(
            [np.abs(r.coefficients) / r.problem.weight for r in results], data, data.given_weight
        )
        self.omega_ = _per_row([r.problem.omega(r.z) for r in results], data)
        evidence = np.array([result.log_evidence for result in results])
        self.log_evidence_ = float(evidence[0]) if len(results) == 1 else evidence
        self.residual_ = max(result.residual for result in results)
        self.n_iter_ = max(1, *(result.n_iter for result in results))
        self.certificates_ = self._certify(results, rows.evaluations)
        self.certificate_ = worst(self.certificates_) if self.certificates_ else None

    def _certify(self, results: list[MeanFieldResult], evaluations: int) -> list[Certificate]:
        """Certify the convex problems."""
        if self.inference != "naive" or self.flip_noise > 0:
            return []
        return [
            result.problem.certificate(
                "naive mean field",
                result.z,
                result.field,
                tol=self.tol,
                n_iter=result.n_iter,
                kernel_evaluations=evaluations,
            )
            for result in results
        ]

    def _warn_unconverged(self, results: list[MeanFieldResult]) -> None:
        left = [result for result in results if result.residual > self.tol]
        if not left:
            return
        reason, fix = REASONS.get(left[0].status, REASONS["stalled"])
        if left[0].status == "stalled" and self.flip_noise > 0:
            reason, fix = "no step improves the equations", "lower flip_noise or raise input_noise"
        warnings.warn(
            f"{type(self).__name__} did not converge ({reason}): after {self.n_iter_} steps the "
            f"equations are met to {self.residual_:.2e} (asked: {self.tol:g}). To go on, {fix}.",
            ConvergenceWarning,
            stacklevel=3,
        )

    # -- prediction ------------------------------------------------------------------------

    def _blocks(self, X: Any) -> list[Matrix]:
        check_is_fitted(self)
        X = check_X(self, X, reset=False, accept_sparse=self.kernel != "precomputed")
        return [X[start : start + BLOCK_ROWS] for start in range(0, X.shape[0], BLOCK_ROWS)]

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
        for block in self._blocks(X):
            cross, diagonal = self._record_.cross(block)
            means.append(self._record_.mean(cross))
            variances.append(self._record_.variance(cross, diagonal()))
        mean, variance = np.concatenate(means), np.concatenate(variances)
        return (mean[:, 0], variance[:, 0]) if len(self.classes_) == 2 else (mean, variance)

    def _scores(self, X: Any) -> FloatArray:
        """Return the standardised fields, a column for each latent function."""
        found = []
        for block in self._blocks(X):
            cross, diagonal = self._record_.cross(block)
            found.append(self._record_.scores(cross, diagonal()))
        return np.concatenate(found)

    def decision_function(self, X: Any) -> FloatArray:
        """Return the scaled latent mean in units of a standard deviation, see `readings_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to score.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Two classes: positive for ``classes_[1]``. The normal distribution function of a score
            is the probability, but for flips and normalisation; the largest one is predicted.
        """
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:  # the sign of the mean, which needs no variance
            means = [self._record_.mean(self._record_.cross(block)[0]) for block in self._blocks(X)]
            return self.classes_[predicted_class(np.concatenate(means)[:, 0])]
        return self.classes_[predicted_class(self.decision_function(X))]

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
        check_is_fitted(self)
        return self._probabilities(self._scores(X))

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of :meth:`predict_proba`.
        """
        return np.log(self.predict_proba(X))

    def _probabilities(self, scores: FloatArray) -> FloatArray:
        each = np.clip(Likelihood(self.flip_noise).probability(scores), LIMIT, 1 - LIMIT)
        if scores.shape[1] == 1:
            return np.column_stack([1.0 - each[:, 0], each[:, 0]])
        shares = each / each.sum(axis=1, keepdims=True)
        return project_on_prediction(shares, predicted_class(scores))

    # -- leave-one-out ---------------------------------------------------------------------

    @property
    def loo_error_(self) -> float:
        """Leave-one-out error rate of the training rows, by linear response; no fit is repeated."""
        check_is_fitted(self)
        return self.loo_error()

    @property
    def loo_proba_(self) -> FloatArray:
        """Probabilities of the training rows, each by the model without the row."""
        check_is_fitted(self)
        return self._probabilities(self._record_.left_out_scores())

    @property
    def readings_(self) -> list[Reading]:
        """How each latent function becomes a probability, as leave-one-out has found."""
        check_is_fitted(self)
        return self._record_.readings()


def _per_row(
    each: list[FloatArray], data: TrainingSet, factor: FloatArray | None = None
) -> FloatArray:
    """Return values of the canonical rows for the given ones; 0 for those of weight zero."""
    member: IntArray = data.member
    found = np.array([np.append(values, 0.0)[member] for values in each])
    if factor is not None:
        found = found * factor
    return found[0] if len(each) == 1 else found
