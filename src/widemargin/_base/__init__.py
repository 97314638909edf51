"""Shared utilities: array types, compilation, threads, messages, progress and validation."""
