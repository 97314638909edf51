"""Metrics for ordered ranks and rankings.

====================  =========================================================================
preference_risk       fraction of pairs of samples that a score puts in the wrong order
preference_scorer     one minus that risk, as a scorer for cross-validation and parameter search
====================  =========================================================================
"""

from widemargin.assess.metrics import PreferenceScorer, preference_risk, preference_scorer

__all__ = ["PreferenceScorer", "preference_risk", "preference_scorer"]
