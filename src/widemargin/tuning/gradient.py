r"""Gradient-based tuning of kernel parameters and cost or noise, by leave-one-out.

The leave-one-out margins t_l of the squared hinge follow from one factorisation
(:mod:`widemargin.tuning.smooth_loss`), and so does the exact gradient of the smooth loss

.. math:: J = \min_s \frac1n \sum_l \log(1 + \exp(-s t_l))

with respect to log C and log gamma. A Gaussian-process classifier has leave-one-out probabilities
and a log evidence (:mod:`widemargin.tuning.latent_loss`); one factorisation at its solution yields
the exact gradient of either with respect to gamma, input noise and flip noise. Gaussian-process
regression has both in closed form (:mod:`widemargin.tuning.regression.loss`). The loss is
minimised by L-BFGS from a few starting points. Each evaluation costs about as much as one fit,
whereas grid search with cross-validation requires hundreds of fits.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from sklearn.base import clone

from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import FloatArray
from widemargin._base.validation import require_integer, require_number, seed_of
from widemargin.estimators._base.inspection import check_parameters
from widemargin.tuning.hinge_cost import choose_hinge_cost
from widemargin.tuning.landscape import Landscape, Point, Surface, descend
from widemargin.tuning.latent_landscape import LatentTask
from widemargin.tuning.not_worse import or_as_given
from widemargin.tuning.regression import RegressionTask
from widemargin.tuning.setup import (
    Task,
    check_criterion,
    check_machine,
    check_names,
    is_latent,
    is_regression,
    starting_points,
)

SCAN_ROWS = 200  # size of the subsample on which starting values of a single gamma are compared


@dataclass(frozen=True)
class Tuning:
    """Result of tuning: parameters, loss and the trace of the search.

    Attributes
    ----------
    params : dict
        The selected parameters: C, or input_noise, flip_noise and mean_variance, or amplitude and
        noise; and gamma as a number or one per feature, or kernel, an object with the selected
        hyperparameters.
    loss : float
        Smooth leave-one-out loss at these parameters, or minus the log evidence, in nats per
        sample; for classes, log(2) = 0.69 corresponds to random guessing.
    trace : list of dict
        One entry per evaluation: stage ("scan" of the starting points, "kernel" for the descents,
        "cost" for the C of the hinge), start, the numbers named above, gamma (None if it is not
        tuned), loss (infinite if the problem could not be solved) and objective (with the
        prior).
    starts : list of dict
        For each descent, its best parameters with their loss and objective.
    n_evaluations : int
        Length of the trace.
    n_rows : int
        Number of samples used for tuning (equal ones count once).
    seconds : float
        Computing time without the final fit.
    message : str
        Reason why the best descent terminated, or that the given parameters are better.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, tune
    >>> tuning = tune(SVC(), *load_iris(return_X_y=True)).tuning_
    >>> sorted(tuning.params)
    ['C', 'gamma']
    >>> tuning.loss < min(start["loss"] for start in tuning.starts) + 0.1
    True
    """

    params: dict[str, Any]
    loss: float
    trace: list[dict[str, Any]] = field(repr=False)
    starts: list[dict[str, Any]] = field(repr=False)
    n_evaluations: int
    n_rows: int
    seconds: float
    message: str


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    params: Any = None,
    prior: float | None = None,
    *,
    criterion: str = "loo",
    sample_weight: Any = None,
    starts: Any = None,
    max_iter: int = 50,
    verbose: int = 0,
    random_state: Any = None,
) -> Any:
    """Tune kernel parameters and cost or noise by gradient of the leave-one-out loss; then fit.

    **SVC.** The kernel is tuned with the squared hinge, whose leave-one-out loss is differentiable.
    For ``loss="hinge"`` the cost is then selected on a geometric grid, by the leave-one-out loss of
    the hinge. With more than 2,000 distinct samples, a random subsample of that size is used, and
    the selected C and gamma for the fit on all samples.

    **MeanFieldGPClassifier.** The leave-one-out log-loss, or minus the log evidence, is minimised
    by its exact gradient, for every `inference` ("ep" is solved as "tap", which has the same
    solution). At most 1,000 distinct samples are used. If the result has more leave-one-out errors
    than the estimator as given, or a smaller evidence, the given parameters are returned instead,
    and `tuning_.message` says so.

    **GPRegressor.** Minus the log density of the leave-one-out predictions, or minus the log
    evidence, is minimised by its exact gradient, on at most 1,000 distinct samples. The given
    parameters are returned, as for the classifier, if the result is worse on all samples.

    Parameters
    ----------
    estimator : SVC, LinearSVC, GPRegressor, MeanFieldGPClassifier or Pipeline
        The estimator to tune; it is not modified. The last step of a pipeline is tuned, on the
        data transformed by the other steps, which are fitted on all samples.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Training samples. Features should be on similar scales.
    y : array-like of shape (n_samples,)
        Class labels, or targets of GPRegressor. With more than two classes the loss is the mean
        over all pairs of classes (Gaussian process: over the latent functions, one-vs-rest).
    params : tuple of str, default=None
        Parameters to tune: "C", the cost; "gamma", one for all features (rbf, poly), or "ard", one
        gamma per feature (rbf). MeanFieldGPClassifier has "input_noise", "flip_noise" (up to 0.45)
        and "mean_variance", the variance of its constant mean, instead of C, GPRegressor
        "amplitude" and "noise". "kernel" are the hyperparameters of a kernel object
        (:mod:`widemargin.kernels`); the search starts from their values. None means
        ("C", "gamma"), or ("gamma", "input_noise"), or ("gamma", "amplitude", "noise"), with
        "kernel" instead of "gamma" for kernel objects, and for these without an amplitude or noise
        that is a number. LinearSVC and other kernels
        support these without gamma. Other parameters keep their values (for the hinge, the kernel
        is then tuned at the best cost of the squared hinge).
    prior : float, default=None
        Weight of the prior: 0 disables it, None means 1. It shrinks C, noise and gamma weakly
        towards the natural scale of the data, and the gammas of the features towards a common one.
    criterion : {"loo", "evidence"}, default="loo"
        The leave-one-out loss, or for Gaussian processes minus the log evidence, which is cheaper.
        The evidence of the naive theory is a rough approximation, and leave-one-out is preferable;
        for "tap", "ep" and GPRegressor both are good.
    sample_weight : array-like of shape (n_samples,), default=None
        A weight of 2 is equivalent to repeating the sample; one copy at a time is left out.
    starts : list of dict, default=None
        Starting points, such as ``[{"C": 1.0, "gamma": 0.1}]`` or ``[{"input_noise": 0.3,
        "gamma": 0.1}]``. None starts from the best of three values of gamma, or from all three if
        there is one gamma per feature. The best result is kept.
    max_iter : int, default=50
        Maximum number of iterations per starting point.
    verbose : int, default=0
        1 shows a progress bar.
    random_state : int, RandomState or None, default=None
        Seed of the subsamples. None means a fixed seed.

    Returns
    -------
    estimator
        A fitted clone with the selected parameters; its `tuning_` is a
        :class:`~widemargin.tuning.gradient.Tuning`.

    See Also
    --------
    LOOSearch : Grid search by leave-one-out, for more estimators.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, tune
    >>> X, y = make_moons(200, noise=0.2, random_state=0)
    >>> model = tune(SVC(), X, y)
    >>> model.tuning_.n_evaluations < 100
    True
    >>> bool(model.score(X, y) > 0.95)
    True

    Tune a Gaussian process with flip noise by its evidence:

    >>> from widemargin import MeanFieldGPClassifier
    >>> gp = MeanFieldGPClassifier(inference="tap")
    >>> names = ("gamma", "input_noise", "flip_noise")
    >>> model = tune(gp, X, y, params=names, criterion="evidence")
    >>> sorted(model.tuning_.params)
    ['flip_noise', 'gamma', 'input_noise']
    >>> bool(model.log_evidence_ > gp.fit(X, y).log_evidence_)
    True

    Tune a Gaussian process for real-valued targets:

    >>> from widemargin import GPRegressor
    >>> model = tune(GPRegressor(), X, X[:, 0] * X[:, 1], criterion="evidence")
    >>> sorted(model.tuning_.params)
    ['amplitude', 'gamma', 'noise']
    """
    prior = 1.0 if prior is None else prior
    require_number("prior", prior, "a number, not negative, or None", least=0.0)
    require_integer("max_iter", max_iter, "a positive integer")
    options = {"sample_weight": sample_weight, "starts": starts, "max_iter": int(max_iter)}
    options |= {"verbose": verbose, "random_state": random_state, "criterion": criterion}
    if hasattr(estimator, "steps"):  # importing Pipeline would import many other modules
        return _tune_last_step(estimator, X, y, params, prior, options)
    names = check_names(params, estimator)
    check_machine(estimator, names)
    check_criterion(criterion, estimator)
    model = clone(estimator)
    check_parameters(model)
    kind = LatentTask if is_latent(model) else RegressionTask if is_regression(model) else Task
    task = kind(model, names, X, y, sample_weight, float(prior), criterion)
    loss = "leave-one-out loss" if criterion == "loo" else "minus log evidence a row"
    watch = _SearchWatch(f"tuning {type(model).__name__}", verbose, loss)
    with watch:
        search = _Search(task, watch, int(max_iter), seed_of(random_state))
        tuning = search.run(starts)
    model.set_params(**tuning.params)
    model.fit(X, y, sample_weight)
    model.tuning_ = tuning
    given = search.given
    if is_regression(model):  # "auto" and "scale" are values of the estimator as given, too
        own = {"gamma" if name == "ard" else name for name in names}
        given = {name: getattr(estimator, name) for name in own}
    if given is None:
        return model
    return or_as_given(model, given, criterion, X, y, sample_weight)


def _tune_last_step(
    pipeline: Any, X: Any, y: Any, params: Any, prior: float, options: dict[str, Any]
) -> Any:
    """Fit the transformers of a pipeline and tune its last step on the transformed samples."""
    fitted = clone(pipeline)
    head, (name, last) = fitted[:-1], fitted.steps[-1]
    check_machine(last, check_names(params, last))
    check_criterion(options["criterion"], last)
    transformed = head.fit_transform(X, y) if len(head) else X
    model = tune(last, transformed, y, params, prior, **options)
    fitted.steps = [*head.steps, (name, model)]
    fitted.tuning_ = model.tuning_
    return fitted


class _SearchWatch(Watch):
    """Progress bar of a search, which advances per descent as the number of steps is unknown."""

    def __init__(self, title: str, verbose: int, loss: str) -> None:
        super().__init__(title, 1.0, verbose, None)
        self.loss = loss

    def show(self, evaluations: int, loss: float, done: float, parts: int) -> None:
        """Show the smallest loss so far and the completed fraction of the search."""
        if self.bar is not None:
            self.parts = parts
            state = f"{self.loss} {loss:.4f}, {evaluations} evaluations"
            self.bar.update(self.task, total=parts, completed=done, state=state)


class _Search:
    """Search of one call of `tune`: descents, selection of the best one, and the trace."""

    def __init__(self, task: Task, watch: _SearchWatch, max_iter: int, seed: int) -> None:
        self.task = task
        self.watch = watch
        self.max_iter = max_iter
        self.rng = np.random.default_rng(seed)
        self.trace: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.parts = 1
        self.least = math.inf
        self.stage = "kernel"
        self.given: dict[str, Any] | None = None  # the estimator's own parameters, and their loss

    def run(self, starts: Any) -> Tuning:
        """Descend from all starting points, select the best result, and C for the hinge."""
        began = time.perf_counter()
        task = self.task
        rows = task.sample(task.most_rows, self.rng)
        # Single-threaded BLAS is faster on small matrices, and its results are reproducible.
        with worker_threads():
            landscape, x, message = self._descents(rows, starts)
            if is_latent(task.model):
                self.given = self._as_given(landscape)
            values, theta = landscape.split(x)
            loss = min(end["loss"] for end in self.ends if end["x"] is x)
            if task.hinge and "C" in task.names:
                own = cast(Landscape, landscape)  # estimators with a hinge are not latent
                values["C"], tried = choose_hinge_cost(own.kernels(theta), own.pairs, values["C"])
                for cost, lost in tried:
                    self._note("cost", {"C": cost}, self._gamma(theta), lost, lost)
                loss = dict(tried)[values["C"]]
        params: dict[str, Any] = {name: v for name, v in values.items() if name in task.names}
        if landscape.path.separate:
            params["kernel"] = task.kernel_at(theta)
        elif landscape.path.size:
            params["gamma"] = self._gamma(theta)
        starts = [{k: v for k, v in end.items() if k != "x"} for end in self.ends]
        seconds = time.perf_counter() - began
        n = len(self.trace)
        return Tuning(params, loss, self.trace, starts, n, len(rows), seconds, message)

    def _descents(self, rows: Any, starts: Any) -> tuple[Surface, FloatArray, str]:
        """Return the objective, its best point and the reason why that descent terminated."""
        task = self.task
        whole = task.landscape(rows, self._observe)
        points = starting_points(task, whole, starts)
        if starts is None and not whole.n_deltas and len(points) > 1:
            # With one gamma, descents are short and mostly have the same end, unless they start
            # where the kernel is so wide or so narrow that the loss is flat. So one is enough.
            few_rows = task.landscape(task.sample(SCAN_ROWS, self.rng), self._observe)
            self.stage = "scan"
            points = [points[int(np.argmin([few_rows(x)[0] for x in points]))]]
            self.stage = "kernel"
        self.parts = len(points) + 1
        if len(rows) > 2 * task.coarse_rows:
            # Compare the starting points on a smaller subsample; continue from the best result.
            coarse = task.landscape(task.sample(task.coarse_rows, self.rng), self._observe)
            ends = [self._descend(coarse, x) for x in points]
            points = [min(ends, key=lambda end: end[1])[0]]
        ends = [self._descend(whole, x) for x in points]
        x, least, message = min(ends, key=lambda end: end[1])
        if not np.isfinite(least):
            raise ValueError(
                f"{type(task.model).__name__} could not be solved at any point that was tried; "
                f"{task.advice}"
            )
        return whole, x, message

    def _as_given(self, landscape: Surface) -> dict[str, Any] | None:
        """Return the values that the estimator has, with their loss; None if it is infinite."""
        values, theta = self.task.given(landscape)
        loss = landscape.evaluate(values, theta).loss
        if not np.isfinite(loss):
            return None
        params = {name: value for name, value in values.items() if name in self.task.names}
        if landscape.path.separate:
            params["kernel"] = self.task.kernel_at(theta)
        elif landscape.path.size:
            params["gamma"] = self._gamma(theta)
        return params | {"loss": loss}

    def _descend(self, landscape: Surface, start: FloatArray) -> tuple[FloatArray, float, str]:
        before = len(self.trace)
        x, objective, message = descend(landscape, start, max_iter=self.max_iter)
        best = min(self.trace[before:], key=lambda entry: entry["objective"])
        known = {name: v for name, v in best.items() if name not in ("stage", "start")}
        self.ends.append({"x": x, **known, "objective": objective, "message": message})
        return x, objective, message

    def _observe(self, point: Point) -> None:
        self._note(self.stage, point.values, self._gamma(point.theta), point.loss, point.objective)
        self.least = min(self.least, point.loss)
        # The number of steps of a descent is unknown, so progress within it is asymptotic.
        creep = 1.0 - 0.9 ** (len(self.trace) / (len(self.ends) + 1))
        self.watch.show(len(self.trace), self.least, len(self.ends) + creep, self.parts)

    def _note(
        self, stage: str, values: dict[str, float], gamma: Any, loss: float, objective: float
    ) -> None:
        start = min(len(self.ends), self.parts - 1)
        self.trace.append(
            {"stage": stage, "start": start, **values, "gamma": gamma, "loss": loss,
             "objective": objective}
        )  # fmt: skip

    def _gamma(self, theta: FloatArray) -> Any:
        """Return gamma as a parameter of the estimator; None if it is not tuned."""
        if "ard" in self.task.names:
            return np.exp(theta)
        return float(np.exp(theta[0])) if "gamma" in self.task.names else None
