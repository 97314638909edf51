r"""Generalisation error bounds, one function per theorem.

====================  =========================================================================
function              theorem
====================  =========================================================================
vc, vc_lower          Smola et al. (2000), theorems 1.2 and 1.3 (with a constant c)
margin_cover          Smola et al. (2000), theorem 1.5, with 1.4 and 1.7
regression_cover      Smola et al. (2000), theorem 1.6, with 1.4
linear_margin         Smola et al. (2000), theorem 1.8 (with a constant c)
convex_combination    Smola et al. (2000), theorem 1.10 (with a constant c)
margin_distribution   Smola et al. (2000), theorem 2.1 (Shawe-Taylor and Cristianini 1998)
adaptive_margin       Smola et al. (2000), theorem 2.2 (Weston and Herbrich)
ordinal_margin        Herbrich et al. (2000), theorem 2.2, with independent pairs
shawe_taylor          Herbrich et al. (2000), theorem 2.3 (Shawe-Taylor et al. 1998)
====================  =========================================================================

They depend on the capacity of a function class, which is not an error rate:

====================  =========================================================================
vc_margin_dimension   Smola et al. (2000), (1.35)
fat_linear, fat_l1    Smola et al. (2000), theorems 1.7 and 1.9 (the latter with a constant c)
covering_number       Smola et al. (2000), theorem 1.4
kernel_spectrum       Carl and Stephani (1990), proposition 1.3.2: on the given samples
====================  =========================================================================

Two theorems bound quantities of the training itself:

====================  =========================================================================
perceptron            Smola et al. (2000), theorem 1.1, corrected: number of updates
adaboost              Smola et al. (2000), theorem 1.12: margins of the training samples
====================  =========================================================================

:func:`summary` lists the bounds that apply to a fitted model. Bounds on error rates are of type
:class:`Bound`, a float with a flag for vacuous bounds. The training samples are assumed to be drawn
independently from one distribution; for linear models its support is in a ball of radius R around
the origin of the feature space. With probability 1 - delta over the training set, the error rate on
new samples is below the bound.

The constants of these bounds are so large that the bounds exceed 1, and are vacuous, unless there
are tens of thousands of samples. They show which quantities make the error small, but they are not
estimates of it; use :mod:`widemargin.loo` for those.
"""

from widemargin._base.bound import Bound
from widemargin.assess.bounds.capacity import (
    CoveringNumber,
    covering_number,
    fat_l1,
    fat_linear,
    vc_margin_dimension,
)
from widemargin.assess.bounds.constant import convex_combination, linear_margin, vc, vc_lower
from widemargin.assess.bounds.cover import margin_cover, regression_cover
from widemargin.assess.bounds.margin import (
    adaptive_margin,
    margin_distribution,
    ordinal_margin,
    shawe_taylor,
)
from widemargin.assess.bounds.spectrum import EntropyNumber, KernelSpectrum, kernel_spectrum
from widemargin.assess.bounds.summary import summary
from widemargin.assess.bounds.table import AppliedBound, BoundSummary, NotApplied
from widemargin.problems.training_bounds import BoostingBound, adaboost, adaboost_rounds, perceptron

__all__ = [
    "AppliedBound",
    "BoostingBound",
    "Bound",
    "BoundSummary",
    "CoveringNumber",
    "EntropyNumber",
    "KernelSpectrum",
    "NotApplied",
    "adaboost",
    "adaboost_rounds",
    "adaptive_margin",
    "convex_combination",
    "covering_number",
    "fat_l1",
    "fat_linear",
    "kernel_spectrum",
    "linear_margin",
    "margin_cover",
    "margin_distribution",
    "ordinal_margin",
    "perceptron",
    "regression_cover",
    "shawe_taylor",
    "summary",
    "vc",
    "vc_lower",
    "vc_margin_dimension",
]
