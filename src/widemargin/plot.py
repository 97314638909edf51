"""Plots of fitted models, on Matplotlib's axes or as Plotly figures.

=====================  =========================================================================
decision_boundary      regions, margin, support vectors and leave-one-out errors in a plane
rank_map               the bands that :class:`~widemargin.OrdinalSVC` gives to ranks
margin_distribution    margins of the labels, by default by the model without the row
embedding_strengths    coefficients, largest first: Opper and Winther (2000), Fig. 8.2
loo_landscape          leave-one-out error over two parameters
certificate_history    bounds on the optimum, round by round
=====================  =========================================================================

All take a fitted model (pipelines that end in one, too). With ``backend="matplotlib"`` they draw on
`ax`, or on new axes, and return the axes; with ``backend="plotly"`` they return a
``plotly.graph_objects.Figure``. Both come with ``pip install 'widemargin[report]'``. Classes differ
by colours that colour-blind readers can tell apart, and by their markers.
"""

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
