"""Head-to-head comparisons with the peers: ``python -m benchmarks svc|linear|coldstart``."""
