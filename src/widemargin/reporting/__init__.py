"""From data to a page: study, collect, render."""
