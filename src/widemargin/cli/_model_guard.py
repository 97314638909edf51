"""Checks of the size and the types of a model file before it is loaded.

skops rejects types that are not trusted, but it trusts all of scikit-learn, and it reads every
member of the archive before it checks the types. Model files need far fewer types; the list here
is short, and also restricts the loader of each type.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Collection, Iterator
from typing import Any

SCHEMA = "schema.json"  # description of the objects by skops; the other members are arrays

# Protection against zip bombs: a file of a few kilobytes must not fill the memory. Real models
# expand to some 15 times their size, most of it the schema; a zip bomb to 1,000 times or more.
ALWAYS_ALLOWED = 32 * 2**20  # bytes
MOST_TIMES = 100

# Loaders of skops and the types allowed for each; estimators and records are added to these.
PLAIN_TYPES = {
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "JsonNode": {"builtins.str"},
    "TypeNode": {"builtins.str"},  # type of the keys of a dictionary
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
    """Return the types in a model file that are not allowed.

    Parameters
    ----------
    content : bytes
        Content of the file.
    own : collection of str
        Types of widemargin that are allowed.

    Raises
    ------
    ValueError, zipfile.BadZipFile, ...
        If the file is damaged, or expands to more than the limit.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        _check_size(sum(member.file_size for member in archive.infolist()), content)
        # The declared sizes may be wrong: read all members in chunks and verify their checksums.
        broken = archive.testzip()
        if broken is not None:
            raise ValueError(f"the checksum of its part {broken!r} is wrong")
        nodes = list(_nodes(json.loads(archive.read(SCHEMA))))
    # An array that is referenced twice is read twice, so that the sizes add up.
    _check_size(sum(sizes.get(str(node.get("file")), 0) for node in nodes), content)
    return sorted({name for node in nodes if (name := _foreign(node, own))})


def _check_size(unpacked: int, content: bytes) -> None:
    if unpacked > max(ALWAYS_ALLOWED, MOST_TIMES * len(content)):
        raise ValueError(
            f"its {len(content):,} bytes unpack to {unpacked:,}, more than "
            f"{MOST_TIMES} times as many"
        )


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every node of the schema, without recursion: the nesting may be deep."""
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
    """Return the name of a type that is not allowed, or not with this loader; "" if it is."""
    name, loader = f"{node.get('__module__')}.{node.get('__class__')}", node["__loader__"]
    if loader == "ObjectNode":
        return "" if name in own or name in PIPELINE_TYPES else name
    if not isinstance(loader, str) or loader not in PLAIN_TYPES:
        return name if name not in own else f"{name} ({loader})"
    return "" if name in PLAIN_TYPES[loader] else name
