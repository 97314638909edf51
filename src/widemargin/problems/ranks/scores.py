"""Score every rank by how far a utility lies within its bounds."""

from __future__ import annotations

import numpy as np

from widemargin._base.typing import FloatArray


def rank_scores(above: FloatArray) -> FloatArray:
    r"""Return the distance of each utility to the nearer bound of every rank, negative outside.

    The score of rank r is :math:`\min(f - \theta_{r-1}, \theta_r - f)`, without a bound at either
    end. The first of the largest scores belongs to the rank r with
    :math:`\theta_{r-1} < f \le \theta_r`, Herbrich et al. (2000), (2.19): on a threshold both
    neighbours score 0.

    Parameters
    ----------
    above : ndarray of shape (n, n_ranks - 1)
        Utilities less the thresholds, which do not decrease.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin.problems.ranks.scores import rank_scores
    >>> rank_scores(np.array([[0.5, -1.0], [1.5, 0.25]]))
    array([[-0.5 ,  0.5 , -1.  ],
           [-1.5 , -0.25,  0.25]])
    """
    scores = np.full((above.shape[0], above.shape[1] + 1), np.inf)
    scores[:, 1:] = above
    np.minimum(scores[:, :-1], -above, out=scores[:, :-1])
    return scores
