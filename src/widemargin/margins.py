"""Margins of a fitted classifier on labelled samples."""

from widemargin.assess.margins import geometric, margin_error, margins

__all__ = ["geometric", "margin_error", "margins"]
