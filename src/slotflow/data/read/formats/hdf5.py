"""What lies in an HDF5 file: every object once, and damage on which the HDF5 library would never come back.

Three things make a program that follows the links of a file (or the library itself, seen with version 2.0.0) run for
ever; `tests/test_io_fuzz.py` looks for others.

- **A ring in a group's index.** `h5py.Group.visititems` asks for the size of each index, which follows the links
  between its neighbouring nodes and never ends if they form a ring. :func:`explore` reads the entries instead, from the
  top down.
- **A free place of no size.** Text of variable length, and the dimensions of NetCDF variables, lie in blocks of objects
  that open with ``GCOL``: an object's number (2 bytes), 6 bytes of other facts, its size (8 bytes), then its content,
  padded to 8 bytes. Number 0 is the free rest, whose size counts its own 16 bytes. The library moves on by that size;
  where damage has left a zero, it stays. :func:`check_blocks` adds the sizes up itself.
- **Groups with several names.** A chain of n groups in which each has two names for the next has 2ⁿ paths.
  :func:`explore` enters every group once.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotflow.data.read.tables import MOST_OBJECTS, check_packing

__all__ = [
    "Contents",
    "check_blocks",
    "check_dataset",
    "check_file",
    "elsewhere",
    "explore",
    "is_elsewhere",
]

BLOCK_MARK = b"GCOL\x01"
"""What a block of objects opens with; its size stands in the bytes 8 to 15."""
SMALLEST_BLOCK = 4096
"""Bytes in a block at least."""
HEAD_BYTES = 16
"""Bytes before the content of a block, and of each object in it."""
MOST_LEVELS = 200
"""Most groups inside each other."""


# --- Damage --------------------------------------------------------------------------------------


def check_file(path: Path) -> None:
    """Refuses a file with a block that the library would not leave; other damage it finds by itself."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        check_blocks(content)


def check_blocks(content: bytes | mmap.mmap) -> None:
    """As `check_file`, of a file's content."""
    start = content.find(BLOCK_MARK)
    while start >= 0:
        place, end = start + HEAD_BYTES, start + _integer(content, start + 8, 8)
        whole = start + SMALLEST_BLOCK <= end <= len(content)  # the library looks at no other
        while whole and place + HEAD_BYTES <= end:
            number, size = _integer(content, place, 2), _integer(content, place + 8, 8)
            step = size if number == 0 else HEAD_BYTES + (size + 7) // 8 * 8
            if not 0 < step <= end - place:
                raise ValueError(
                    f"expected an HDF5 file as it was written, received one with an entry of an impossible size at "
                    f"byte {place:,}: it is damaged; copy it again."
                )
            place += step
        start = content.find(BLOCK_MARK, start + len(BLOCK_MARK))


def _integer(content: bytes | mmap.mmap, place: int, width: int) -> int:
    """An integer of a few bytes in a file."""
    return int.from_bytes(content[place : place + width], "little")


# --- Objects -------------------------------------------------------------------------------------


@dataclass
class Contents:
    """What lies in a file."""

    nodes: dict[str, Any] = field(default_factory=dict)
    """Groups and data sets by name; the file itself is ``""``."""
    outside: list[str] = field(default_factory=list)
    """Names of links into other files, which are not followed."""
    twice: list[str] = field(default_factory=list)
    """Further names of groups that were entered already."""


def explore(file: Any, wanted: str | None = None) -> Contents:
    """All groups and data sets of a file; every group is entered once, links to elsewhere are not followed.

    Args:
        file: The open file.
        wanted: Name of a data set. A group that has several names goes by the one on the way to it.
    """
    import h5py

    found, entered = Contents(), set()
    pending: list[tuple[str, Any]] = [("", file)]
    while pending:
        name, group = pending.pop()
        if group.id in entered:  # by its place in the file; h5o.get_info would follow the rings
            found.twice.append(name)
            continue
        entered.add(group.id)
        found.nodes[name] = group
        groups = []
        for key in group:
            whole = f"{name}/{os.fsdecode(key)}".lstrip("/")  # bytes where a name is not UTF-8
            link = group.get(key, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                found.outside.append(whole)
            if not isinstance(link, h5py.HardLink):
                continue
            node = group[key]
            if isinstance(node, h5py.Group):
                groups.append((whole, node))
            else:
                found.nodes[whole] = node
            if len(found.nodes) + len(pending) + len(groups) > MOST_OBJECTS:
                raise ValueError(f"more than {MOST_OBJECTS:,} groups and data sets")
        if groups and name.count("/") >= MOST_LEVELS:
            raise ValueError(f"more than {MOST_LEVELS} groups inside each other")
        groups.sort(key=lambda one: not f"{wanted}/".startswith(f"{one[0]}/"))
        pending += reversed(groups)
    return found


def check_dataset(node: Any, stored: int) -> None:
    """Refuses a data set whose numbers, or whose chunks, are too many for the file that they are in.

    Args:
        node: The data set.
        stored: Size of the file in bytes.
    """
    width = node.dtype.itemsize
    check_packing(tuple(node.shape or ()), stored, width)
    if node.chunks is not None:  # a chunk is unpacked whole, whatever is asked of it
        check_packing(tuple(node.chunks), stored, width)


def is_elsewhere(node: Any) -> bool:
    """Whether the numbers of an HDF5 data set lie in other files."""
    return bool(node.is_virtual or node.external)


def elsewhere(name: str) -> str:
    """The complaint about such a data set: a file may not choose what else is read."""
    return (
        f"expected a file that holds its own numbers, received {name!r} that refers to other files; "
        "copy the numbers into one file."
    )
