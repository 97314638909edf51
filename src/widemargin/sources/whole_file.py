"""Files that are there, and files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from widemargin._messages import UserError, nearest


def check_is_file(path: Path) -> None:
    """Raise a UserError where there is no file to read, naming those that are spelled alike."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"There is no file {path}.{nearest(path.name, siblings)}")


def check_writable(path: Path) -> None:
    """Raise a UserError now if a file could not be written to ``path`` later, after a long fit."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file: name a file to write to.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise UserError(f"The folder {folder} does not exist: make it, or name another file.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"The folder {folder} is not writable: name a file in another one.")


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file beside ``path``, then move it there in one step.

    Whatever goes wrong, ``path`` holds either its old content or all of the new one.
    """
    check_writable(path)
    final = path.resolve()  # a link stays a link: its target is replaced
    draft = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
    try:
        # Not tempfile, which makes files that only their owner may read.
        with open(draft, "xb") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(draft, final)
    except OSError as error:  # of a disk that is full: say which file it was to be
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)
