"""Read tables and ranking files into columns and arrays."""
