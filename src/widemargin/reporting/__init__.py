"""HTML reports about data sets and fitted models, and plots of fitted models."""
