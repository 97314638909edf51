"""Make a folder read-only for a child process, even if it runs as root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

WRITE_BITS = 0o222


@dataclass(frozen=True)
class Lock:
    """A method to start a child process that cannot write: the prefix of its command line."""

    how: str
    prefix: Sequence[str] = ()


@contextmanager
def refuse_writes(folder: Path) -> Iterator[Lock]:
    """Remove write permission from a folder and its contents, and restore it on exit.

    Permission bits do not apply to root. Child processes of root are therefore started without the
    capability to override them, or with a read-only mount of the folder. The first method that
    prevents an actual attempt to write is used. If there is none, this raises an error, since the
    benchmark would otherwise pass without testing anything.
    """
    entries = [folder, *folder.rglob("*")]
    modes = {entry: entry.stat().st_mode for entry in entries}
    for entry in entries:
        entry.chmod(modes[entry] & ~WRITE_BITS)
    try:
        yield _first_that_holds(folder)
    finally:
        for entry in entries:
            entry.chmod(modes[entry])


def _first_that_holds(folder: Path) -> Lock:
    for lock in _ways(folder):
        if _holds(lock, folder):
            return lock
    raise RuntimeError("no way to make a folder read-only for a child process was found")


def _ways(folder: Path) -> Iterator[Lock]:
    if os.geteuid() != 0:
        yield Lock("file permissions")
        return
    if setpriv := shutil.which("setpriv"):
        drop = (setpriv, "--bounding-set", "-all", "--inh-caps", "-all")
        yield Lock("file permissions, root without capabilities (setpriv)", drop)
    if unshare := shutil.which("unshare"):
        remount = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
        mount = (unshare, "--mount", "sh", "-c", remount, str(folder))
        yield Lock("read-only mount in a namespace (unshare)", mount)


def _holds(lock: Lock, folder: Path) -> bool:
    """Return whether a child started this way runs and cannot create a file in the folder."""
    probe = folder / "probe"
    starts = subprocess.run([*lock.prefix, "true"], capture_output=True, check=False)
    writes = subprocess.run([*lock.prefix, "touch", str(probe)], capture_output=True, check=False)
    return starts.returncode == 0 and writes.returncode != 0 and not probe.exists()
