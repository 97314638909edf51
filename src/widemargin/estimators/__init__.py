"""Classifiers and regressors with the scikit-learn API."""
