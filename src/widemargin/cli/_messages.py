"""How the command line speaks: results on stdout, notes and errors on stderr, no tracebacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from widemargin._messages import UserError


def note(text: str, *, label: str = "note", style: str = "yellow") -> None:
    """Print a labelled line on stderr. Names from the user's data are never read as markup."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((f"{label}: ", f"bold {style}"), text)
    Console(stderr=True).print(line, soft_wrap=True)


def fail(text: str) -> NoReturn:
    """Print an error and leave with exit code 1."""
    note(text, label="error", style="red")
    raise typer.Exit(1)


@contextmanager
def friendly() -> Iterator[None]:
    """Turn user errors into messages and Python warnings into notes, for one command.

    Anything else is a bug of ours and keeps its traceback.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
        except UserError as error:
            fail(str(error))
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}")
        finally:
            for text in dict.fromkeys(str(w.message) for w in caught):
                note(text, label="warning")


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Say which extra brings a package that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("widemargin"):
            raise
        raise UserError(
            f"This needs {error.name}, which is not installed: pip install 'widemargin[{extra}]'"
        ) from None
