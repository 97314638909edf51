"""Playground: draw points on a local web page and see the decision boundary change."""
