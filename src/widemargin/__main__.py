"""Entry point for ``python -m widemargin``."""

from __future__ import annotations

from widemargin.cli import app

if __name__ == "__main__":
    app(prog_name="widemargin")
