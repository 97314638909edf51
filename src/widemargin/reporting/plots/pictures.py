"""Plotly specifications of decision regions, rank maps and histories of bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from widemargin._base.multiclass import predicted_class
from widemargin._base.typing import BoolArray, FloatArray
from widemargin.reporting.figures import (
    COLOURS,
    MOST_CLASSES,
    SYMBOLS,
    Figure,
    axes_layout,
    guide_line,
    row_dots,
    scatter,
)
from widemargin.reporting.plots.plotted_rows import FeaturePlane, PlottedRows, leads

PALE = 0.72  # share of white in background colours
RING = 11.0, 11.0  # pixels: diameter of the smallest ring, and the difference to the largest
LEAST_STRENGTH = 1e-15  # relative to the largest coefficient; smaller ones are rounding errors
RANKS = ("#00224E", "#575D6D", "#A59C74", "#FDE737")  # brightness grows with the rank
LEVELS = 12  # number of contour lines of the utility


def boundary(shown: PlottedRows, plane: FeaturePlane, scores: FloatArray, *, marks: bool) -> Figure:
    """Return decision regions, boundary, margin, samples, support vectors and errors."""
    classes = shown.est.classes_
    if scores.ndim == 1:
        # Decision values are unbounded: map them to (-1, 1), the range of the colour scale.
        shade = plane.shaped(scores / (1.0 + np.abs(scores)))
        stops = [[0.0, pale(colour_of(0))], [0.5, "#FFFFFF"], [1.0, pale(colour_of(1))]]
        data = [_region(plane, shade, stops, (-1.0, 1.0), smooth=True)]
        values = plane.shaped(scores)
        lines = ((-1.0, "dash", 1.3), (0.0, "solid", 2.4), (1.0, "dash", 1.3))
        data += [_level(plane, values, *line) for line in lines]
    else:
        data = _winners(plane, scores, [colour_of(k) for k in range(len(classes))])
        for lead in leads(shown, plane.points, scores).T:
            data.append(_level(plane, plane.shaped(lead), 0.0, "solid", 2.0))
    data += _rows(shown, plane, [colour_of(k) for k in range(len(classes))], "#FFFFFF")
    try:
        data += _marks(shown, plane) if marks else []
    except ValueError as refusal:
        raise ValueError(f"{refusal}; or draw no rings and crosses: marks=False") from refusal
    return {"data": data, "layout": _plane_layout(shown, plane)}


def ranks(
    shown: PlottedRows, plane: FeaturePlane, utility: FloatArray, thresholds: FloatArray
) -> Figure:
    """Return the regions of the ranks, contour lines of the utility, and the samples."""
    colours = rank_colours(len(thresholds) + 1)
    scores = np.count_nonzero(utility[:, None] > thresholds, axis=1)
    bands = np.eye(len(colours))[scores]
    values = plane.shaped(utility)
    data = _winners(plane, bands, colours)
    between = np.linspace(float(values.min()), float(values.max()), LEVELS + 2)[1:-1]
    data += [_level(plane, values, level, "dot", 0.8, "@soft") for level in between]
    data += [_level(plane, values, float(level), "solid", 2.2) for level in thresholds]
    data += _rows(shown, plane, colours, "@ink")
    return {"data": data, "layout": _plane_layout(shown, plane)}


def history(rounds: list[dict[str, Any]], optimum: float) -> Figure:
    """Return the upper and lower bounds on the optimum after each round."""
    numbers = [entry.get("round", i + 1) for i, entry in enumerate(rounds)]
    data = []
    for name, colour, symbol in (("upper", COLOURS[1], 0), ("lower", COLOURS[0], 1)):
        values = [float(entry[name]) for entry in rounds]
        y = [v if np.isfinite(v) else None for v in values]
        look = {
            "name": f"{name} bound",
            "line": {"color": colour, "width": 2},
            "marker": {"color": colour, "size": 8, "symbol": SYMBOLS[symbol]},
        }
        data.append(scatter("lines+markers", numbers, y, "round %{x}<br>%{y:.8g}", **look))
    ends = [numbers[0], numbers[-1]]
    data.append({**guide_line(ends, [optimum, optimum], "dash"), "name": "objective of the model"})
    ticks = {"dtick": 1} if len(rounds) <= 15 else {}
    layout = axes_layout("round", "objective", showlegend=True, xaxis=ticks)
    return {"data": data, "layout": layout}


def trace(points: list[tuple[float, float]], loss: FloatArray, paths: list[list[int]]) -> Figure:
    """Return the evaluations of a gradient search, coloured by loss, and its descent paths."""
    x, y = np.log10(np.array(points)).T
    data = [
        guide_line(x[path].tolist(), y[path].tolist(), "solid") for path in paths if len(path) > 1
    ]
    marker = {
        "color": loss.tolist(),
        "colorscale": "Cividis",
        "size": 9,
        "showscale": True,
        "colorbar": {"title": {"text": "leave-one-out loss"}, "thickness": 12},
        "line": {"color": "#FFFFFF", "width": 0.8},
    }
    hover = "loss %{marker.color:.4g}"
    data.append(scatter("markers", x.tolist(), y.tolist(), hover, marker=marker))
    return {"data": data, "layout": axes_layout("", "")}


# -- parts ---------------------------------------------------------------------------------------


def colour_of(k: int) -> str:
    """Return the colour of a class."""
    return COLOURS[min(k, MOST_CLASSES - 1)]


def pale(colour: str) -> str:
    """Return a colour mixed with white."""
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(255 * PALE + part * (1 - PALE)):02X}" for part in parts)


def rank_colours(n: int) -> list[str]:
    """Return colours from dark to light, one per rank."""
    stops = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in RANKS], dtype=float)
    place = np.linspace(0, len(RANKS) - 1, n)
    mixed = [np.interp(place, np.arange(len(RANKS)), stops[:, j]) for j in range(3)]
    return [
        "#" + "".join(f"{round(part):02X}" for part in colour) for colour in np.transpose(mixed)
    ]


def _winners(plane: FeaturePlane, scores: FloatArray, colours: list[str]) -> list[dict[str, Any]]:
    """Return the regions of the predicted classes, in pale colours."""
    n = len(colours)
    stops = [[edge / n, pale(c)] for k, c in enumerate(colours) for edge in (k, k + 1)]
    winner = plane.shaped(predicted_class(scores).astype(float))
    return [_region(plane, winner, stops, (-0.5, n - 0.5), smooth=False)]


def _region(
    plane: FeaturePlane,
    z: FloatArray,
    stops: list[list[Any]],
    ends: tuple[float, float],
    *,
    smooth: bool,
) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "x": plane.x,
        "y": plane.y,
        "z": z,
        "colorscale": stops,
        "zmin": ends[0],
        "zmax": ends[1],
        "zsmooth": "best" if smooth else False,
        "showscale": False,
        "hoverinfo": "skip",
    }


def _level(
    plane: FeaturePlane, z: FloatArray, level: float, dash: str, width: float, colour: str = "@ink"
) -> dict[str, Any]:
    """Return the contour line of z at a level."""
    return {
        "type": "contour",
        "x": plane.x,
        "y": plane.y,
        "z": z,
        "contours": {"start": level, "end": level, "size": 1, "coloring": "none"},
        "line": {"color": colour, "width": width, "dash": dash},
        "showscale": False,
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _rows(
    shown: PlottedRows, plane: FeaturePlane, colours: list[str], edge: str
) -> list[dict[str, Any]]:
    """Return the samples, one trace per class."""
    found = []
    for k, label in enumerate(shown.est.classes_):
        marker = {
            "color": colours[k],
            "symbol": SYMBOLS[min(k, MOST_CLASSES - 1)],
            "size": 8,
            "line": {"color": edge, "width": 0.8},
        }
        found.append(_at(shown, plane, np.asarray(shown.y == label), str(label), marker))
    return found


def _marks(shown: PlottedRows, plane: FeaturePlane) -> list[dict[str, Any]]:
    """Return rings around support vectors and crosses on errors."""
    found = []
    size = shown.strengths()
    if size is not None and size.max(initial=0.0) > 0:
        share = size / size.max()
        chosen = share > LEAST_STRENGTH
        ring = {
            "color": "rgba(0,0,0,0)",
            "size": RING[0] + RING[1] * np.sqrt(share[chosen]),
            "line": {"color": "@ink", "width": 1.1},
        }
        found.append(_at(shown, plane, chosen, "support vector", ring))
    wrong, name = shown.wrong()
    if wrong.any():
        cross = {"symbol": "x-thin", "size": 10, "line": {"color": "@ink", "width": 2.2}}
        found.append(_at(shown, plane, wrong, name, cross))
    return found


def _at(
    shown: PlottedRows, plane: FeaturePlane, chosen: BoolArray, name: str, marker: dict[str, Any]
) -> dict[str, Any]:
    first, second = plane.features
    rows = np.flatnonzero(chosen)
    return row_dots(shown.X[rows, first], shown.X[rows, second], rows, name, marker)


def _plane_layout(shown: PlottedRows, plane: FeaturePlane) -> dict[str, Any]:
    first, second = plane.features
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0}
    ends = {axis: [float(v[0]), float(v[-1])] for axis, v in (("x", plane.x), ("y", plane.y))}
    layout = axes_layout(
        shown.names[first],
        shown.names[second],
        xaxis={"range": ends["x"]},
        yaxis={"range": ends["y"]},
        showlegend=True,
        legend=legend,
    )
    layout["margin"]["t"] = 56
    return layout
