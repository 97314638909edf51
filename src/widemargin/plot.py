"""Plots of fitted models, on Matplotlib's axes or as Plotly figures.

=====================  =========================================================================
decision_boundary      regions, margin, support vectors and leave-one-out errors in two dimensions
rank_map               regions of the ranks of :class:`~widemargin.OrdinalSVC`
margin_distribution    distribution of the margins, by default the leave-one-out margins
embedding_strengths    coefficients, largest first: Opper and Winther (2000), Fig. 8.2
loo_landscape          leave-one-out error as a function of two parameters
certificate_history    bounds on the optimum per round of the solver
=====================  =========================================================================

All functions take a fitted model, or a pipeline that ends in one. With ``backend="matplotlib"``
they draw on `ax`, or on new axes, and return the axes; with ``backend="plotly"`` they return a
``plotly.graph_objects.Figure``. ``pip install 'widemargin[report]'`` installs both libraries.
Classes differ in their markers and in colours that colour-blind readers can distinguish.
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
