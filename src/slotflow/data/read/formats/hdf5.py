"""Damaged HDF5 files on which the HDF5 library would never come back: how they are met before that.

Two kinds of damage make the library (seen with version 2.0.0) loop for ever; `tests/test_io_fuzz.py` looks for others.

- **A ring in a group's index.** `h5py.Group.visititems` asks for the size of each index, which follows the links
  between its neighbouring nodes and never ends if they form a ring. :func:`walk` reads the entries instead, from the
  top down.
- **A free place of no size.** Text of variable length, and the dimensions of NetCDF variables, lie in blocks of objects
  that open with ``GCOL``: an object's number (2 bytes), 6 bytes of other facts, its size (8 bytes), then its content,
  padded to 8 bytes. Number 0 is the free rest, whose size counts its own 16 bytes. The library moves on by that size;
  where damage has left a zero, it stays. :func:`check_blocks` adds the sizes up itself.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["check_blocks", "check_file", "walk"]

BLOCK = b"GCOL\x01"
"""What a block of objects opens with; its size stands in the bytes 8 to 15."""
SMALLEST = 4096
"""Bytes in a block at least."""
HEAD = 16
"""Bytes before the content of a block, and of each object in it."""


def check_file(path: Path) -> None:
    """Refuses a file with a block that the library would not leave; other damage it finds by itself."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        check_blocks(content)


def check_blocks(content: bytes | mmap.mmap) -> None:
    """As `check_file`, of a file's content."""
    start = content.find(BLOCK)
    while start >= 0:
        place, end = start + HEAD, start + _integer(content, start + 8, 8)
        whole = start + SMALLEST <= end <= len(content)  # the library looks at no other
        while whole and place + HEAD <= end:
            number, size = _integer(content, place, 2), _integer(content, place + 8, 8)
            step = size if number == 0 else HEAD + (size + 7) // 8 * 8
            if not 0 < step <= end - place:
                raise ValueError(
                    f"expected an HDF5 file as it was written, received one with an entry of an impossible size at "
                    f"byte {place:,}: it is damaged; copy it again."
                )
            place += step
        start = content.find(BLOCK, start + len(BLOCK))


def _integer(content: bytes | mmap.mmap, place: int, width: int) -> int:
    """An integer of a few bytes in a file."""
    return int.from_bytes(content[place : place + width], "little")


def walk(group: Any, name: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """A group of an HDF5 file and all that lies below it, with their names; links elsewhere are not followed.

    Args:
        group: The group.
        name: Its name.
        above: The groups that hold it, so that none is entered twice on the way down.
    """
    import h5py

    yield name, group
    for key in group:
        if not isinstance(group.get(key, getlink=True), h5py.HardLink):
            continue
        whole = f"{name}/{os.fsdecode(key)}".lstrip(
            "/"
        )  # h5py gives bytes where a name is not UTF-8
        node = group[key]
        if not isinstance(node, h5py.Group):
            yield whole, node
        elif node not in (*above, group):
            yield from walk(node, whole, (*above, group))
