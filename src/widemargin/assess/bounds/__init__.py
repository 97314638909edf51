"""Generalisation bounds, and a summary of those that apply to a fitted model."""
