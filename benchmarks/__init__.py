"""Benchmarks of widemargin against other implementations: ``python -m benchmarks NAME``."""
