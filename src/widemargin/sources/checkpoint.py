"""Keep the state of a long fit on disk, so that a killed process can go on where it was.

A file is one line, ``widemargin checkpoint 1 <SHA-256 of the rest>``, and then an .npz archive: a
JSON text with the structure and the plain values, and the arrays it refers to. Nothing in it is
ever executed. A file is written beside its place, forced to disk and then renamed, so at every
moment the place holds the old state or the new one, complete.
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
    """The state of a fit in a file.

    Parameters
    ----------
    path : str or path
        The file; its folder must exist.
    data : str, default=""
        Fingerprint of the data: ``dataset.describe().fingerprint()``.
    parameters : dict, default=None
        What else the state depends on: numbers, texts, lists. A file that was written for other
        data or parameters is refused.

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
        # As JSON gives it back, so that comparing is fair: tuples become lists.
        self.belongs_to = json.loads(json.dumps({"data": data, **(parameters or {})}))

    def save(self, state: Mapping[str, Any]) -> None:
        """Write a state; a crash at any moment leaves the old file or the new one, complete.

        Parameters
        ----------
        state : dict
            Arrays, numbers, texts, booleans, None, and lists and dictionaries of them.
        """
        content = _packed({"belongs_to": self.belongs_to, "state": dict(state)})
        title = TITLE + hashlib.sha256(content).hexdigest().encode() + b"\n"
        write_whole(self.path, lambda handle: handle.write(title + content))

    def load(self) -> dict[str, Any] | None:
        """Return the state that was saved last.

        Returns
        -------
        dict or None
            The state; None where there is no file.

        Raises
        ------
        ValueError
            If the file is damaged, or belongs to other data or parameters.
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
        except Exception as error:  # a file may hold anything, a checksum that is right included
            raise ValueError(
                f"the checkpoint {self.path} is damaged or not a checkpoint; delete it to start "
                f"the fit from the beginning ({error})"
            ) from None
        self._refuse_strangers(other)
        return state

    def _refuse_strangers(self, other: dict[str, Any]) -> None:
        """Raise an error that says how this fit differs from the one that wrote the file."""
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
    # Not np.savez, which pickles objects: NumPy 2.0 cannot be told not to.
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in {"text": np.array(text), **named}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
    return stream.getvalue()


def _without_arrays(tree: Any, arrays: list[AnyArray]) -> Any:
    """Return a tree that JSON can hold; arrays move to the list, references take their place."""
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
