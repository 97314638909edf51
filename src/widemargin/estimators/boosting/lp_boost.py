"""LPBoost: the vote of hypotheses with the best soft margin, with a certificate."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from widemargin._base.bound import Bound
from widemargin._base.messages import warn
from widemargin._base.multiclass import check_classes, positive_classes
from widemargin._base.progress import Watch
from widemargin._base.threads import worker_threads
from widemargin._base.validation import (
    TrainingSet,
    canonical,
    check_fit,
    require_budget,
    require_number,
    seed_of,
)
from widemargin.certificate import Certificate, reason_of, worst
from widemargin.estimators._base.classification import (
    OneVsRestClassifier,
    ScoredClassifier,
    set_per_machine,
    shared_by_weight,
)
from widemargin.estimators._base.diagnostics import Displayed
from widemargin.estimators._base.rollback import whole_fit
from widemargin.estimators.boosting.base_learner import ClassifierLearner, check_base
from widemargin.estimators.boosting.votes import VotingEnsemble
from widemargin.problems import training_bounds
from widemargin.problems.boosting.soft_margin import SoftMarginVote
from widemargin.solvers.base import Budget
from widemargin.solvers.boosting import stump_learners
from widemargin.solvers.lp_boosting import ColumnLearner, VoteResult, solve

DEFAULT_STEPS = 1000  # interior-point steps; usually some tens are needed


class LPBoostClassifier(
    VotingEnsemble, OneVsRestClassifier, ScoredClassifier, Displayed, BaseEstimator
):
    r"""LPBoost: the weighted vote of decision stumps with the best soft margin.

    Among all convex combinations :math:`f = \sum_t \alpha_t g_t` of decision stumps, the one that
    maximises

    .. math:: \rho - \frac{1}{\nu \sum_j s_j} \sum_i s_i \max(0, \rho - y_i f(x_i))

    is found, a linear program (Demiriz, Bennett and Shawe-Taylor 2002): a margin :math:`\rho` of
    the samples, some of which may miss it at a price. :math:`y_i f(x_i)`, in [-1, 1], is the margin
    of a sample and :math:`s_i` its weight. At most a fraction nu of the samples has a margin below
    rho. AdaBoost increases the same margins, but to no known optimum, and with no tolerance for
    wrong labels.

    The program has a variable for every stump. Those that matter are generated as needed: the
    stump of the largest edge, an exact search over all features, thresholds and signs, also bounds
    how much all stumps that were not generated could add. Hence the certificate encloses the
    optimum over all of them, in exact arithmetic.

    Multiclass problems are one-vs-rest.

    Parameters
    ----------
    nu : float, default=0.1
        Fraction of the samples that may miss the margin, in (0, 1]. Below
        1 / n_samples the smallest margin is maximised. A good value is somewhat above the fraction
        of noisy labels; larger values give fewer stumps and faster fits.
    base : classifier, default=None
        Base learner: any scikit-learn classifier whose `fit` accepts sample_weight, or None for the
        built-in decision stumps. It is cloned and fitted as by :class:`AdaBoostClassifier`, one
        clone per round. See the notes.
    tol : float, default=1e-6
        Gap to reach, in the units of the margins.
    cache_size : float, default=4000
        Memory limit in megabytes: for the binned features of stumps, one byte per entry of X (`fit`
        raises ValueError if it would be exceeded), and for the values of the hypotheses.
    max_iter : int, default=-1
        Maximum number of interior-point steps per binary problem; -1 means 1000.
    time_limit : float, default=None
        Time limit in seconds; None: no limit.
    random_state : int, RandomState or None, default=None
        Seed for `base`, and for the subsample whose quantiles define the bins of the search. None
        is a fixed seed.
    verbose : int, default=0
        If positive, display a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, sorted.
    alphas_ : ndarray of shape (n_hypotheses,)
        Positive coefficients, largest first, multiples of 2**-52 that sum to 1. With more than two
        classes, `alphas_`, `estimators_`, `rho_` and `distribution_` have one entry per class.
    estimators_ : list
        Hypotheses: stumps as named tuples (feature, threshold, sign), or fitted clones of `base`.
    rho_ : float
        Margin of the program.
    distribution_ : ndarray of shape (n_samples,)
        Dual variables, the weights of the samples that make the vote hardest. They sum to 1, up to
        rounding, and a sample has at most a fraction 1 / nu of its share in the weights. Up to the
        gap only samples with margins of at most rho have any.
    margins_ : ndarray of shape (n_samples,)
        Margins of the training samples, y f(x); with more than two classes (f_y - largest other
        f) / 2. NaN for samples of zero weight whose class has no sample of positive weight.
    margin_limit_ : float or ndarray of shape (n_classes,)
        Upper bound on the objective above, and on the smallest training margin, of any convex
        combination of stumps: ``-certificate_.dual``. Stumps only.
    certificate_ : Certificate
        Objective (the negative of the one above) of the stored coefficients and `rho_`, and lower
        bound; with more than two classes the worst of `certificates_`.
    certificates_ : list of Certificate
        Certificates of the binary problems.
    n_iter_ : ndarray of shape (n_problems,)
        Number of interior-point steps.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in the sum of the coefficients. Stumps only.
    n_features_in_, feature_names_in_
        Number of features seen during `fit`, and their names if X has string column names.

    See Also
    --------
    AdaBoostClassifier : One hypothesis per round; AdaBoost and AdaBoost_Reg.
    NuLPSVC : The same program over kernel functions.

    Notes
    -----
    The decision function is in [-1, 1], and 0 predicts ``classes_[0]``. If no vote does better than
    chance, all decision values may be 0. There is no predict_proba: calibrate with
    ``sklearn.calibration.CalibratedClassifierCV``.

    With `base`, nothing is known about the classifiers that it has not returned: the lower bound of
    the certificate is the trivial one, -1. The fit then ends, and counts as converged, when a
    returned classifier has an edge that exceeds the margin of the vote on the known ones by `tol`
    at most, or was known.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from widemargin import LPBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LPBoostClassifier(nu=0.1).fit(X[::2], y[::2])
    >>> round(model.rho_, 3), round(model.score(X[1::2], y[1::2]), 2)
    (0.359, 0.95)
    >>> model.certificate_.gap < 1e-6
    True
    """

    def __init__(
        self,
        nu: float = 0.1,
        *,
        base: Any = None,
        tol: float = 1e-6,
        cache_size: float = 4000,
        max_iter: int = -1,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.base = base
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        require_number("nu", self.nu, "a number in (0, 1]", most=1.0)
        require_number("tol", self.tol, "a positive number")
        require_number("cache_size", self.cache_size, "a positive number of megabytes")
        require_budget(self.max_iter, self.time_limit, default=True)
        if self.base is not None:
            check_base(self.base)

    # -- fitting ---------------------------------------------------------------------------

    @whole_fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> LPBoostClassifier:
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
        self : LPBoostClassifier
            The fitted model.
        """
        self._check_parameters()
        X, y, weight = check_fit(
            self, X, y, sample_weight, numeric=False, accept_sparse=self._takes_sparse()
        )
        data = canonical(X, y, weight)
        self.classes_, codes = check_classes(data.y)
        positives = positive_classes(len(self.classes_))
        nu, blur = float(self.nu), data.cost_error
        problems = [SoftMarginVote(codes == k, data.weight, nu, blur) for k in positives]
        if self.base is None:
            self._check_memory(data.X)
        name = type(self).__name__
        with (
            worker_threads() as threads,
            Watch(name, self.tol, self.verbose, self.time_limit, len(problems)) as watch,
        ):
            learners = self._learners(data, problems, threads)
            results = [
                self._solved(problem, learner, watch)
                for problem, learner in zip(problems, learners, strict=True)
            ]
        self._keep(data, problems, results)
        self._warn_unconverged(results)
        return self

    def _learners(
        self, data: TrainingSet, problems: list[SoftMarginVote], threads: int
    ) -> list[ColumnLearner]:
        seed, positives = seed_of(self.random_state), [p.positive for p in problems]
        if self.base is None:
            return [*stump_learners(data.X, positives, exact=True, seed=seed, threads=threads)]
        total = float(data.weight.sum())
        return [
            ClassifierLearner(self.base, data.X, positive, total, (seed, k))
            for k, positive in enumerate(positives)
        ]

    def _solved(self, problem: SoftMarginVote, learner: ColumnLearner, watch: Watch) -> VoteResult:
        watch.next_part()
        steps = int(self.max_iter) if self.max_iter > 0 else DEFAULT_STEPS
        budget = Budget(steps, watch, 1e6 * float(self.cache_size))
        return solve(problem, learner, tol=float(self.tol), budget=budget)

    def _keep(
        self, data: TrainingSet, problems: list[SoftMarginVote], results: list[VoteResult]
    ) -> None:
        """Store the votes and their certificates."""
        self._keep_votes([r.hypotheses for r in results], [r.alpha for r in results])
        rhos = [p.demand(r.margins) for p, r in zip(problems, results, strict=True)]
        self.certificates_ = [
            problem.certificate(
                result.margins, rho, result.edge, tol=float(self.tol), n_iter=result.n_iter,
                satisfied=result.status == "converged",
            )
            for problem, result, rho in zip(problems, results, rhos, strict=True)
        ]  # fmt: skip
        self.certificate_ = worst(self.certificates_)
        self.n_iter_ = np.array([result.n_iter for result in results], dtype=np.int32)
        shares = shared_by_weight(np.array([result.distribution for result in results]), data)
        set_per_machine(self, alphas_=self._alphas_, rho_=np.array(rhos), distribution_=shares)
        pairs = zip(problems, results, strict=True)
        self.margins_ = self._training_margins(data, [p.label * r.margins for p, r in pairs])

    def _warn_unconverged(self, results: list[VoteResult]) -> None:
        proof: Certificate = self.certificate_
        if proof.converged:
            return
        how, advice = reason_of([result.status for result in results])
        state = (
            f"the gap is {proof.gap:.2e} (asked: {self.tol:g}; objective {proof.primal:.6g}, lower "
            f"bound {proof.dual:.6g}). {self._worth(results)}"
            if self.base is None
            else "base still returns hypotheses that improve the margin. "
        )
        warn(
            f"{type(self).__name__} did not converge ({how}): after {proof.n_iter} steps {state}To "
            f"go on, {advice}; a larger nu is faster",
            ConvergenceWarning,
        )

    def _worth(self, results: list[VoteResult]) -> str:
        """Return what a model that has not converged is worth."""
        if all(result.margins.any() for result in results):
            return "The margins are usable within that gap. "
        return "No vote better than none has been found: the decision values are 0. "

    # -- fitted attributes -----------------------------------------------------------------

    @property
    def margin_limit_(self) -> Any:
        """Upper bound on the objective and on the smallest margin of any vote of stumps."""
        check_is_fitted(self)
        if not self._ensembles_[0].has_stumps:
            raise AttributeError("margin_limit_ is there for stumps only (base=None)")
        limits = [-certificate.dual for certificate in self.certificates_]
        return np.array(limits) if len(limits) > 1 else limits[0]

    def margin_bound(self, rho: float) -> Bound:
        r"""Return a bound on the fraction of training margins below rho.

        At most a fraction nu is below `rho_`, and by Markov's inequality at most
        :math:`\nu (P + \rho^*) / (\rho^* - \rho)` below a smaller rho, where P is the objective and
        :math:`\rho^*` is `rho_`. Samples are counted by weight. With more than two classes it is
        the sum of the one-vs-rest bounds (union bound): a margin is below rho only if it is below
        rho in one of the binary problems.

        Parameters
        ----------
        rho : float
            Margin threshold.

        Returns
        -------
        Bound
            A float; values of 1 or more are vacuous.
        """
        check_is_fitted(self)
        nu, rhos = float(self.nu), np.atleast_1d(self.rho_).tolist()
        pairs = zip(self.certificates_, rhos, strict=True)
        each = [training_bounds.vote_margin(c.primal, own, nu, rho) for c, own in pairs]
        return each[0] if len(each) == 1 else Bound(sum(each), each[0].name, of=each[0].of)
