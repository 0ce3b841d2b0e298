"""Names of the presets in the package; finding them takes neither torch nor a parser."""

from __future__ import annotations

from importlib import resources

__all__ = ["DEFAULT", "preset_names"]

DEFAULT = "zoom"
"""Name of the preset, and of the embedded weights, that are taken if none is named."""


def preset_names() -> list[str]:
    """Names of the presets in the package."""
    folder = resources.files("slotflow") / "presets"
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".yaml"))
