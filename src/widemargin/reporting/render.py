"""Rendering of a collected report as one self-contained HTML file."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from widemargin.reporting import texts as words
from widemargin.reporting.figures import figures


def render(found: dict[str, Any]) -> str:
    """Return the HTML page of a collected report.

    All text from the data is escaped: in HTML by the template, in the data of the script by
    replacing ``<``, ``>`` and ``&``, in the figures by :func:`plain_text`.
    """
    need_page_tools()
    from jinja2 import Environment, StrictUndefined
    from plotly.offline import get_plotlyjs

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["percent"] = words.percent
    environment.filters["number"] = lambda value: f"{value:,.4g}"
    template = environment.from_string(_asset("report.html.j2"))
    pictures = plain_text(figures(found))
    return template.render(
        found=found,
        pictures=list(pictures),
        style=_asset("report.css"),
        script=_asset("report.js"),
        plotly=get_plotlyjs() if pictures else "",
        data=_script_data(pictures),
    )


def need_page_tools() -> None:
    """Raise an error with the install command if jinja2 or plotly is missing."""
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"a report needs {error.name}, which is not installed: "
            "pip install 'widemargin[report]'",
            name=error.name,
        ) from error


def _asset(name: str) -> str:
    return resources.files("widemargin.reporting").joinpath("page", name).read_text("utf-8")


def _script_data(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# Keys whose strings may contain mark-up for Plotly; they never hold text from the data.
OWN_MARKUP = ("hovertemplate", "tickprefix", "ticksuffix")
LONGEST_LABEL = 40


def plain_text(value: Any, key: str = "") -> Any:
    """Escape strings for Plotly, and truncate them to LONGEST_LABEL characters."""
    if isinstance(value, dict):
        return {name: plain_text(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [plain_text(each, key) for each in value]
    if not isinstance(value, str) or key in OWN_MARKUP:
        return value
    short = value if len(value) <= LONGEST_LABEL else value[: LONGEST_LABEL - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
