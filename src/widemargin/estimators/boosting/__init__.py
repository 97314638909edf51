"""AdaBoost and its regularised variant AdaBoost_Reg: AdaBoostClassifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from widemargin._base.messages import warn
from widemargin._base.multiclass import check_classes, positive_classes
from widemargin._base.progress import Bar, Watch
from widemargin._base.threads import worker_threads
from widemargin._base.typing import Matrix
from widemargin._base.validation import (
    canonical,
    check_fit,
    require_choice,
    require_integer,
    require_number,
    require_time_limit,
    seed_of,
)
from widemargin.estimators._base.classification import (
    OneVsRestClassifier,
    ScoredClassifier,
    set_per_machine,
)
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.boosting.base_learner import ClassifierLearner, check_base
from widemargin.estimators.boosting.prediction import BoostedPrediction
from widemargin.problems.boosting import BoostingProblem
from widemargin.solvers.base import Budget
from widemargin.solvers.boosting import BoostingResult, Learner, solve, stump_learners


class AdaBoostClassifier(BoostedPrediction, OneVsRestClassifier, ScoredClassifier, BaseEstimator):
    r"""AdaBoost classifier, optionally regularised (AdaBoost_Reg).

    Each round adds the hypothesis :math:`g_t` of least weighted error :math:`\varepsilon_t` with
    the coefficient :math:`\alpha_t = \frac12 \ln \frac{1 - \varepsilon_t}{\varepsilon_t}` and
    increases the weights of the samples that it misclassifies (Smola et al. 2000, Table 1.2). The
    decision function :math:`f = \sum_t \alpha_t g_t / \sum_t \alpha_t` is in [-1, 1];
    :math:`y f(x)` is the margin of a sample, and theorem 1.12 bounds the fraction of training
    samples with small margins.

    The built-in decision stumps minimise the weighted error exactly (those of scikit-learn minimise
    the Gini impurity) over all features, thresholds and signs, including the constant hypothesis.
    Ties (errors within 1e-12 of the total weight) are broken by the smallest feature, then the
    smallest threshold, then the sign +1.

    Multiclass problems are one-vs-rest.

    Parameters
    ----------
    n_rounds : int, default=50
        Maximum number of rounds, positive.
    base : classifier, default=None
        Base learner: any scikit-learn classifier whose `fit` accepts sample_weight, or None for the
        built-in decision stumps. It is cloned in every round and fitted to labels -1 and +1 with
        weights that add up to the sum of the sample weights; its random_state parameters are set to
        a new seed in every round.
    reg : float, default=0.0
        Parameter C of AdaBoost_Reg, which allows smaller margins for samples with large average
        weights; 0 is AdaBoost. As the weights of a round sum to 1, useful values grow with the
        number of samples to the power `reg_power`. Suggested grid: half decades from 1e-3 to 1
        times ``n_samples ** reg_power``; see the notes.
    reg_power : float, default=2
        Exponent p of AdaBoost_Reg, at least 1. No effect with ``reg=0``.
    binning : {"exact", "histogram"}, default="exact"
        Candidate thresholds of the stumps: all, or those between 255 bins of about equal numbers of
        samples. Both are equivalent if no feature has more than 255 distinct values. No effect with
        another `base`.
    cache_size : float, default=4000
        Memory limit for the binned features of stumps, in megabytes: one byte per entry of X, dense
        or sparse. `fit` raises ValueError if it would be exceeded.
    time_limit : float, default=None
        Time limit in seconds, after which no further round is started. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for `base`, and for the subsample whose quantiles define the bins. None is a fixed
        seed.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    alphas_ : ndarray of shape (n_hypotheses,)
        Coefficients of the hypotheses (b / 2 for AdaBoost_Reg). With more than two classes,
        `alphas_`, `errors_`, `estimators_` and `stopped_` are lists with one entry per class.
    errors_ : ndarray of shape (n_hypotheses,)
        Weighted error of each hypothesis in its round.
    estimators_ : list
        Hypotheses: stumps as named tuples (feature, threshold, sign), or fitted clones of `base`.
    n_rounds_ : int
        Number of hypotheses; with more than two classes, the maximum over the classes.
    stopped_ : str
        Reason for stopping. "n_rounds": the maximum was reached. "perfect": a hypothesis had zero
        error; the model consists of it alone. "no_edge": the weighted error of the next hypothesis
        was not below 1/2. "no_edge_at_all": so for the first hypothesis; the model is constant.
        "reg": adding the next hypothesis does not decrease the regularised loss, or decreases it
        without bound. "time_limit": the time limit was reached.
    margins_ : ndarray of shape (n_samples,)
        Margins of the training samples, y f(x); with more than two classes (f_y - largest other
        f) / 2. NaN for samples of zero weight whose class has no sample of positive weight.
    margin_limit_ : float or ndarray of shape (n_classes,)
        Upper bound on the smallest training margin of any convex combination of the stumps that
        `binning` admits; compare it with the minimum of `margins_`. Stumps only.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the sum of the coefficients. Stumps only.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    RBFNetClassifier : Radial basis function network, suitable as `base`.
    bounds.adaboost : Bound on the training margins, theorem 1.12.

    Notes
    -----
    AdaBoost_Reg is a reconstruction of Raetsch, Onoda and Mueller (2001): with
    :math:`\mu_i = \sum_t c_t w_i^t` the average weight of a sample, the margins in its loss are
    :math:`\tilde\rho_i = y_i f(x_i) + C \mu_i^p`. The power and the scale of C may differ from the
    authors'; see :mod:`widemargin.problems.boosting`.

    Values of C were compared by cross-validation on five data sets of 150 to 468 samples, with RBF
    networks as `base`, p = 2 and the half decades 1e2, 3e2, ..., 1e6. The least errors were mostly
    at 0.01 to 0.5 times :math:`m^2` (3e2 to 1e5), and by 0 to 6 percentage points below those of
    C = 1e2, which hardly differ from those of AdaBoost. From about :math:`m^2` on (3e4 for 150
    samples, 3e5 for 468) the run stops after the first round, so larger values are all the same.
    ``python -m benchmarks literature`` repeats the comparison.

    There is no class_weight parameter: scaling the weights of a class is equivalent to adding a
    constant to the sum of the hypotheses, whose effect decreases with the number of rounds.

    A weighted error within 1e-12 of 1/2 counts as 1/2. A score of exactly 0 predicts
    ``classes_[0]``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from widemargin import AdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AdaBoostClassifier(n_rounds=100).fit(X[::2], y[::2])
    >>> model.estimators_[0]
    Stump(feature=22, threshold=112.85, sign=-1)
    >>> model.margins_.min().round(2), round(model.score(X[1::2], y[1::2]), 2)
    (np.float64(0.21), 0.95)
    >>> model.margin_bound(rho=0.1)
    Bound(9.562e-05)
    """

    def __init__(
        self,
        n_rounds: int = 50,
        *,
        base: Any = None,
        reg: float = 0.0,
        reg_power: float = 2,
        binning: str = "exact",
        cache_size: float = 4000,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_rounds = n_rounds
        self.base = base
        self.reg = reg
        self.reg_power = reg_power
        self.binning = binning
        self.cache_size = cache_size
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    # -- parameters ------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        require_integer("n_rounds", self.n_rounds, "a positive integer")
        require_number("reg", self.reg, "a number, not negative", least=0.0)
        require_number("reg_power", self.reg_power, "a number, at least 1", least=1.0)
        require_choice("binning", self.binning, ("exact", "histogram"))
        require_number("cache_size", self.cache_size, "a positive number of megabytes")
        require_time_limit(self.time_limit)
        if self.base is not None:
            check_base(self.base)
        self._warn_unused()

    def _warn_unused(self) -> None:
        unused = []
        if self.reg == 0 and self.reg_power != 2:
            unused.append(f"reg_power={self.reg_power!r} has no effect: reg=0 is plain AdaBoost")
        if self.base is not None and self.binning != "exact":
            unused.append(f"binning={self.binning!r} has no effect: base is not a stump")
        for message in unused:
            warn(message, UserWarning)

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AdaBoostClassifier:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Class labels; at least two classes must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, not negative: weight 2 is equivalent to repeating the sample, weight 0
            to omitting it. None: all weights are 1.

        Returns
        -------
        self : AdaBoostClassifier
            The fitted model.
        """
        self._check_parameters()
        X, y, weight = check_fit(
            self, X, y, sample_weight, numeric=False, accept_sparse=self._takes_sparse()
        )
        data = canonical(X, y, weight)
        self.classes_, codes = check_classes(data.y)
        positives = positive_classes(len(self.classes_))
        C, power = float(self.reg), float(self.reg_power)
        problems = [BoostingProblem(codes == k, data.weight, C, power) for k in positives]
        if self.base is None:
            results = self._boosted_stumps(data.X, problems)
        else:
            results = self._boosted_classifiers(data.X, problems)
        self._keep(results)
        self.margins_ = self._training_margins(data, [result.F for result in results])
        self._warn_stopped_early(results)
        return self

    def _boosted_stumps(self, X: Matrix, problems: list[BoostingProblem]) -> list[BoostingResult]:
        self._check_memory(X)
        positives, exact = [p.positive for p in problems], self.binning == "exact"
        seed = seed_of(self.random_state)
        with worker_threads() as threads:
            learners = stump_learners(X, positives, exact=exact, seed=seed, threads=threads)
            return self._boosted(problems, learners)

    def _boosted_classifiers(
        self, X: Matrix, problems: list[BoostingProblem]
    ) -> list[BoostingResult]:
        seed = seed_of(self.random_state)
        learners = [
            ClassifierLearner(self.base, X, p.positive, float(p.weight.sum()), (seed, k))
            for k, p in enumerate(problems)
        ]
        return self._boosted(problems, learners)

    def _boosted(
        self, problems: list[BoostingProblem], learners: Sequence[Learner]
    ) -> list[BoostingResult]:
        """Run boosting for each binary problem."""
        name, n_rounds = type(self).__name__, int(self.n_rounds)
        watch = Watch(name, 1.0, 0, self.time_limit)
        with Bar(name, self.verbose, len(problems) * n_rounds) as bar:

            def monitor(rounds: int, error: float) -> bool:
                bar.advance(f"weighted error {error:.4f}")
                return watch(0, np.nan)

            return [
                solve(problem, learner, budget=Budget(n_rounds, monitor))
                for problem, learner in zip(problems, learners, strict=True)
            ]

    def _keep(self, results: list[BoostingResult]) -> None:
        """Store the ensembles and their coefficients."""
        self._keep_votes([r.hypotheses for r in results], [r.alpha for r in results])
        set_per_machine(
            self,
            alphas_=self._alphas_,
            errors_=[result.error for result in results],
            stopped_=[result.reason for result in results],
        )
        self.n_rounds_ = max(len(result.alpha) for result in results)

    def _warn_stopped_early(self, results: list[BoostingResult]) -> None:
        reasons = {result.reason for result in results}
        if "no_edge_at_all" in reasons:
            warn(
                "no hypothesis of the first round has a weighted error below 1/2: the model is the "
                "constant of the heavier class. The features tell nothing about the labels, or "
                "base is too weak",
                UserWarning,
            )
        if "time_limit" in reasons:
            warn(
                f"time_limit={self.time_limit!r} was reached after {self.n_rounds_} of "
                f"{self.n_rounds} rounds; raise it to go on",
                ConvergenceWarning,
            )
