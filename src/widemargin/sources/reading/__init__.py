"""Readers of raw rows in arrays and files, block by block."""
