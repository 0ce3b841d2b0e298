"""Packages that announce things: users must not see it, and no file in a home folder may decide a test."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from slotflow.core.packages import needed, without_announcements

STRICT = "import warnings; warnings.simplefilter('error', FutureWarning)\n"
FIRST_OF_THE_DAY = {
    "corner": "from slotflow.core.packages import needed\nneeded('corner')",
    "Eryn": "from slotflow.baselines.eryn_compat import load_eryn\nload_eryn()",
    "ArviZ": "from slotflow.core.packages import needed\nneeded('arviz', 'arviz')",
}


def _run(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter whose home and caches are an empty folder."""
    folders = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment = os.environ | folders | {"MPLCONFIGDIR": str(home / "matplotlib")}
    command = [sys.executable, "-c", STRICT + code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("package", FIRST_OF_THE_DAY)
def test_first_import_of_the_day_is_silent(package: str, tmp_path: Path):
    result = _run(FIRST_OF_THE_DAY[package], tmp_path)
    assert result.returncode == 0, result.stderr
    assert "ArviZ" not in result.stderr


def test_the_announcement_would_be_seen(tmp_path: Path):
    """The control: the same import without the precaution fails, so the tests above can."""
    assert "undergoing a major refactor" in _run("import arviz", tmp_path).stderr


def test_other_warnings_pass():
    with pytest.warns(FutureWarning, match="something else"), without_announcements():
        warnings.warn("something else", FutureWarning, stacklevel=1)


def test_a_missing_package_says_how_to_get_it():
    with pytest.raises(ValueError, match=r"pip install 'slotflow\[extra\]' or do without"):
        needed("no_such_package_anywhere", "extra", "or do without")
