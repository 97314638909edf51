"""Figures of a report as Plotly specifications: plain dictionaries, created without Plotly.

Names such as ``"@ink"`` denote colours of the page's palette; the script of the page replaces them
by those of the light or dark theme. Classes have the colour-blind safe colours of Okabe and Ito,
and different symbols.
"""

from __future__ import annotations

from typing import Any

import numpy as np

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8B7500", "#666666")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "pentagon", "star", "hexagon", "cross")
MOST_BARS = 20
MOST_CLASSES = 8  # with distinct colours; further classes share the last one

Figure = dict[str, Any]


def figures(found: dict[str, Any]) -> dict[str, Figure]:
    """Return the figures of a collected report, by section."""
    made = {
        "margins": margin_figure(found),
        "calibration": _calibration(found),
        "strengths": strength_figure(found),
        "projection": _projection(found),
        "landscape": landscape_figure(found),
        "relevance": _relevance(found),
    }
    return {name: figure for name, figure in made.items() if figure is not None}


def axes_layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    """Return the layout common to all figures; the script adds fonts and colours."""
    return {
        "xaxis": {"title": {"text": x}, **more.pop("xaxis", {})},
        "yaxis": {"title": {"text": y}, **more.pop("yaxis", {})},
        "showlegend": False,
        "margin": {"l": 64, "r": 18, "t": 14, "b": 56},
        **more,
    }


def scatter(mode: str, x: Any, y: Any, hover: str = "", **more: Any) -> dict[str, Any]:
    """Return a scatter trace with its hover text."""
    words = {"hovertemplate": hover + "<extra></extra>"} if hover else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": x, "y": y, **more, **words}


def guide_line(x: list[float], y: list[float], dash: str = "dot") -> dict[str, Any]:
    """Return a reference line without hover text."""
    return scatter("lines", x, y, line={"color": "@soft", "width": 1, "dash": dash})


def margin_figure(found: dict[str, Any]) -> Figure:
    """Return the cumulative distribution of margins; in regression, targets and predictions."""
    if found["task"] == "regression":
        return _truth(found)
    values = np.array(found["margins"]["values"])
    share = (1 + np.arange(len(values))) / len(values)
    wrong = values <= 0
    parts = [(wrong, COLOURS[1], "wrong"), (~wrong, COLOURS[0], "right")]
    data = [
        scatter(
            "lines+markers" if np.count_nonzero(rows) < 60 else "lines",
            values[rows].tolist(),
            share[rows].tolist(),
            "margin %{x:.3g}<br>%{y:.1%} of the rows are below",
            name=name,
            line={"shape": "hv", "color": colour, "width": 2.5},
            marker={"size": 5},
        )
        for rows, colour, name in parts
        if rows.any()
    ]
    data.append(guide_line([0, 0], [0, 1]))
    what = "leave-one-out margin"
    layout = axes_layout(what, "share of rows", yaxis={"tickformat": ".0%"})
    return {"data": data, "layout": layout}


def _truth(found: dict[str, Any]) -> Figure:
    truth, left_out = found["margins"]["truth"], found["margins"]["left_out"]
    ends = [min(truth), max(truth)]
    marker = {"color": COLOURS[0], "size": 6, "opacity": 0.55}
    hover = "is %{x:.4g}<br>predicted %{y:.4g}"
    dots = scatter("markers", truth, left_out, hover, marker=marker)
    layout = axes_layout(found["data"]["target"], "leave-one-out prediction")
    return {"data": [guide_line(ends, ends, "dash"), dots], "layout": layout}


def _calibration(found: dict[str, Any]) -> Figure | None:
    if found["calibration"] is None:
        return None
    bins = found["calibration"]["bins"]
    dots = scatter(
        "markers",
        [b["forecast"] for b in bins],
        [b["observed"] for b in bins],
        "predicted %{x:.1%}<br>observed %{y:.1%} of %{customdata}",
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [b["high"] - b["observed"] for b in bins],
            "arrayminus": [b["observed"] - b["low"] for b in bins],
            "color": COLOURS[0],
            "thickness": 1.5,
            "width": 4,
        },
        marker={"color": COLOURS[0], "size": 9},
        customdata=[b["rows"] for b in bins],
    )
    ticks = {"tickformat": ".0%", "range": [-0.04, 1.04]}
    label = found["calibration"]["class"]
    layout = axes_layout(
        f"predicted probability of {label}",
        "observed frequency",
        xaxis=dict(ticks),
        yaxis=dict(ticks),
    )
    return {"data": [guide_line([0, 1], [0, 1], "dash"), dots], "layout": layout}


