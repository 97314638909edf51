"""Playground: a local web page to draw points and watch the decision boundary."""
