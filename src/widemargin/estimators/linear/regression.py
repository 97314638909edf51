"""Linear support vector regression: LinearSVR."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted

from widemargin._base.features import with_constant
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray, Matrix
from widemargin._base.validation import (
    TrainingSet,
    canonical,
    check_fit,
    check_scale,
    check_X,
    require,
    require_bool,
    require_budget,
    require_choice,
    require_number,
    seed_of,
)
from widemargin.certificate import Certificate, warn_unconverged
from widemargin.estimators._base.diagnostics import Diagnosed, Displayed
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.linear.memory import (
    constant_of,
    linear_kernel,
    not_worse_than_constant,
    penalised_split,
    with_plane,
)
from widemargin.fitted.by_path import Machine, Training
from widemargin.fitted.record import Record
from widemargin.problems.soft_margin import SoftMargin, epsilon_tube
from widemargin.problems.soft_margin.linear import linear_certificate
from widemargin.solvers.base import Budget
from widemargin.solvers.linear import LinearResult, LinearRows, solve

LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


class LinearSVR(RegressorMixin, Diagnosed, Displayed, BaseEstimator):
    r"""Linear support vector regression for many samples or many features.

    Minimises :math:`\frac12 |w|^2 + C \sum_i s_i \ell(y_i - w \cdot x_i - b)` with the loss
    :math:`\ell(r) = \max(0, |r| - \epsilon)`, the problem of ``SVR(kernel="linear")``, or its
    square (Vapnik 1995; Ho and Lin 2012). In contrast to LIBLINEAR the intercept is not penalised
    by default, so that both estimators have the same optimum. The time is proportional to the size
    of the data.

    Parameters
    ----------
    epsilon : float, default=0.0
        Half width of the tube within which errors cost nothing, in units of y; not negative.
    C : float, default=1.0
        Cost per unit of loss, positive. The larger C, the weaker the regularisation.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
        Loss function: linear in the error beyond the tube, or its square.
    fit_intercept : bool, default=True
        Whether to fit an intercept b.
    intercept_scaling : float, default=None
        None: the intercept is not penalised. A positive number: it is penalised as in LIBLINEAR, as
        the weight of an additional feature that has this value in every sample. No effect without
        an intercept.
    dual : bool or "auto", default="auto"
        No effect: accepted for compatibility with scikit-learn. The solver works on the primal and
        returns feasible dual variables.
    tol : float, default=1e-4
        Tolerance for stopping: largest relative duality gap.
    max_iter : int, default=1000
        Maximum number of Newton steps.
    time_limit : float, default=None
        Time limit in seconds; `fit` then stops and keeps the current model. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for the subsamples used for warm starts on large data; it changes the result only
        within the tolerance. None is a fixed seed.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    intercept_ : ndarray of shape (1,), or float
        Intercept; the number 0.0 if ``fit_intercept=False``.
    certificate_ : Certificate
        Certificate of optimality.
    certificates_ : list of Certificate
        The same certificate in a list.
    n_iter_ : int
        Number of Newton steps.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    SVR : Support vector regression with kernels.
    LinearSVC : Linear classification.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVR
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = LinearSVR(C=100).fit(X, 2 * X[:, 0] + 1)
    >>> float(model.predict([[0.5]])[0].round(1))
    2.0
    >>> model.certificate_.relative_gap < 1e-4
    True
    """

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float | None = None,
        dual: Any = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        require_number("epsilon", self.epsilon, "a number, not negative", least=0.0)
        require_number("tol", self.tol, "a positive number")
        require_number("C", self.C, "a positive number")
        require_choice("loss", self.loss, LOSSES)
        require_bool("fit_intercept", self.fit_intercept)
        if self.intercept_scaling is not None:
            fix = "a positive number, or None for an intercept that is not penalised"
            require_number("intercept_scaling", self.intercept_scaling, fix)
        known = isinstance(self.dual, bool | np.bool_) or self.dual == "auto"
        require(known, "dual", self.dual, 'True, False or "auto"')
        require_budget(self.max_iter, self.time_limit)

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LinearSVR:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Target values.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : LinearSVR
            The fitted model.
        """
        self._check_parameters()
        X, y, weight = check_fit(self, X, y, sample_weight, numeric=True)
        check_scale(X)
        data = canonical(X, y.astype(np.float64), weight)
        penalised = bool(self.fit_intercept) and self.intercept_scaling is not None
        constant = None
        if penalised:  # as rounded in the data
            constant = float(data.X.dtype.type(self.intercept_scaling))
        problem = self._problem(data, penalised=penalised)
        with (
            Watch("LinearSVR", self.tol, self.verbose, self.time_limit) as watch,
            worker_threads() as threads,
        ):
            samples = with_constant(data.X, constant)
            tol = self._tolerance(data)
            result, certificate = self._solve(
                problem, samples, tol, constant, data.cost_error, watch, threads
            )
        assert result.alpha is not None
        free = 0.0 if penalised else result.intercept  # the kernel contains a penalised intercept
        machine = Machine(np.arange(len(data.y)), problem, result.alpha, free)
        kernel = linear_kernel(constant)
        training = Training(data, kernel, None, [], [machine], problem.n_groups > 0)
        self._record_ = Record(training)
        self._keep(result, certificate)
        warn_unconverged("LinearSVR", certificate, [result.status], self.tol, data.X, "gap")
        return self

    def _problem(self, data: TrainingSet, *, penalised: bool) -> SoftMargin:
        """Return the problem; a penalised intercept is the weight of a constant feature."""
        problem = epsilon_tube(
            data.y, self.C * data.weight, float(self.epsilon), squared=self.loss == LOSSES[1],
            intercept=bool(self.fit_intercept) and not penalised,
        )  # fmt: skip
        name = problem.name.replace("no intercept", "penalised intercept")
        return replace(problem, name=name) if penalised else problem

    def _tolerance(self, data: TrainingSet) -> float:
        """Return the relative gap to reach: tol, or smaller if the objective is below 1.

        A relative gap is measured against max(1, objective). If the objective of w = 0 is smaller
        than 1, because of small costs or targets, the gap is measured against that.
        """
        centre = float(data.weight @ data.y) / float(data.weight.sum()) if self.fit_intercept else 0
        excess = np.maximum(np.abs(data.y - centre) - self.epsilon, 0.0)
        losses = excess if self.loss == LOSSES[0] else excess * excess
        empty = self.C * float(data.weight @ losses)
        return self.tol * min(1.0, empty) if empty > 0 else self.tol

    def _solve(
        self,
        problem: SoftMargin,
        X: Matrix,
        tol: float,
        constant: float | None,
        blur: float,
        watch: Watch,
        threads: int,
    ) -> tuple[LinearResult, Certificate]:
        """Solve the problem and certify the model."""
        watch.next_part()
        result = solve(
            problem, X, tol=tol, budget=Budget(int(self.max_iter), watch),
            seed=seed_of(self.random_state), constant=constant is not None,
        )  # fmt: skip
        assert result.alpha is not None
        model = penalised_split(result, constant)
        certify = partial(
            linear_certificate, problem, LinearRows(X, threads=threads), alpha=result.alpha,
            tol=tol, n_iter=result.n_iter, constant=constant, blur=blur,
        )  # fmt: skip
        *plane, certificate = not_worse_than_constant(
            certify, model.coef, model.intercept, constant_of(problem)
        )
        return with_plane(model, *plane), certificate

    def _keep(self, result: LinearResult, certificate: Certificate) -> None:
        """Store the model and its certificate."""
        self.coef_ = result.coef
        self.intercept_: Any = np.array([result.intercept]) if self.fit_intercept else 0.0
        self.n_iter_ = certificate.n_iter
        self.certificates_ = [certificate]
        self.certificate_ = certificate

    def predict(self, X: Any) -> FloatArray:
        """Predict the target of each sample.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted values.
        """
        check_is_fitted(self)
        X = check_X(self, X)
        return np.asarray(safe_sparse_dot(X, self.coef_)) + self.intercept_