def strength_figure(found: dict[str, Any]) -> Figure | None:
    """Return the figure of the strengths, largest first, with crosses on errors."""
    if found["strengths"] is None:
        return None
    values, wrong = found["strengths"]["values"], found["strengths"]["wrong"]
    n_support = sum(v > 0 for v in values)
    shown = max(1, min(len(values), n_support + max(5, n_support // 10)))
    shares = found["strengths"].get("shares", False)
    bars = scatter(
        "lines",
        list(range(1, shown + 1)),
        values[:shown],
        "rank %{x}<br>strength %{y:.3g}",
        fill="tozeroy",
        fillcolor="rgba(0,114,178,0.25)",
        line={"color": COLOURS[0], "width": 1.5, "shape": "hvh"},
    )
    marks = [i for i in range(shown) if wrong[i]]
    crosses = scatter(
        "markers",
        [i + 1 for i in marks],
        [values[i] for i in marks],
        "wrong when left out<br>strength %{y:.3g}",
        name="wrong when left out",
        marker={"symbol": "x", "size": 9, "color": COLOURS[1]},
    )
    what = "share of the largest strength" if shares else "embedding strength"
    layout = axes_layout("rows, strongest first", what, yaxis={"rangemode": "tozero"})
    return {"data": [bars, crosses], "layout": layout}


def _projection(found: dict[str, Any]) -> Figure | None:
    shown = found["projection"]
    if shown is None:
        return None
    x, y = np.array(shown["x"], dtype=float), np.array(shown["y"], dtype=float)
    rows = np.array(shown["row"])
    data: list[dict[str, Any]] = []
    if found["task"] == "regression":
        marker = {"color": shown["label"], "colorscale": "Viridis", "size": 7, "showscale": True}
        marker["colorbar"] = {"title": {"text": found["data"]["target"]}, "thickness": 12}
        data.append(row_dots(x, y, rows, "", marker))
    else:
        labels = np.array(shown["label"])
        names = [c["label"] for c in found["data"]["classes"]]
        for k, name in enumerate(names):
            j = min(k, MOST_CLASSES - 1)
            marker = {"color": COLOURS[j], "symbol": SYMBOLS[j], "size": 8, "opacity": 0.75}
            chosen = labels == name
            data.append(row_dots(x[chosen], y[chosen], rows[chosen], name, marker))
    if shown["support"] is not None:
        ring = {"color": "rgba(0,0,0,0)", "size": 12, "line": {"color": "@ink", "width": 1.2}}
        chosen = np.array(shown["support"])
        rings = row_dots(x[chosen], y[chosen], rows[chosen], "support vector", ring)
        data.append({**rings, "hoverinfo": "skip"})
    if shown["wrong"] is not None:
        cross = {"symbol": "x-thin", "size": 11, "line": {"color": "@ink", "width": 2.5}}
        chosen = np.array(shown["wrong"])
        data.append(row_dots(x[chosen], y[chosen], rows[chosen], "wrong when left out", cross))
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0}
    first, second = shown["axes"]
    layout = axes_layout(first, second, showlegend=len(data) > 1, legend=legend)
    layout["margin"]["t"] = 56
    return {"data": data, "layout": layout}


def row_dots(x: Any, y: Any, rows: Any, name: str, marker: dict[str, Any]) -> dict[str, Any]:
    """Return a scatter trace with one marker per sample."""
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": x.tolist(),
        "y": y.tolist(),
        "customdata": rows.tolist(),
        "marker": marker,
        "hovertemplate": "row %{customdata}<extra>%{fullData.name}</extra>",
    }


def landscape_figure(found: dict[str, Any]) -> Figure | None:
    """Return the heat map of the error over C and gamma."""
    land = found["landscape"]
    if land is None:
        return None
    rate = found["task"] != "regression"
    heat = {
        "type": "heatmap",
        "x": np.log10(land["C"]).tolist(),
        "y": np.log10(land["gamma"]).tolist(),
        "z": land["error"],
        "colorscale": "Cividis",
        "colorbar": {"tickformat": ".0%" if rate else ".3g", "thickness": 12},
        "customdata": [[[c, g] for c in land["C"]] for g in land["gamma"]],
        "hovertemplate": "C %{customdata[0]:.3g}<br>γ %{customdata[1]:.3g}<br>error %{z"
        + (":.2%" if rate else ":.4g")
        + "}<extra></extra>",
    }
    # The colour scale ends at the error of a constant prediction; anything worse is as useless.
    errors = [error for row in land["error"] for error in row if error is not None]
    low, high = min(errors, default=0.0), land.get("usual", np.inf)
    if low < high < max(errors, default=0.0):
        heat |= {"zmin": low, "zmax": high}
    chosen = chosen_star(land["chosen"]["C"], land["chosen"]["gamma"])
    layout = axes_layout("cost of an error, C", "kernel coefficient, γ")
    for axis in ("xaxis", "yaxis"):
        layout[axis] |= {"tickprefix": "10<sup>", "ticksuffix": "</sup>", "dtick": 1}
    return {"data": [heat, chosen], "layout": layout}


def chosen_star(C: float, gamma: float) -> dict[str, Any]:
    """Return the marker of the chosen parameters, on logarithmic axes."""
    edge = {"color": "#000000", "width": 1.5}
    marker = {"symbol": "star", "size": 16, "color": "#ffffff", "line": edge}
    place = [float(np.log10(C))], [float(np.log10(gamma))]
    return scatter("markers", *place, "chosen", marker=marker)


def _relevance(found: dict[str, Any]) -> Figure | None:
    if found["relevance"] is None:
        return None
    largest = found["relevance"]["inputs"][:MOST_BARS][::-1]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [entry["share"] for entry in largest],
        "y": [entry["input"] for entry in largest],
        "marker": {"color": COLOURS[0]},
        "hovertemplate": "%{y}: %{x:.1%}<extra></extra>",
    }
    layout = axes_layout(
        "share of the kernel's distance",
        "",
        xaxis={"tickformat": ".0%"},
        yaxis={"automargin": True, "type": "category"},
    )
    return {"data": [bars], "layout": layout}
