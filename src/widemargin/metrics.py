"""Metrics for ordered ranks and rankings.

====================  =========================================================================
preference_risk       share of pairs of rows that a score puts in the wrong order
preference_scorer     one minus it, as a scorer for scikit-learn's searches and cross-validation
====================  =========================================================================
"""

from widemargin.assess.metrics import PreferenceScorer, preference_risk, preference_scorer

__all__ = ["PreferenceScorer", "preference_risk", "preference_scorer"]
