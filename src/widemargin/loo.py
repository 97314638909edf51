"""Leave-one-out predictions and errors of fitted models.

``loo.result(model)`` takes no data, since a fitted model keeps its training set.

==================  ========  ====================================================================
method              kind      what it computes
==================  ========  ====================================================================
exact               exact     decision values after retraining without the sample, obtained by
                              following the solution path
linear_response     estimate  first step of that path, as if no other sample became free or bound:
                              Opper and Winther (2000), (8.26)-(8.32), corrected
span                estimate  the same number under the name of Vapnik and Chapelle: the coefficient
                              times the squared distance to the span of the free support vectors
jaakkola_haussler   bound     y f <= alpha k(x, x), Smola et al. (2000), (1.84) with corrected
                              signs; without intercept only
xi_alpha            bound     Joachims: 2 alpha R^2 + xi >= 1; an estimate with an intercept
support_vectors     bound     every support vector counts as an error
folds               estimate  ten-fold cross-validation (all copies of a sample in one fold); only
                              for models without a solution path
==================  ========  ====================================================================

The available methods, and the choice of "auto", depend on the estimator: each kind of
:class:`widemargin.fitted.base.FittedModel` has its own set and raises for the others.

- `fitted.by_path`: optima of a quadratic program have a solution path; all methods but "folds".
- `fitted.by_refit`: linear programs, ordinal regression and other norms are refitted; "exact"
  refits without each sample that the model depends on, warm-started from the fitted optimum, and
  "support_vectors" counts these samples.
- `fitted.one_class`: as before, without "support_vectors"; an error is a sample that the model
  fitted without it flags as an outlier.
- `fitted.by_response`: the mean-field equations have their own linear response, Opper and Winther
  (2000), (8.41), with one factorisation for all samples; the scale of the probabilities is not
  recomputed.
- `fitted.by_formula`: the leave-one-out predictions of Gaussian-process regression are a closed
  form, "exact"; amplitude and noise keep their values on all samples.
- `fitted.by_reading`: data in parts are not kept, so leave-one-out is not available.

Conventions: a sample of weight w loses min(1, w) of its weight; gamma="scale" and balanced class
weights keep their values on all samples. One-vs-one: only the pairs with the class of the sample
are solved without it; one-vs-rest: all binary problems are. NuSVC and NuSVR use the equivalent C
(or epsilon) of the fit, as do ReducedHullSVC and TubeSVR, and NuLPSVC the equivalent lam. Refits
would change these, so that `kind` is "exact at fixed C" (or epsilon, or lam). If a fit or a refit
ends above its tolerance, `kind` is "estimate" and a warning reports the number of such fits.
`LOOResult.is_exact` is true for all exact kinds. Ties count as errors. A threshold that is not
unique is the midpoint of its interval, also without the sample.
"""

from widemargin.assess.leave_one_out import LOOResult, decision_values, error, result

__all__ = ["LOOResult", "decision_values", "error", "result"]
