"""Checks of file paths, and atomic writing of files."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from widemargin._base.messages import UserError, nearest


def check_is_file(path: Path) -> None:
    """Raise a UserError if the file does not exist; suggest files with similar names."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file in it.")
    if not path.exists():
        siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise UserError(f"There is no file {path}.{nearest(path.name, siblings)}")


def check_writable(path: Path) -> None:
    """Raise a UserError if ``path`` cannot be written; called before a long fit."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is not a regular file: name a file to write to.")
    folder = path.resolve().parent
    if not folder.is_dir():
        raise UserError(f"The folder {folder} does not exist: make it, or name another file.")
    if not os.access(folder, os.W_OK):
        raise UserError(f"The folder {folder} is not writable: name a file in another one.")


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: write a temporary file beside ``path``, then rename it.

    If anything fails, ``path`` holds either its old content or all of the new one. A killed process
    leaves its hidden temporary file behind; the next one that writes to ``path`` removes it.
    """
    check_writable(path)
    final = path.resolve()  # replace the target of a symbolic link, not the link
    try:
        _remove_drafts_of_the_dead(final)
        handle = _draft_of(final)
        try:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
            if os.name == "nt":
                handle.close()  # Windows cannot rename an open file
            os.replace(handle.name, final)
        finally:
            with suppress(OSError):  # a failing flush has raised above already
                handle.close()
            Path(handle.name).unlink(missing_ok=True)
        _force_folder(final.parent)
    except OSError as error:  # such as a full disk; the message names the final file
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _draft_of(final: Path) -> BinaryIO:
    """Create and lock a hidden temporary file beside the final path."""
    while True:
        # Not tempfile, which creates files that are readable by their owner only.
        place = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        handle = open(place, "xb")  # noqa: SIM115 - closed by write_whole
        _lock(handle, wait=True)
        if os.path.exists(handle.name):
            return handle
        handle.close()  # removed by another process before it was locked: try again


def _remove_drafts_of_the_dead(final: Path) -> None:
    """Remove the temporary files of killed processes, recognised by their released locks."""
    pattern = re.compile(re.escape(f".{final.name}.") + r"[0-9a-f]{8}\.tmp")
    # Files of other users, or removed in the meantime, can be ignored.
    with suppress(OSError):
        for name in filter(pattern.fullmatch, os.listdir(final.parent)):
            with open(final.with_name(name), "rb") as handle:
                if _lock(handle, wait=False):
                    os.unlink(handle.name)


def _lock(handle: BinaryIO, *, wait: bool) -> bool:
    """Lock a file; return False if another process holds it or locks are not supported."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _force_folder(folder: Path) -> None:
    """Force the renamed directory entry to disk (POSIX only)."""
    if hasattr(os, "O_DIRECTORY"):
        with suppress(PermissionError):  # a folder may be writable but not readable
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
