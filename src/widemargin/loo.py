"""Compute leave-one-out predictions and errors of a fitted model without retraining it.

``loo.result(model)`` needs no data: the model keeps what it was trained on.

==================  ========  ====================================================================
method              kind      what it computes
==================  ========  ====================================================================
exact               exact     the value of retraining without the row, by following the solution
                              path, event by event
linear_response     estimate  the first step of that path, as if no other row changed its group:
                              Opper and Winther (2000), (8.26)-(8.32), corrected
span                estimate  the same number by the name of Vapnik and Chapelle: the coefficient
                              times the squared distance to the span of the free vectors
jaakkola_haussler   bound     y f <= alpha k(x, x), Smola et al. (2000), (1.84) with its signs set
                              right; without intercept only
xi_alpha            bound     Joachims: 2 alpha R^2 + xi >= 1; with an intercept an estimate
support_vectors     bound     every support vector counts as an error
folds               estimate  ten folds take turns (all copies of a row in one fold); only for
                              machines without a path
==================  ========  ====================================================================

Which methods hold, and which one "auto" is, depends on how a model leaves samples out; each kind of
:class:`widemargin.fitted.base.FittedModel` says so itself and refuses the others:

- `fitted.by_path`: optima of a quadratic program have a solution path, and all methods but "folds".
- `fitted.by_refit`: linear programs, ordinal machines and other norms are trained again, "exact"
  without each row that the machine depends on, from the fitted optimum; "support_vectors" counts
  these rows.
- `fitted.by_response`: the mean-field equations have their own linear response, Opper and Winther
  (2000), (8.41), one factorisation for all rows; the scale of the probabilities stays as it was.
- `fitted.by_reading`: data in parts are not kept, and no row is left out.

What is left out: one row of weight w loses min(1, w) of its weight; gamma="scale" and balanced
class weights stay as they were on all rows. Several classes: the machines of the pairs that hold
the row's class are those without the row, the others as fitted; machines of one class against the
rest are all without it. NuSVC and NuSVR: at the C (and epsilon) that the fit found, NuLPSVC at the
lam. Ties count as errors. Where the threshold is not unique, it is the middle of its interval, in
every left-out problem too.
"""

from widemargin.assess.leave_one_out import LOOResult, decision_values, error, result

__all__ = ["LOOResult", "decision_values", "error", "result"]
