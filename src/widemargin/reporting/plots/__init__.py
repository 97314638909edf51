"""Plots of fitted models as figures of Matplotlib or Plotly: see :mod:`widemargin.plot`."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.validation import require, require_bool
from widemargin.assess.margins import margins as margins_of
from widemargin.estimators._base.inspection import class_scores
from widemargin.fitted.record import machine_of, record_of
from widemargin.reporting import figures
from widemargin.reporting.plots import pictures as _pictures
from widemargin.reporting.plots.backends import show
from widemargin.reporting.plots.landscapes import landscape_of
from widemargin.reporting.plots.plotted_rows import (
    ask,
    check_classifier,
    plane_around,
    rows_shown,
)
from widemargin.reporting.strengths import are_shares, strengths


def decision_boundary(
    est: Any,
    X: Any = None,
    y: Any = None,
    *,
    ax: Any = None,
    backend: str = "matplotlib",
    features: Any = None,
    marks: bool = True,
    resolution: int = 160,
) -> Any:
    """Plot the decision boundary of a classifier in a plane of two features, with the samples.

    With two classes, the solid line is the decision boundary, where the decision function is 0, and
    the dashed lines are its levels -1 and 1, the margin of a support vector machine (one standard
    deviation for :class:`~widemargin.MeanFieldGPClassifier`). The colour fades towards the
    boundary. With more classes, each region has the colour of the predicted class.

    Training samples with a nonzero coefficient have a ring whose size grows with the coefficient.
    Crosses mark errors: leave-one-out errors for training samples, prediction errors for other
    samples.

    Parameters
    ----------
    est : estimator
        A fitted classifier of widemargin, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features), default=None
        Samples to plot. None selects the training samples, which the model has kept; they must be
        passed for a pipeline with a step that has no ``inverse_transform``.
    y : array-like of shape (n_samples,), default=None
        Labels of the samples.
    ax : matplotlib Axes, default=None
        Axes to draw on; None creates new axes.
    backend : {"matplotlib", "plotly"}, default="matplotlib"
        Plotting library.
    features : (int, int), default=None
        The two features to plot, if X has more than two. The decision function is evaluated with
        all other features at their mean over the plotted samples, so that the class shown at the
        position of a sample may differ from the class predicted for it.
    marks : bool, default=True
        Whether to draw rings and crosses. Crosses need leave-one-out, which is slow for models
        that are refitted for it.
    resolution : int, default=160
        Number of grid points along each axis.

    Returns
    -------
    Axes or plotly Figure
        The plot.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from widemargin import SVC, plot
    >>> model = SVC(C=10).fit(*make_moons(60, noise=0.2, random_state=0))
    >>> figure = plot.decision_boundary(model, backend="plotly")
    >>> [trace.name for trace in figure.data if trace.name]
    ['0', '1', 'support vector', 'wrong when left out']
    """
    require_bool("marks", marks)
    shown = rows_shown(est, X, y, "decision_boundary")
    plane = plane_around(shown, features, resolution)
    scores = np.asarray(ask(shown, "decision_function", plane.points), dtype=np.float64)
    scores = class_scores(machine_of(est), scores)
    return show(_pictures.boundary(shown, plane, scores, marks=marks), ax, backend)


def rank_map(
    est: Any,
    X: Any = None,
    y: Any = None,
    *,
    ax: Any = None,
    backend: str = "matplotlib",
    features: Any = None,
    resolution: int = 160,
) -> Any:
    """Plot the regions of the ranks of an ordinal model in a plane, from dark (low) to light.

    Solid lines between the regions are the contours of the utility at the thresholds; dotted lines
    are other contours of the utility.

    Parameters
    ----------
    est : estimator
        A fitted :class:`~widemargin.OrdinalSVC`, or a pipeline that ends in one.
    X, y, ax, backend, features, resolution
        As for :func:`decision_boundary`.

    Returns
    -------
    Axes or plotly Figure
        The plot.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import OrdinalSVC, plot
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(80, 2))
    >>> model = OrdinalSVC().fit(X, np.digitize(X[:, 0] + X[:, 1], [-0.5, 0.5]))
    >>> figure = plot.rank_map(model, backend="plotly")
    >>> [trace.name for trace in figure.data if trace.name]
    ['0', '1', '2']
    """
    machine = check_classifier(est, "rank_map")
    fix = "a fitted OrdinalSVC (without qid, or with pooled_ranks=True)"
    ordinal = hasattr(machine, "utility") and hasattr(machine, "thresholds_")
    require(ordinal, "est", machine, fix)
    shown = rows_shown(est, X, y, "rank_map")
    plane = plane_around(shown, features, resolution)
    utility = np.asarray(ask(shown, "utility", plane.points), dtype=np.float64)
    return show(_pictures.ranks(shown, plane, utility, machine.thresholds_), ax, backend)


def margin_distribution(
    est: Any, X: Any = None, y: Any = None, *, ax: Any = None, backend: str = "matplotlib"
) -> Any:
    """Plot the cumulative distribution of the margins.

    The margins are those of :func:`widemargin.margins.margins`. The leave-one-out margin with
    several classes is the score of the label minus the best other score. Samples with a negative
    margin are misclassified.

    Parameters
    ----------
    est : estimator
        A fitted classifier of widemargin, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features), default=None
        Samples. None selects the leave-one-out margins of the training samples, see
        :mod:`widemargin.loo`.
    y : array-like of shape (n_samples,), default=None
        Labels of the samples.
    ax, backend
        As for :func:`decision_boundary`.

    Returns
    -------
    Axes or plotly Figure
        The plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, plot
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> figure = plot.margin_distribution(model, backend="plotly")
    >>> sum(len(trace.x) for trace in figure.data if trace.name)  # one step per sample
    150
    """
    check_classifier(est, "margin_distribution")
    require((X is None) == (y is None), "y", y, "given together with X, or both left out")
    if X is None:
        record = record_of(est)
        left_out = record.decision_values()
        model = record.require("plot.margin_distribution without X and y")
        margins = model.label_margin(left_out)[0][model.data.given_weight > 0]
    else:
        margins = margins_of(est, X, y)
    found = {"task": "classification", "margins": {"values": np.sort(margins)}}
    figure = figures.margin_figure(found)
    what = "leave-one-out margin" if X is None else "margin of the label"
    figure["layout"]["xaxis"]["title"]["text"] = what
    return show(_with_legend(figure), ax, backend)


def embedding_strengths(est: Any, *, ax: Any = None, backend: str = "matplotlib") -> Any:
    """Plot the absolute coefficients of the training samples, with leave-one-out errors marked.

    As in Fig. 8.2 of Opper and Winther (2000), sorted by decreasing strength: errors are found
    among the largest strengths, where a search for wrong labels should begin. With several binary
    submodels, coefficients are relative to the largest one of their submodel, and the maximum over
    submodels is shown.

    Parameters
    ----------
    est : estimator
        A fitted classifier of widemargin whose samples have coefficients, or a pipeline that ends
        in one: all except OrdinalSVC with a linear kernel and models fitted on data in parts.
    ax, backend
        As for :func:`decision_boundary`.

    Returns
    -------
    Axes or plotly Figure
        The plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, plot
    >>> model = SVC(C=10).fit(*load_iris(return_X_y=True))
    >>> figure = plot.embedding_strengths(model, backend="plotly")
    >>> len(figure.data[1].x)  # errors
    4
    """
    machine = check_classifier(est, "embedding_strengths")
    record = record_of(machine)
    data = record.require("plot.embedding_strengths").data
    size = strengths(machine, len(data.given_y))
    fix = "a machine whose training rows have coefficients (a kernel other than linear)"
    require(size is not None, "est", machine, fix)
    assert size is not None
    seen = data.given_weight > 0
    wrong = np.asarray(record.result().errors, dtype=bool)[seen]
    order = np.argsort(-size[seen], kind="stable")
    found = {"values": size[seen][order].tolist(), "wrong": wrong[order].tolist()}
    found["shares"] = are_shares(machine)
    figure = figures.strength_figure({"strengths": found})
    assert figure is not None
    figure["data"][0]["name"] = "embedding strength"
    return show(_with_legend(figure), ax, backend)


def loo_landscape(
    search: Any, *, params: Any = None, ax: Any = None, backend: str = "matplotlib"
) -> Any:
    """Plot the leave-one-out error over two parameters; a star marks the chosen ones.

    Parameters
    ----------
    search : LOOSearch, estimator or Tuning
        A fitted :class:`~widemargin.LOOSearch` (or a search of scikit-learn) is plotted as a heat
        map of its grid. A model returned by :func:`~widemargin.tune`, or its `tuning_`, is plotted
        as the evaluated points, coloured by their loss, with the descent paths between them.
    params : (str, str), default=None
        Parameters on the two axes, for a grid. Other parameters are fixed at their best values.
        None selects the two parameters that vary.
    ax, backend
        As for :func:`decision_boundary`.

    Returns
    -------
    Axes or plotly Figure
        The plot.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from widemargin import SVC, LOOSearch, plot
    >>> grid = {"C": [0.1, 1, 10, 100], "gamma": [0.01, 0.1, 1]}
    >>> search = LOOSearch(SVC(), grid).fit(*load_iris(return_X_y=True))
    >>> figure = plot.loo_landscape(search, backend="plotly")
    >>> figure.layout.xaxis.title.text, figure.layout.yaxis.title.text
    ('C', 'gamma')
    """
    return show(landscape_of(search, params), ax, backend)


def certificate_history(
    est: Any, *, pair: int | None = None, ax: Any = None, backend: str = "matplotlib"
) -> Any:
    """Plot the upper and lower bounds on the optimum after each round of a fit.

    Parameters
    ----------
    est : estimator
        A fitted model with a history of rounds: :class:`~widemargin.LinearSVC` by sampling (data in
        parts, many samples, or ``solver="sampling"``) or :class:`~widemargin.ReducedHullSVC` with
        ``solver="implicit"`` or ``"sampling"``; or a pipeline that ends in one.
    pair : int, default=None
        Index of the binary problem (pair of classes, or class), in the order of `certificates_`.
        None selects the one with the most rounds.
    ax, backend
        As for :func:`decision_boundary`.

    Returns
    -------
    Axes or plotly Figure
        The plot.

    Examples
    --------
    >>> import numpy as np
    >>> from widemargin import LinearSVC, plot
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> model = LinearSVC(loss="hinge", solver="sampling").fit(X, X[:, 0] + 0.5 * X[:, 1] > 0)
    >>> figure = plot.certificate_history(model, backend="plotly")
    >>> [trace.name for trace in figure.data]
    ['upper bound', 'lower bound', 'objective of the model']
    """
    machine = machine_of(est)
    histories = getattr(machine, "history_", [])
    if histories and isinstance(histories[0], dict):  # one pair of classes
        histories = [histories]
    longest: list[dict[str, Any]] = max(histories, key=len, default=[])
    if not longest:
        raise ValueError(
            f"est must have kept the rounds of its fit; got {type(machine).__name__} without any. "
            'LinearSVC has them with solver="sampling" and on data in parts, ReducedHullSVC with '
            'solver="implicit" or "sampling"'
        )
    n = len(histories)
    number = isinstance(pair, int | np.integer) and not isinstance(pair, bool) and 0 <= pair < n
    require(pair is None or number, "pair", pair, f"None or an integer from 0 to {n - 1}")
    k = histories.index(longest) if pair is None else int(pair)
    require(len(histories[k]) > 0, "pair", pair, "a pair of classes whose rounds were kept")
    return show(_pictures.history(histories[k], machine.certificates_[k].primal), ax, backend)


def _with_legend(figure: figures.Figure) -> figures.Figure:
    for trace in figure["data"]:
        trace.setdefault("showlegend", "name" in trace)
    figure["layout"]["showlegend"] = True
    return figure
