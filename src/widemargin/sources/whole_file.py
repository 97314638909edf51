"""Check that files are there, and write files whole or not at all."""

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

    Whatever goes wrong, ``path`` holds either its old content or all of the new one. A process
    that is killed leaves its hidden draft behind; the next one to write to ``path`` removes it.
    """
    check_writable(path)
    final = path.resolve()  # a link stays a link: its target is replaced
    try:
        _remove_drafts_of_the_dead(final)
        handle = _draft_of(final)
        try:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
            if os.name == "nt":
                handle.close()  # Windows moves no file that is open
            os.replace(handle.name, final)
        finally:
            with suppress(OSError):  # what could not be flushed has said so above
                handle.close()
            Path(handle.name).unlink(missing_ok=True)
        _force_folder(final.parent)
    except OSError as error:  # of a disk that is full: say which file it was to be
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _draft_of(final: Path) -> BinaryIO:
    """Make a hidden file beside the place that is to be written; it is ours while it is locked."""
    while True:
        # Not tempfile, which makes files that only their owner may read.
        place = final.with_name(f".{final.name}.{secrets.token_hex(4)}.tmp")
        handle = open(place, "xb")  # noqa: SIM115 - it is closed where it is moved
        _lock(handle, wait=True)
        if os.path.exists(handle.name):
            return handle
        handle.close()  # between its making and its locking another process took it for left over


def _remove_drafts_of_the_dead(final: Path) -> None:
    """Remove drafts that nobody holds: a lock ends with the process that has it."""
    pattern = re.compile(re.escape(f".{final.name}.") + r"[0-9a-f]{8}\.tmp")
    # Somebody else's file, or one that is gone by now, is in nobody's way.
    with suppress(OSError):
        for name in filter(pattern.fullmatch, os.listdir(final.parent)):
            with open(final.with_name(name), "rb") as handle:
                if _lock(handle, wait=False):
                    os.unlink(handle.name)


def _lock(handle: BinaryIO, *, wait: bool) -> bool:
    """Lock a file for this process; False where another has it or the system has no such locks."""
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
    """Force the new name to disk; Windows has no such call and needs none."""
    if hasattr(os, "O_DIRECTORY"):
        with suppress(PermissionError):  # a folder may be written to and yet not be read
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
