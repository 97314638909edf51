"""Check the size and the types of a model file before anything in it is used.

skops refuses types that it does not trust, but it trusts all of scikit-learn, and it reads every
part of the archive before it looks at the types. A model file needs far less than that, so the
list here is short, and it says how each type may be read as well.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

SCHEMA = "schema.json"  # skops' description of the objects; the other members are arrays

# A file of a few kilobytes must not fill the memory. Real models unpack to some 15 times their
# size, most of it the schema; a zip bomb to 1,000 times or more.
ALWAYS_ALLOWED = 32 * 2**20  # bytes
MOST_TIMES = 100

# How skops reads a node, and the types that may be read so; machines and records come on top.
PLAIN_TYPES = {
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "JsonNode": {"builtins.str"},
    "TypeNode": {"builtins.str"},  # of the keys of a dictionary
    "NdArrayNode": {
        f"numpy.{name}"
        for name in ("ndarray", "float64", "float32", "int64", "int32", "bool", "str_")
    },
}
PIPELINE_TYPES = {
    "sklearn.pipeline.Pipeline",
    "sklearn.preprocessing._data.StandardScaler",
    "sklearn.compose._target.TransformedTargetRegressor",
}


def foreign_types(content: bytes, own: Collection[str]) -> list[str]:
    """Return the types in a model file that have no business there.

    Parameters
    ----------
    content : bytes
        The file.
    own : collection of str
        Types of widemargin's that may be there.

    Raises
    ------
    ValueError, zipfile.BadZipFile, ...
        If the file is damaged, or unpacks to more than its size allows.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        _check_size(sum(member.file_size for member in archive.infolist()), content)
        # A size may lie. This reads all members in small pieces and compares their checksums.
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"the checksum of its part {broken!r} is wrong")
        nodes = list(_nodes(json.loads(archive.read(SCHEMA))))
    # An array that is named twice is read twice.
    _check_size(sum(sizes.get(str(node.get("file")), 0) for node in nodes), content)
    return sorted({name for node in nodes if (name := _foreign(node, own))})


def _check_size(unpacked: int, content: bytes) -> None:
    if unpacked > max(ALWAYS_ALLOWED, MOST_TIMES * len(content)):
        raise ValueError(
            f"its {len(content):,} bytes unpack to {unpacked:,}, more than "
            f"{MOST_TIMES} times as many"
        )


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of the schema; without recursion, however deep it is."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _foreign(node: dict[str, Any], own: Collection[str]) -> str:
    """Return the name of a type that may not be read, or not in this way; "" if it may."""
    name, loader = f"{node.get('__module__')}.{node.get('__class__')}", node["__loader__"]
    if loader == "ObjectNode":
        return "" if name in own or name in PIPELINE_TYPES else name
    if not isinstance(loader, str) or loader not in PLAIN_TYPES:
        return name if name not in own else f"{name} ({loader})"
    return "" if name in PLAIN_TYPES[loader] else name
