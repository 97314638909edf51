"""Historical algorithms from the literature, never selected by method="auto"."""
