"""Hyperparameter selection by leave-one-out instead of cross-validation."""
