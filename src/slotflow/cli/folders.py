"""Folders to write to, looked at before anything is computed. Nothing here waits for torch."""

from __future__ import annotations

import os
from pathlib import Path

from slotflow.cli.request import Results

__all__ = ["check_folder", "check_folders"]


def check_folders(results: Results) -> None:
    """Makes the folders that results go to, and refuses those that cannot be written to."""
    if results.out is not None:
        check_folder("--out", results.out)
    if results.report is not None:
        check_folder("--report", results.report.parent)


def check_folder(option: str, folder: Path) -> None:
    """Makes a folder, and refuses one that cannot be written to before anything is computed for it.

    Args:
        option: The option that names it, for the complaint.
        folder: The folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else "you may not write there"
    except OSError as error:
        reason = "there is a file of that name" if folder.exists() else str(error.strerror).lower()
    if reason:
        raise ValueError(
            f"{option}: expected a folder to write to, received {folder}: {reason}; choose another."
        )
