"""Generalisation bounds: the theorems, and which of them apply to a fitted model."""
