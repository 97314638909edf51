"""Historical algorithms of the literature; method="auto" never chooses them."""
