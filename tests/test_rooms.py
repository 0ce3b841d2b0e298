"""The house: rooms that import only from those before them, no cycles, and names of later rooms that someone answers.

The graph is read from the source, so that imports inside functions and those for type checkers alone count as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import slotflow

PACKAGE = "slotflow"
SOURCE = Path(slotflow.__file__).parent

ROOMS = (
    "core", "data", "signal", "posterior", "network", "exact", "bands", "infer", "baselines", "train", "show", "many",
    "studies", "cli",
)  # fmt: skip
"""In the order in which data walk through them."""
DOORS = ("__init__", "__main__", "io", "noise", "plots", "preprocess", "waveforms")
"""Modules of the package itself: ways in for users, over all rooms."""

Graph = Mapping[str, set[str]]


# ---------------------------------------------------------------------- reading the graph


def modules(root: Path, package: str) -> dict[str, Path]:
    """All modules of a package by their dotted names; a folder by the name of the folder."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = (package, *path.relative_to(root).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: Mapping[str, Path]) -> set[str]:
    """Modules of the package that a module imports anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {_nearest(alias.name, known) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:  # a relative import counts from the folder of the module
                folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
                parents = folder.split(".")
                source = ".".join([*parents[: len(parents) - node.level + 1], source]).rstrip(".")
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                found.add(whole if whole in known else _nearest(source, known))
    return (found & set(known)) - {name}


def _nearest(name: str, known: Mapping[str, Path]) -> str:
    """The module that a dotted name belongs to."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def import_graph(root: Path, package: str = PACKAGE) -> dict[str, set[str]]:
    """Who imports whom."""
    known = modules(root, package)
    return {name: imported(name, path, known) for name, path in known.items()}


def room_of(module: str) -> str:
    """The room of a module, or the name of a door."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def upward(graph: Graph, rooms: tuple[str, ...]) -> list[str]:
    """Imports from a room that comes later, and imports of a door by any room."""
    order = {room: i for i, room in enumerate(rooms)}
    found = []
    for name, targets in graph.items():
        mine = order.get(room_of(name), len(rooms))
        for target in targets:
            if order.get(room_of(target), len(rooms)) > mine:
                found.append(f"{name} -> {target}")
    return sorted(found)


def cycles(graph: Graph) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in graph:
        if name not in index:
            visit(name)
    return sorted(found)


def asked_later(root: Path) -> Iterator[tuple[str, str]]:
    """Every name that a module asks a later room for, `later("name")`, with the file that asks."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "later":
                assert len(node.args) == 1 and isinstance(node.args[0], ast.Constant), path
                yield str(node.args[0].value), str(path.relative_to(root))


def answered(root: Path) -> dict[str, str]:
    """The names that the package's `__init__` gives an answer to, each with its "module:function"."""
    for node in ast.walk(ast.parse((root / "__init__.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "answer_with":
            places: dict[str, str] = ast.literal_eval(node.args[0])
            return places
    return {}


# ---------------------------------------------------------------------- the package


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return import_graph(SOURCE)


def test_every_module_is_in_a_room_or_is_a_door(graph: Graph) -> None:
    assert {room_of(name) for name in graph} <= {*ROOMS, *DOORS}


def test_no_room_imports_a_later_one(graph: Graph) -> None:
    assert upward(graph, ROOMS) == []


def test_no_modules_import_each_other(graph: Graph) -> None:
    assert cycles(graph) == []


def test_every_name_asked_of_a_later_room_is_answered() -> None:
    """Each name is wired in the package's `__init__` to a function that exists, and each wire is used."""
    places, known = answered(SOURCE), modules(SOURCE, PACKAGE)
    assert set(dict(asked_later(SOURCE))) == set(places)
    for place in places.values():
        module, function = place.split(":")
        tree = ast.parse(known[module].read_text(encoding="utf-8"))
        assert function in {getattr(node, "name", None) for node in tree.body}, place


# ---------------------------------------------------------------------- the controls


def tree(folder: Path, files: Mapping[str, str]) -> Path:
    """A package in a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_graph_sees_every_kind_of_import(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "__init__.py": "",
            "core/__init__.py": "",
            "core/a.py": "import p.core.b\nfrom p.core import c\nfrom . import d\nfrom .e import x\nimport os",
            "core/b.py": "def f():\n    from p.core.c import y\n",
            "core/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..core.d import z\n",
            "core/d.py": "",
            "core/e.py": "from p.core.d.thing import no_module\n",
        },
    )
    assert import_graph(root, "p") == {
        "p": set(),
        "p.core": set(),
        "p.core.a": {"p.core.b", "p.core.c", "p.core.d", "p.core.e"},
        "p.core.b": {"p.core.c"},
        "p.core.c": {"p.core.d"},
        "p.core.d": set(),
        "p.core.e": {"p.core.d"},
    }


def test_upward_edges_and_cycles_are_found(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "__init__.py": "",
            "io.py": "from p.data.read import f",
            "core/files.py": "def f():\n    from p.data.read import g\n",
            "core/more.py": "from p.io import f",
            "data/read.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.data.write import g\n",
            "data/write.py": "from p.data.form import h\nfrom p.core import files\n",
            "data/form.py": "import p.data.read\n",
        },
    )
    graph = import_graph(root, "p")
    assert upward(graph, ("core", "data")) == [
        "p.core.files -> p.data.read",
        "p.core.more -> p.io",
    ]
    assert cycles(graph) == [["p.core.files", "p.data.form", "p.data.read", "p.data.write"]]
    graph["p.core.files"].clear()
    assert cycles(graph) == [["p.data.form", "p.data.read", "p.data.write"]]
    graph["p.data.read"].clear()
    assert cycles(graph) == []


def test_names_that_nobody_answers_are_found(tmp_path: Path) -> None:
    files = {
        "__init__.py": 'answer_with({"plot": "p.show:plot"})',
        "core/a.py": 'later("plot")\nlater("refine")',
    }
    root = tree(tmp_path, files)
    assert dict(asked_later(root)) == {"plot": "core/a.py", "refine": "core/a.py"}
    assert answered(root) == {"plot": "p.show:plot"}
