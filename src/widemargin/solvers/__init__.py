"""How: a problem goes in, a result comes out; no solver sees an estimator."""
