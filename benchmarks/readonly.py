"""Make a folder unwritable for a child process, also where everything runs as root."""

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
    """A way to start a child that cannot write: words to put before its command line."""

    how: str
    prefix: Sequence[str] = ()


@contextmanager
def refuse_writes(folder: Path) -> Iterator[Lock]:
    """Take the write permission from a folder and all in it; give it back at the end.

    Permission bits do not bind root, so root's children are started without the capability
    to override them, or see the folder through a read-only mount. The first way that stops
    a real attempt to write is taken; without one this raises, since the check would pass idly.
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
    """Whether a child started this way runs, and fails to create a file in the folder."""
    probe = folder / "probe"
    starts = subprocess.run([*lock.prefix, "true"], capture_output=True, check=False)
    writes = subprocess.run([*lock.prefix, "touch", str(probe)], capture_output=True, check=False)
    return starts.returncode == 0 and writes.returncode != 0 and not probe.exists()
