"""Read stretches of rows from arrays and files."""
