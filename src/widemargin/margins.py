"""Functional and geometric margins of samples.

====================  =========================================================================
margins               functional margins y f(x), (1.11) of Smola et al. (2000)
geometric             geometric margins: signed distances from the boundary, (1.14)
margin_error          fraction of samples with a margin below rho, (1.30)
====================  =========================================================================

A sample with a negative margin is misclassified; one with margin zero is on the boundary, where the
prediction is a matter of convention. Large margins on the training set bound the error on new
samples (:mod:`widemargin.bounds`).
"""

from widemargin.assess.margins import geometric, margin_error, margins

__all__ = ["geometric", "margin_error", "margins"]
