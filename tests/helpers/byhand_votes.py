"""Boosting and radial-basis networks, written a second time for the tests.

Nothing here imports widemargin: votes are counted one by one, every stump is tried.
"""

from __future__ import annotations

import numpy as np


def stump_votes(stump, X):
    """Return -1 and +1: sign where the feature exceeds the threshold."""
    feature, threshold, sign = stump
    return np.where(X[:, feature] > threshold, sign, -sign).astype(float)


def round_by_round(votes, y, weight):
    """Return the weighted errors of AdaBoost's rounds, its coefficients and the loss left.

    votes has a row for each hypothesis; each row of data weighs its share of the loss so far.
    """
    share = weight / weight.sum()
    F, errors, alphas = np.zeros(len(y)), [], []
    for vote in votes:
        mass = share * np.exp(-y * F - (-y * F).max())
        error = float(mass[vote != y].sum() / mass.sum())
        with np.errstate(divide="ignore"):
            alpha = 0.5 * float(np.log1p(-error) - np.log(error))
        errors.append(error)
        alphas.append(alpha)
        F = F + alpha * vote
    with np.errstate(over="ignore"):
        return np.array(errors), np.array(alphas), float(share @ np.exp(-y * F))


def masses(votes, alphas, y, weight):
    """Return what each row weighs in each round, a row for each round."""
    share, F, found = weight / weight.sum(), np.zeros(len(y)), []
    for vote, alpha in zip(votes, alphas, strict=True):
        mass = share * np.exp(-y * F - (-y * F).max())
        found.append(mass / mass.sum())
        F = F + alpha * vote
    return np.array(found)


def least_stump_error(X, y, mass):
    """Return the least weighted error of all stumps, the constants included."""
    best = min(float(mass[y > 0].sum()), float(mass[y < 0].sum()))
    for column in X.T:
        for threshold in np.unique(column):
            error = float(mass[np.where(column > threshold, 1.0, -1.0) != y].sum())
            best = min(best, error, float(mass.sum()) - error)
    return best


def margins(values, codes):
    """Return y f, or with several classes half of f_y less the largest other value."""
    if values.ndim == 1:
        return np.where(codes == 1, values, -values)
    return np.array(
        [0.5 * (row[k] - np.delete(row, k).max()) for row, k in zip(values, codes, strict=True)]
    )


def network(X, centres, widths):
    """Return the bumps exp(-|x - c|^2 / (2 width^2)), a column for each centre."""
    distance = ((X[:, None, :] - centres[None]) ** 2).sum(axis=2)
    return np.exp(-0.5 * distance / widths**2)


def network_error(X, y, share, centres, widths, coef, ridge):
    """Return half the mean squared error plus the decay, and its gradient by the outputs."""
    bumps = network(X, centres, widths)
    wrong = bumps @ coef - y
    gradient = bumps.T @ (share * wrong) + ridge * coef
    return 0.5 * float(share @ wrong**2) + 0.5 * ridge * float(coef @ coef), gradient
