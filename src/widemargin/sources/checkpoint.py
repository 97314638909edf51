"""Checkpoints: files with the state of a long fit, from which a killed process can resume.

A file consists of a header line, ``widemargin checkpoint 1 <SHA-256 of the rest>``, and an .npz
archive: a JSON text with the structure and the plain values, and the arrays that it refers to.
Loading never executes content of the file (no pickle). Writing is atomic: the file is written under
a temporary name, forced to disk and renamed, so that a crash leaves the old or the new state.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from widemargin.sources.reading.strips import AnyArray
from widemargin.sources.whole_file import write_whole

TITLE = b"widemargin checkpoint 1 "
ARRAY = "__array__"  # key of a reference to an array, in the JSON text


class Checkpoint:
    """Checkpoint file with the state of a fit.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.
    data : str, default=""
        Fingerprint of the data: ``dataset.describe().fingerprint()``.
    parameters : dict, default=None
        Other quantities that the state depends on: numbers, strings, lists. Loading a file that
        was written for other data or parameters raises an error.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> from widemargin.sources import Checkpoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> checkpoint = Checkpoint(os.path.join(folder.name, "fit.checkpoint"), parameters={"C": 1.0})
    >>> checkpoint.load() is None
    True
    >>> checkpoint.save({"round": 3, "w": np.array([0.5, -1.0])})
    >>> checkpoint.load()
    {'round': 3, 'w': array([ 0.5, -1. ])}
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        data: str = "",
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise ValueError(
                f"checkpoint={os.fspath(path)!r}: the folder does not exist; create it first"
            )
        if self.path.is_dir():
            raise ValueError(f"checkpoint={os.fspath(path)!r} is a folder; name a file in it")
        # After a JSON round trip (tuples become lists), to be comparable with what `load` reads.
        self.belongs_to = json.loads(json.dumps({"data": data, **(parameters or {})}))

    def save(self, state: Mapping[str, Any]) -> None:
        """Write a state atomically: a crash leaves the old or the new file, complete.

        Parameters
        ----------
        state : dict
            Arrays, numbers, strings, booleans, None, and lists and dictionaries of them.
        """
        content = _packed({"belongs_to": self.belongs_to, "state": dict(state)})
        title = TITLE + hashlib.sha256(content).hexdigest().encode() + b"\n"
        write_whole(self.path, lambda handle: handle.write(title + content))

    def load(self) -> dict[str, Any] | None:
        """Return the last saved state.

        Returns
        -------
        dict or None
            The state, or None if the file does not exist.

        Raises
        ------
        ValueError
            If the file is damaged, or was written for other data or parameters.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        title, _, content = raw.partition(b"\n")
        try:
            if title != TITLE + hashlib.sha256(content).hexdigest().encode():
                raise ValueError("its checksum is wrong")
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                saved = _with_arrays(json.loads(str(archive["text"])), archive)
            other: dict[str, Any] = saved["belongs_to"]
            state: dict[str, Any] = saved["state"]
        except Exception as error:  # even with a valid checksum the content may be arbitrary
            raise ValueError(
                f"the checkpoint {self.path} is damaged or not a checkpoint; delete it to start "
                f"the fit from the beginning ({error})"
            ) from None
        self._refuse_strangers(other)
        return state

    def _refuse_strangers(self, other: dict[str, Any]) -> None:
        """Raise an error that names the difference if data or parameters do not match."""
        keys = [*self.belongs_to, *(key for key in other if key not in self.belongs_to)]
        for key in keys:
            here, there = self.belongs_to.get(key), other.get(key)
            if here != there:
                how = "other data" if key == "data" else f"{key}={there!r}, this one has {here!r}"
                raise ValueError(
                    f"the checkpoint {self.path} was written by a fit with {how}; delete it, or "
                    "name another file"
                )


def _packed(tree: Any) -> bytes:
    arrays: list[AnyArray] = []
    text = json.dumps(_without_arrays(tree, arrays))
    stream = io.BytesIO()
    named = {f"array{k}": array for k, array in enumerate(arrays)}
    # Not np.savez: it pickles object arrays, and NumPy 2.0 has no option to prevent that.
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in {"text": np.array(text), **named}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return stream.getvalue()


def _without_arrays(tree: Any, arrays: list[AnyArray]) -> Any:
    """Replace arrays by references and append them to `arrays`; the tree is then valid JSON."""
    if isinstance(tree, np.ndarray):
        arrays.append(tree)
        return {ARRAY: len(arrays) - 1}
    if isinstance(tree, np.generic):
        return _without_arrays(tree.item(), arrays)
    if isinstance(tree, Mapping):
        strange = [key for key in tree if not isinstance(key, str) or key == ARRAY]
        if strange:
            raise TypeError(f"a checkpoint has texts as keys; got {strange[0]!r}")
        return {key: _without_arrays(value, arrays) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_without_arrays(value, arrays) for value in tree]
    return tree


def _with_arrays(tree: Any, archive: Any) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {ARRAY}:
            return archive[f"array{tree[ARRAY]}"]
        return {key: _with_arrays(value, archive) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_arrays(value, archive) for value in tree]
    return tree
