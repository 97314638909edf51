"""Readers of tables (CSV, Parquet) and ranking files (LETOR)."""
