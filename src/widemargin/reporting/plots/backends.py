"""Rendering of plot specifications with Plotly or Matplotlib.

Specifications are the Plotly dictionaries of :mod:`widemargin.reporting.figures`. For Matplotlib,
the trace types in use are translated here: scatter (lines and markers), heatmap and contour (one
line).
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import numpy as np

from widemargin._base.typing import FloatArray
from widemargin._base.validation import require
from widemargin.reporting.figures import Figure
from widemargin.reporting.render import plain_text

PALETTE = {"@ink": "#1F2430", "@soft": "#7A808C"}
MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "diamond": "D",
    "pentagon": "p",
    "star": "*",
    "hexagon": "h",
    "cross": "P",
    "x": "X",
    "x-thin": "x",
}
DASHES = {"solid": "-", "dash": "--", "dot": ":"}
STEPS = {"hv": "steps-post", "hvh": "steps-mid"}
POINTS = 0.75  # points (1/72 inch) per pixel of a page (1/96 inch)


def show(figure: Figure, ax: Any, backend: str) -> Any:
    """Draw a figure; return the Plotly figure or the Matplotlib axes."""
    require(backend in ("matplotlib", "plotly"), "backend", backend, '"matplotlib" or "plotly"')
    figure = _coloured(figure)
    if backend == "plotly":
        require(ax is None, "ax", ax, 'None for backend="plotly", whose pictures are figures')
        objects = _needed("plotly.graph_objects", "plotly")
        picture = objects.Figure(plain_text(figure))
        picture.update_layout(template="plotly_white")
        return picture
    if ax is None:
        _, ax = _needed("matplotlib.pyplot", "matplotlib").subplots(layout="constrained")
    fix = "axes of Matplotlib, or None for new ones"
    require(hasattr(ax, "pcolormesh"), "ax", type(ax).__name__, fix)
    for depth, trace in enumerate(figure["data"]):
        DRAW[trace["type"]](ax, trace, depth + 1)
    _lay_out(ax, figure["layout"])
    return ax


def _needed(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"pictures with backend={package!r} need {package}, which is not installed: "
            "pip install 'widemargin[report]'",
            name=error.name,
        ) from error


def _coloured(value: Any) -> Any:
    """Replace colour names such as "@ink" by the colours of a light page."""
    if isinstance(value, dict):
        return {name: _coloured(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_coloured(each) for each in value]
    return PALETTE.get(value, value) if isinstance(value, str) else value


# -- traces in Matplotlib ------------------------------------------------------------------------


def _scatter(ax: Any, trace: dict[str, Any], depth: int) -> None:
    x, y = _numbers(trace["x"]), _numbers(trace["y"])
    label = _literal(trace.get("name", "")) or None
    if "lines" in trace["mode"]:
        line = trace.get("line", {})
        style = {
            "color": line.get("color"),
            "linewidth": POINTS * line.get("width", 2),
            "linestyle": DASHES[line.get("dash", "solid")],
            "drawstyle": STEPS.get(line.get("shape", ""), "default"),
        }
        ax.plot(x, y, label=label, zorder=depth, **style)
        label = None  # the line has the legend entry already
        if "fill" in trace:  # "tozeroy", the only one in use
            step = STEPS.get(line.get("shape", ""), "").removeprefix("steps-") or None
            colour = _rgba(trace["fillcolor"])
            ax.fill_between(x, y, step=step, color=colour, linewidth=0, zorder=depth)
    if "markers" in trace["mode"]:
        _markers(ax, trace, x, y, label, depth)


def _markers(
    ax: Any, trace: dict[str, Any], x: FloatArray, y: FloatArray, label: str | None, depth: int
) -> None:
    marker = trace["marker"]
    symbol, edge = MARKERS[marker.get("symbol", "circle")], marker.get("line", {})
    colour = marker.get("color", trace.get("line", {}).get("color"))
    style: dict[str, Any] = {
        "s": (POINTS * np.asarray(marker.get("size", 6), dtype=float)) ** 2,
        "marker": symbol,
        "alpha": marker.get("opacity"),
        "linewidths": POINTS * edge.get("width", 0),
        "zorder": depth,
        "label": label,
    }
    if symbol == "x":  # not filled: drawn in the colour of the edge
        ax.scatter(x, y, color=edge.get("color"), **style)
    elif isinstance(colour, str):
        face = _rgba(colour)
        face = "none" if isinstance(face, tuple) and face[3] == 0 else face
        ax.scatter(x, y, facecolors=face, edgecolors=edge.get("color", "none"), **style)
    else:
        style |= {"edgecolors": edge.get("color", "none"), "cmap": _colours(marker["colorscale"])}
        drawn = ax.scatter(x, y, c=_numbers(colour), **style)
        _colour_bar(ax, drawn, marker)


def _heatmap(ax: Any, trace: dict[str, Any], depth: int) -> None:
    smooth = {"shading": "gouraud" if trace.get("zsmooth") else "nearest"}
    drawn = ax.pcolormesh(
        _numbers(trace["x"]),
        _numbers(trace["y"]),
        np.array([_numbers(row) for row in trace["z"]]),
        cmap=_colours(trace["colorscale"]),
        vmin=trace.get("zmin"),
        vmax=trace.get("zmax"),
        rasterized=True,  # thousands of cells make vector graphics large
        zorder=depth,
        **smooth,
    )
    _colour_bar(ax, drawn, trace)


def _contour(ax: Any, trace: dict[str, Any], depth: int) -> None:
    z, level, line = np.asarray(trace["z"]), trace["contours"]["start"], trace["line"]
    if not z.min() < level < z.max():  # Matplotlib warns about a level without contour
        return
    ax.contour(
        _numbers(trace["x"]),
        _numbers(trace["y"]),
        z,
        levels=[level],
        colors=line["color"],
        linewidths=POINTS * line["width"],
        linestyles=DASHES[line.get("dash", "solid")],
        zorder=depth,
    )


DRAW = {"scatter": _scatter, "heatmap": _heatmap, "contour": _contour}


def _colour_bar(ax: Any, drawn: Any, trace: dict[str, Any]) -> None:
    if not trace.get("showscale", "colorbar" in trace):
        return
    bar = trace.get("colorbar", {})
    title = bar.get("title", {}).get("text", "")
    ax.figure.colorbar(drawn, ax=ax, label=title, format=_ticks(bar.get("tickformat", "")))


# -- axes ----------------------------------------------------------------------------------------


def _lay_out(ax: Any, layout: dict[str, Any]) -> None:
    for name, axis, limits in (("xaxis", ax.xaxis, ax.set_xlim), ("yaxis", ax.yaxis, ax.set_ylim)):
        given = layout[name]
        axis.set_label_text(_literal(given["title"]["text"]))
        if "range" in given:
            limits(*given["range"])
        if given.get("rangemode") == "tozero":
            limits(0, None)
        if "dtick" in given:
            ticker = _needed("matplotlib.ticker", "matplotlib")
            axis.set_major_locator(ticker.MultipleLocator(given["dtick"]))
        if "tickprefix" in given:  # the axis shows logarithms
            axis.set_major_formatter(lambda value, _: f"$10^{{{value:g}}}$")
        elif _ticks(given.get("tickformat", "")) is not None:
            axis.set_major_formatter(_ticks(given["tickformat"]))
    if layout.get("showlegend") and "legend" in layout:  # below the axes, which have no free space
        names = len(ax.get_legend_handles_labels()[1])
        place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "borderaxespad": 0.0}
        ax.legend(ncols=min(names, 4), frameon=False, handletextpad=0.3, columnspacing=1.2, **place)
    elif layout.get("showlegend"):
        ax.legend()


def _ticks(form: str) -> Any:
    """Return the tick formatter of an axis; None selects the default of Matplotlib."""
    if not form.endswith("%"):
        return None
    return _needed("matplotlib.ticker", "matplotlib").PercentFormatter(1.0)


def _colours(scale: Any) -> Any:
    """Convert a Plotly colour scale, a name or a list of stops, for Matplotlib."""
    colours = _needed("matplotlib.colors", "matplotlib")
    if isinstance(scale, str):
        return scale.lower()
    return colours.LinearSegmentedColormap.from_list("classes", [tuple(stop) for stop in scale])


def _rgba(colour: str) -> Any:
    """Convert a CSS colour for Matplotlib."""
    if not colour.startswith("rgba"):
        return colour
    red, green, blue, alpha = (float(part) for part in re.findall(r"[\d.]+", colour))
    return (red / 255, green / 255, blue / 255, alpha)


def _numbers(values: Any) -> FloatArray:
    """Return numbers as an array, with NaN for None."""
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _literal(text: str) -> str:
    """Escape dollar signs, which Matplotlib would parse as mathematics."""
    return text.replace("$", r"\$")
