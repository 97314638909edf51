"""Output of the commands: results to stdout, notes and errors to stderr, no tracebacks."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

from widemargin._base import jit
from widemargin._base.messages import UserError


def note(text: str, *, label: str = "note", style: str = "yellow") -> None:
    """Print a labelled line on stderr, without interpreting markup in names from the data."""
    from rich.console import Console
    from rich.text import Text

    line = Text.assemble((f"{label}: ", f"bold {style}"), text)
    Console(stderr=True).print(line, soft_wrap=True)


def fail(text: str) -> NoReturn:
    """Print an error and exit with code 1."""
    note(text, label="error", style="red")
    raise typer.Exit(1)


def print_whole(text: str) -> None:
    """Write a result to stdout; raise an error if it cannot be written completely."""
    if sys.stdout is None:
        raise UserError("Standard output is closed: name a file with --output, or leave it open.")
    try:
        sys.stdout.flush()
        rest = memoryview(text.encode())
        while rest:  # an unbuffered stream may write only a part
            rest = rest[sys.stdout.buffer.write(rest) :]
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), "standard output") from error


def _drop_unwritten() -> None:
    """Redirect stdout to the null device if it cannot be flushed, which would fail at exit."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _CompilationNote:
    """Note on stderr that the first loop is compiled, if stderr is a terminal."""

    def __init__(self) -> None:
        self.pending = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, state: str) -> None:
        if self.pending and state:
            self.pending = False
            note(state, label="first use")


@contextmanager
def friendly() -> Iterator[None]:
    """Print user errors as messages and Python warnings as notes, for one command.

    Any other exception is a bug and keeps its traceback.
    """
    if hasattr(sys.stdout, "reconfigure"):
        # Escape characters that the locale cannot encode instead of raising an error.
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        jit.observers.append(note_compilation := _CompilationNote())
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
        except BrokenPipeError:  # the reader has closed the pipe, such as head or less
            _drop_unwritten()
            raise typer.Exit(1) from None
        except OSError as error:
            _drop_unwritten()
            where = f"{error.filename}: " if error.filename else ""
            fail(f"{where}{error.strerror or error}")
        finally:
            jit.observers.remove(note_compilation)
            for text in dict.fromkeys(str(w.message) for w in caught):
                note(text, label="warning")


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Convert a ModuleNotFoundError to a UserError that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("widemargin"):
            raise
        raise UserError(
            f"This needs {error.name}, which is not installed: pip install 'widemargin[{extra}]'"
        ) from None
