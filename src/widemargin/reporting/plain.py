"""Conversion of values to JSON, Python code and display text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

LONGEST_VALUE = 80  # characters of a value in a table of the report


def number(value: Any) -> float | None:
    """Return a number for JSON: None (null) if it is not finite."""
    return float(value) if math.isfinite(value) else None


def listed(values: Any) -> list[float | None]:
    """Return a list of numbers for JSON."""
    return [number(value) for value in values]


def jsonable(value: Any) -> Any:
    """Convert a parameter for JSON; values without a JSON type become strings."""
    if isinstance(value, np.ndarray):
        return [jsonable(each) for each in value.ravel()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    return getattr(value, "__name__", str(value))


def as_code(value: Any) -> str:
    """Return a parameter as Python code, with `np` for numpy and functions by name."""
    if isinstance(value, np.ndarray):
        return f"np.array({value.tolist()!r})"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{as_code(k)}: {as_code(v)}" for k, v in value.items()) + "}"
    name = getattr(value, "__name__", None)
    return repr(value) if name is None else str(name)


def shown(value: Any) -> str:
    """Return a value as display text, truncated to LONGEST_VALUE characters."""
    if isinstance(value, float | np.floating):
        return "–" if math.isnan(value) else f"{float(value):.4g}"
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
