"""Metrics for ranks: the preference risk and scorers made of it."""

from widemargin.assess.metrics import PreferenceScorer, preference_risk, preference_scorer

__all__ = ["PreferenceScorer", "preference_risk", "preference_scorer"]
