"""Leave-one-out predictions and errors of fitted models, without retraining."""

from widemargin.assess.leave_one_out import LOOResult, decision_values, error, result

__all__ = ["LOOResult", "decision_values", "error", "result"]
