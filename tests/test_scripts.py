"""Scripts outside the package: every name that they import from it is there."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("docs/*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=[f"{s.parent.name}/{s.name}" for s in SCRIPTS])
def test_names_that_a_script_imports_are_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slotflow"):
            module = import_module(node.module or "")
            for alias in node.names:
                found = hasattr(module, alias.name) or find_spec(f"{node.module}.{alias.name}")
                assert found, f"{node.module} has no {alias.name} (line {node.lineno})"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("slotflow"):
                    import_module(alias.name)


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 10
