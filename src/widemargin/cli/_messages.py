"""Print results to stdout, notes and errors to stderr, without tracebacks."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from widemargin._base.messages import UserError


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


def print_whole(text: str) -> None:
    """Write a result to stdout, all of it or with an error."""
    if sys.stdout is None:
        raise UserError("Standard output is closed: name a file with --output, or leave it open.")
    try:
        sys.stdout.flush()
        rest = memoryview(text.encode())
        while rest:  # an unbuffered stream may take a part of what it gets and be silent about it
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), "standard output") from error


def _drop_unwritten() -> None:
    """Let stdout go if what it still holds cannot be written, or Python would fail at its end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def friendly() -> Iterator[None]:
    """Turn user errors into messages and Python warnings into notes, for one command.

    Anything else is a bug of ours and keeps its traceback.
    """
    if hasattr(sys.stdout, "reconfigure"):
        # Names of files and classes that the locale has no letters for are shown all the same.
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            yield
            if sys.stdout is not None:
                sys.stdout.flush()
        except UserError as error:
            fail(str(error))
        except MemoryError as error:
            fail(
                f"There is not enough memory. {error or 'Nothing is saved'}: give it more, train "
                "on fewer rows, or train a linear machine on a folder of Parquet files."
            )
        except BrokenPipeError:  # whoever was reading has seen enough: head, less
            _drop_unwritten()
            raise typer.Exit(1) from None
        except OSError as error:
            _drop_unwritten()
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
