"""How good a fitted model is: leave-one-out, margins, bounds, metrics, probabilities."""
