"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["PathLike", "atomic_path"]

PathLike = str | os.PathLike[str]


@contextmanager
def atomic_path(path: PathLike) -> Iterator[Path]:
    """Lets a file appear whole or not at all.

    The body writes to the temporary name that it is given, in the folder of the target and with the
    same suffix. When the body succeeds, that file replaces the target in one step; when it fails
    (a full disk, Ctrl-C), the temporary file is removed and the target stays as it was.

    Args:
        path: The file to write. Missing folders above it are created; a link is followed.

    Yields:
        The temporary path, which does not exist yet.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise ValueError(f"{path}: expected a file to write, received a folder or a device.")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.stem}.{secrets.token_hex(6)}{target.suffix}")
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(0o666 & ~_umask())  # as any new file; some writers make it private
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """The permission bits that this process withholds from new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
