"""Strips: rows of one array, in memory or on disk, that are read block by block.

A file is read into one buffer, which is reused for every block. It is not memory-mapped, because
the pages of a map count as memory of the process that touches them: a worker with a memory limit
would be killed for reading its data.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tokenize import TokenError  # raised for some damaged headers
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

AnyArray: TypeAlias = npt.NDArray[Any]

Read: TypeAlias = Callable[[int, int], AnyArray]
"""(first row, end) -> these rows; they may be overwritten by the next call."""


@dataclass(frozen=True)
class Stamp:
    """Size and modification time of a file, to detect changes between passes over the data."""

    size: int
    modified: int

    @classmethod
    def of(cls, path: str) -> Stamp:
        """Return the stamp of a file; an OSError of the system is passed on."""
        status = os.stat(path)
        return cls(status.st_size, status.st_mtime_ns)

    def check(self, path: str) -> None:
        """Raise an error if the file has been changed or removed."""
        try:
            now = Stamp.of(path)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{path} has been removed since the data set was made; put it back or make the "
                "data set again"
            ) from None
        if now != self:
            what = (
                f"{self.size} bytes have become {now.size}"
                if now.size != self.size
                else "it was written to"
            )
            raise ValueError(
                f"{path} has changed since the data set was made ({what}); a fit reads it several "
                "times and needs the same rows each time: make the data set again and refit"
            )


class ArrayStrip:
    """Strip of an array in memory."""

    path = ""  # not in a file

    def __init__(self, array: AnyArray) -> None:
        self.array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array: rows, and columns if it is a table."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return self.array.dtype

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """Provide a function that returns views of the rows."""
        yield lambda first, end: self.array[first:end]

    def part(self, first: int, end: int) -> ArrayStrip:
        """Return the strip of the rows from `first` to `end`."""
        return ArrayStrip(self.array[first:end])


@dataclass(frozen=True)
class FileStrip:
    """Strip of an array in a file of raw values.

    Attributes
    ----------
    path : str
        The file.
    offset : int
        Position of the first value, in bytes.
    shape : tuple of int
        Number of rows, and of columns if it is a table.
    dtype : dtype
        Type of the stored values.
    between_columns : int
        Distance of adjacent columns in bytes for a file in Fortran order, else 0.
    stamp : Stamp
        Size and modification time that the file must have.
    """

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    between_columns: int
    stamp: Stamp

    @property
    def row_bytes(self) -> int:
        """Distance of adjacent rows in bytes."""
        columns = 1 if self.between_columns or len(self.shape) == 1 else self.shape[1]
        return columns * self.dtype.itemsize

    @contextmanager
    def opened(self) -> Iterator[Read]:
        """Open the file and provide a function that reads rows; check that it does not change."""
        self.stamp.check(self.path)
        with open(self.path, "rb", buffering=0) as handle:
            yield _FileReader(self, handle)
        self.stamp.check(self.path)

    def part(self, first: int, end: int) -> FileStrip:
        """Return the strip of the rows from `first` to `end`."""
        return replace(
            self,
            offset=self.offset + first * self.row_bytes,
            shape=(end - first, *self.shape[1:]),
        )


Strip: TypeAlias = ArrayStrip | FileStrip
"""Rows of one array: a table (two axes), or targets or weights (one axis)."""


class _FileReader:
    """Reader of a FileStrip with one reused buffer."""

    def __init__(self, strip: FileStrip, handle: BinaryIO) -> None:
        self.strip, self.handle = strip, handle
        self.buffer: AnyArray = np.empty((0, *strip.shape[1:]), dtype=strip.dtype)

    def __call__(self, first: int, end: int) -> AnyArray:
        strip, n_rows = self.strip, end - first
        start = strip.offset + first * strip.row_bytes
        if strip.between_columns:
            table = np.empty((strip.shape[1], n_rows), dtype=strip.dtype)
            for j, column in enumerate(table):
                self._fill(column, start + j * strip.between_columns)
            return table.T
        if len(self.buffer) < n_rows:
            self.buffer = np.empty((n_rows, *strip.shape[1:]), dtype=strip.dtype)
        block = self.buffer[:n_rows]
        self._fill(block, start)
        return block

    def _fill(self, block: AnyArray, start: int) -> None:
        if block.size == 0:
            return
        room = memoryview(block.reshape(-1).view(np.uint8).data)
        self.handle.seek(start)
        while len(room):
            got = self.handle.readinto(room)  # type: ignore[attr-defined]
            if not got:
                raise ValueError(
                    f"{self.strip.path} ends {len(room)} bytes too early: it is truncated; copy "
                    "or write it again"
                )
            room = room[got:]


def strip_of_array(array: AnyArray) -> Strip:
    """Return the strip of an array; a memory map becomes a strip of its file."""
    return _strip_of_map(array) or ArrayStrip(array)


def _strip_of_map(array: AnyArray) -> FileStrip | None:
    """Return the strip of a memory map or of a contiguous slice of one; None for other arrays.

    A map in mode "c" may hold changes that are not in the file, so it is treated as an array in
    memory.
    """
    whole: Any = array
    while isinstance(whole, np.ndarray) and not isinstance(whole.base, mmap.mmap):
        whole = whole.base
    if not isinstance(whole, np.memmap) or whole.filename is None or whole.mode == "c":
        return None
    if not array.flags.c_contiguous or array.dtype.hasobject or not whole.flags.contiguous:
        return None
    if whole.mode != "r":
        whole.flush()  # pending writes would change the modification time after the stamp
    path = os.fspath(whole.filename)
    offset = int(whole.offset) + array.ctypes.data - whole.ctypes.data
    return FileStrip(path, offset, array.shape, array.dtype, 0, Stamp.of(path))


def strip_of_npy(path: str) -> FileStrip:
    """Return the strip of a whole .npy file, or raise an error if the file is damaged."""
    stamp = Stamp.of(path)
    try:
        # Only the header is read: the pages of the map are never touched.
        mapped = np.lib.format.open_memmap(path, mode="r")
    except (ValueError, EOFError, SyntaxError, TokenError) as error:
        if "mmap length" in str(error):
            raise ValueError(_truncated(path, stamp)) from None
        raise ValueError(f"{path} is not a readable .npy file: {error}") from error
    if mapped.ndim not in (1, 2):
        raise ValueError(f"{path} has {mapped.ndim} axes; one (targets) or two (rows) are needed")
    expected = int(mapped.offset) + mapped.nbytes
    if stamp.size < expected:
        raise ValueError(_truncated(path, stamp))
    if stamp.size > expected:
        raise ValueError(
            f"{path} holds {stamp.size - expected} bytes behind the array of its header; save one "
            "array in each file"
        )
    in_fortran_order = mapped.ndim == 2 and not mapped.flags.c_contiguous
    between = len(mapped) * mapped.dtype.itemsize if in_fortran_order else 0
    return FileStrip(path, int(mapped.offset), mapped.shape, mapped.dtype, between, stamp)


def _truncated(path: str, stamp: Stamp) -> str:
    return (
        f"{path} is truncated: its header promises more than its {stamp.size} bytes; copy or write "
        "it again"
    )
