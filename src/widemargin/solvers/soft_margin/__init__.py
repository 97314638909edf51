"""Solvers for the soft-margin problems of kernel machines."""
