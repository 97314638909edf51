"""Render a collected report to one self-contained HTML file."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from widemargin.reporting import texts as words
from widemargin.reporting.figures import figures


def render(found: dict[str, Any]) -> str:
    """Return the page of a collected report.

    Every text from the data is escaped: in HTML by the template, in the script's data by keeping
    ``<``, ``>`` and ``&`` out of it, in the pictures by :func:`plain_text`.
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
    """Raise an error that says what to install where a package for pages is missing."""
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
    """Return JSON that can stand in a script element whatever its strings hold."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


# What Plotly reads as mark-up in the strings that it draws. Ours may have some; the data's not.
OWN_MARKUP = ("hovertemplate", "tickprefix", "ticksuffix")
LONGEST_LABEL = 40


def plain_text(value: Any, key: str = "") -> Any:
    """Escape the strings that Plotly draws, and shorten those that would fill the picture."""
    if isinstance(value, dict):
        return {name: plain_text(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [plain_text(each, key) for each in value]
    if not isinstance(value, str) or key in OWN_MARKUP:
        return value
    short = value if len(value) <= LONGEST_LABEL else value[: LONGEST_LABEL - 1] + "…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
