"""Plots of fitted models, with matplotlib or plotly."""

from widemargin.reporting.plots import (
    certificate_history,
    decision_boundary,
    embedding_strengths,
    loo_landscape,
    margin_distribution,
    rank_map,
)

__all__ = [
    "certificate_history",
    "decision_boundary",
    "embedding_strengths",
    "loo_landscape",
    "margin_distribution",
    "rank_map",
]
