"""Base classes and mixins shared by the estimators."""
