"""One-class support vector machine for novelty detection: OneClassSVM."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from widemargin._base.progress import Watch
from widemargin._base.tolerances import PRODUCT_ROUNDING
from widemargin._base.typing import FloatArray, IntArray
from widemargin._base.validation import TrainingSet, require_bool, seed_of
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.kernel import KernelEstimator
from widemargin.estimators._base.proof import Certified
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.svm.expansion import Expansion, SoftMarginFit
from widemargin.estimators.svm.nu import check_nu
from widemargin.estimators.svm.support import LinearCoefficients, SingleExpansion
from widemargin.estimators.svm.values import ClassSums
from widemargin.fitted.one_class import (
    OneClassMachine,
    OneClassTraining,
    has_region,
    largest_score,
)
from widemargin.fitted.record import Record
from widemargin.kernels import Rows
from widemargin.problems.soft_margin import SoftMargin, one_class

NO_REGION = (
    " needs a region, and this model has none: rho = {rho:.1e} is zero up to the tolerance of "
    "{tol:.1e}, so that rounding decides which rows are outliers. Use the rbf kernel, do not "
    "centre the features, or lower tol"
)
INDEFINITE = (
    " needs a positive semi-definite kernel, and the precomputed matrix is not one "
    "(widemargin.kernels.is_mercer)"
)


class OneClassSVM(
    LinearCoefficients,
    OutlierMixin,
    SingleExpansion,
    ClassSums,
    SoftMarginFit,
    Certified,
    Diagnosed,
    Displayed,
    KernelEstimator,
):
    r"""One-class support vector machine: a region that contains most of the samples.

    Minimises :math:`\frac12 |w|^2 - \nu \rho \sum_i s_i + \sum_i s_i \xi_i` subject to
    :math:`\langle w, \phi(x_i) \rangle \ge \rho - \xi_i, \; \xi_i \ge 0`, where :math:`s_i` is the
    weight of sample i (Schölkopf et al. 2001). Samples with
    :math:`\langle w, \phi(x) \rangle < \rho` are outliers. At most a fraction nu of the training
    samples are outliers, and at least a fraction nu are support vectors. The problem and its scale
    are those of LIBSVM.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the fraction of outliers in the training samples, in (0, 1]. With nu = 1, all
        samples have the same multiplier: the score is a kernel density estimate, and `offset_` its
        largest value on the training samples.
    kernel, degree, gamma, coef0
        As for :class:`SVC`.
    tol : float, default=1e-3
        Tolerance for stopping: largest violation of the KKT conditions, as in LIBSVM in units of
        the scores. If no score can reach 1, because nu or the kernel values are small, relative to
        the largest possible score, nu times the sum of the weights times the largest k(x, x).
    cache_size, max_iter, time_limit, random_state, verbose
        As for :class:`SVC`.
    shrinking : bool, default=True
        No effect; accepted for compatibility with scikit-learn.

    Attributes
    ----------
    offset_ : ndarray of shape (1,)
        Threshold rho: ``decision_function = score_samples - offset_``. If an interval is optimal,
        its midpoint; less the rounding error of a score, so that support vectors on the boundary
        are inliers.
    intercept_ : ndarray of shape (1,)
        The negative of `offset_`.
    coef_ : ndarray or CSR of shape (1, n_features)
        Weights of the features, for the linear kernel only; read-only, sparse if X is.
    dual_coef_ : ndarray or CSR of shape (1, n_SV)
        Multipliers of the support vectors; their sum is nu times the sum of the weights.
    support_, support_vectors_
        As for :class:`SVC`.
    n_support_ : ndarray of shape (1,)
        Number of support vectors.
    n_iter_ : int
        Number of solver steps.
    fit_status_ : int
        0 if the tolerance was reached, 1 otherwise (with a warning).
    shape_fit_ : tuple of int
        Shape of the training samples.
    certificate_, certificates_, gamma_, n_features_in_, feature_names_in_
        As for :class:`SVC`.

    See Also
    --------
    NuSVC : Classification controlled by a fraction of margin errors.

    Notes
    -----
    Leave-one-out refits the model without each sample, with nu and gamma held, for up to 500
    samples, and uses ten folds beyond. Its error is the fraction of the samples that the model
    fitted without them flags as outliers: an estimate of the rate of false alarms on new samples of
    the same distribution. It is not available if there is no region (rho is zero up to the
    tolerance), as for the linear kernel on centred features.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import OneClassSVM
    >>> X = np.array([[0.0], [0.1], [0.2], [0.1], [4.0]])
    >>> model = OneClassSVM(nu=0.3, gamma=1.0).fit(X)
    >>> model.predict([[0.1], [4.5]])
    array([ 1, -1])
    >>> model.certificate_.converged
    True
    """

    loo_scorings: ClassVar[tuple[str, ...]] = ()  # the fewest outliers is no aim of a search

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_size: float = 500,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        shrinking: bool = True,
    ) -> None:
        super().__init__(
            kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, tol=tol, cache_size=cache_size,
            max_iter=max_iter, time_limit=time_limit, random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.nu = nu
        self.shrinking = shrinking

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_nu(self.nu)
        require_bool("shrinking", self.shrinking)

    @whole_fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples, or their kernel matrix if ``kernel="precomputed"``.
        y : ignored
            Not used; present because estimators in a pipeline are passed a target.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : object
            The fitted model.
        """
        self._check_parameters()
        data = self._training_set(X, None, sample_weight, numeric=True)
        rows = self._kernel_rows(data)
        problem = one_class(data.weight, self.nu)
        self._largest_score = largest_score(problem, rows)
        with Watch(type(self).__name__, self.tol, self.verbose, self.time_limit) as watch:
            machine = self._expansion(problem, rows, watch)
        self._keep_machine(data, machine)
        self._keep_model(data, machine, self.tol * self._unit(problem, rows))
        self._warn_unconverged([machine.status], data.X)
        return self

    def _thresholds(self, problem: SoftMargin, f: FloatArray) -> FloatArray:
        # Samples on the boundary count as inliers in spite of rounding, see `fitted.one_class`.
        lift = PRODUCT_ROUNDING * self._largest_score if f.any() else 0.0
        return problem.thresholds(f) + lift

    def _unit(self, problem: SoftMargin, rows: Rows) -> float:
        """Return the unit of `tol`: the largest possible score, but at most 1.

        The targets of this problem are zero and do not fix a scale. With a tolerance above all
        scores, any multipliers would pass as optimal.
        """
        return min(1.0, self._largest_score) if self._largest_score > 0 else 1.0

    def _keep_machine(self, data: TrainingSet, machine: Expansion) -> None:
        super()._keep_machine(data, machine)
        self.offset_ = -self.intercept_

    def _keep_model(self, data: TrainingSet, machine: Expansion, tol: float) -> None:
        """Store the record that leave-one-out is computed from."""
        kept = OneClassMachine(
            data.weight, self.nu, machine.machine.alpha, machine.intercept,
            machine.proof.converged, tol, self.max_iter,
        )  # fmt: skip
        seed, centre = seed_of(self.random_state), self._centre_
        rho = float(-machine.thresholds[0])
        refusal = "" if has_region(rho, tol) else NO_REGION.format(rho=rho, tol=tol)
        refusal = INDEFINITE if self._indefinite else refusal
        self._record_ = Record(OneClassTraining(data, self._kernel_, centre, [kept], seed, refusal))

    def score_samples(self, X: Any) -> FloatArray:
        """Return the score of each sample before the offset is subtracted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores; the larger, the more similar a sample is to the training samples.
        """
        check_is_fitted(self)
        return np.asarray(self._class_sums(X)[:, 0, 0])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the signed distance from the boundary, in the units of `offset_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Decision values, negative for outliers.
        """
        return np.asarray(self.score_samples(X) - self.offset_)

    def predict(self, X: Any) -> IntArray:
        """Predict whether each sample is an inlier or an outlier.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            1 for inliers, whose decision value is not negative, and -1 for outliers.
        """
        return np.where(self.decision_function(X) < 0.0, -1, 1).astype(np.intp)
