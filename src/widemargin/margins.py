"""Compute functional and geometric margins of samples.

====================  =========================================================================
margins               functional margins y f(x), (1.11) of Smola et al. (2000)
geometric             the same in units of length: distances from the boundary, (1.14)
margin_error          share of rows with a margin below rho, (1.30)
====================  =========================================================================

A row with a margin below zero is misclassified; one with margin zero lies on the boundary, where
the prediction is a matter of convention. On the training rows large margins bound the error on new
rows (:mod:`widemargin.bounds`).
"""

from widemargin.assess.margins import geometric, margin_error, margins

__all__ = ["geometric", "margin_error", "margins"]
