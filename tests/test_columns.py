"""No module outside `signal/waveforms` knows the columns of a component: it asks the waveform.

What gives such knowledge away is searched for in the source: a literal column of an array of components
(`theta[..., 2]`), three names for the columns of one (`a, phi, f = theta.unbind(-1)`), a last axis of three
(`zeros((n, k, 3))`), three numbers for each component (`3 * k`), and the names of a tone's parameters spelt out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slotflow

SOURCE = Path(slotflow.__file__).parent
HOME = "signal/waveforms/"

COMPONENTS = re.compile(r"theta|truth|draw|tone|component|centre|median|best_fit|^z$|^z_|sample$")
"""Names of arrays whose last axis holds the parameters of a component."""
COUNTS = re.compile(r"^(k|k_\w+|\w+_k|count|counts|columns|n_components|number)$", re.IGNORECASE)
"""Names of numbers of components."""
MAKERS = {
    "zeros",
    "ones",
    "empty",
    "full",
    "reshape",
    "view",
    "expand",
    "new_zeros",
    "new_empty",
    "broadcast_to",
}
"""Functions that take a shape."""
TONE_NAMES = {"amplitude", "phase", "frequency"}


def name_of(node: ast.expr) -> str:
    """The last identifier of a name, an attribute, a call or a subscript."""
    while isinstance(node, ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "attr", getattr(node, "id", ""))


def chain(node: ast.expr) -> set[str]:
    """All identifiers of a chain of names, attributes and calls."""
    nodes = list(ast.walk(node))
    return {getattr(n, "attr", getattr(n, "id", "")) for n in nodes}


def is_column(index: ast.expr) -> bool:
    """Whether an index is literally a column after whole axes: [..., 2], [:, 1], [..., 1:3]."""
    if not isinstance(index, ast.Tuple) or len(index.elts) < 2:
        return False
    *axes, last = index.elts
    whole = all(
        (isinstance(a, ast.Constant) and a.value is ...)
        or (isinstance(a, ast.Slice) and a.lower is a.upper is a.step is None)
        for a in axes
    )
    ends = [last.lower, last.upper] if isinstance(last, ast.Slice) else [last]
    literal = [e for e in ends if isinstance(e, ast.Constant) and isinstance(e.value, int)]
    return whole and bool(literal) and len(literal) == len([e for e in ends if e is not None])


def is_three(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == 3


def three_at_the_end(call: ast.Call) -> bool:
    """Whether a shape that is given to a function, as a tuple or as arguments, ends in a literal 3."""
    if name_of(call.func) not in MAKERS:
        return False
    shapes = [a.elts for a in call.args if isinstance(a, ast.Tuple | ast.List)] or [call.args]
    return any(len(shape) > 1 and is_three(shape[-1]) for shape in shapes)


def give_aways(text: str) -> Iterator[tuple[int, str]]:
    """Line and kind of each place in a module's text that knows the columns of a component."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript):
            if COMPONENTS.search(name_of(node.value)) and is_column(node.slice):
                yield node.lineno, "a literal column"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = (node.left, node.right), (node.right, node.left)
            if any(is_three(a) and COUNTS.match(name_of(b)) for a, b in sides):
                yield node.lineno, "three numbers a component"
        elif isinstance(node, ast.Call):
            if three_at_the_end(node):
                yield node.lineno, "a last axis of three"
        elif isinstance(node, ast.Tuple | ast.List):
            values = [e.value for e in node.elts if isinstance(e, ast.Constant)]
            if {v for v in values if isinstance(v, str)} >= TONE_NAMES:
                yield node.lineno, "a tone's names"
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            value = node.value
            if (
                len(node.targets[0].elts) == 3
                and isinstance(value, ast.Call)
                and name_of(value.func) == "unbind"
                and isinstance(value.func, ast.Attribute)
                and any(COMPONENTS.search(name) for name in chain(value.func.value))
            ):
                yield node.lineno, "three names for the columns"


def found() -> dict[str, list[tuple[int, str]]]:
    """The places of each file of the package, but for the waveforms' own."""
    places = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if not name.startswith(HOME):
            here = sorted(set(give_aways(path.read_text(encoding="utf-8"))))
            if here:
                places[name] = here
    return places


def test_columns_are_the_waveforms_business() -> None:
    assert not found()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f = theta[..., 2]", "a literal column"),
        ("self.draws[:, :, 0].mean()", "a literal column"),
        ("post.sample(100)[..., 1:3]", "a literal column"),
        ("a, phi, f = theta.double().unbind(-1)", "three names for the columns"),
        ("x = np.zeros((n, k, 3))", "a last axis of three"),
        ("y = x.reshape(n, -1, 3)", "a last axis of three"),
        ("free = n - 3 * k", "three numbers a component"),
        ("free = n - self.k_max * 3", "three numbers a component"),
        ("NAMES = ('amplitude', 'phase', 'frequency')", "a tone's names"),
    ],
)
def test_each_kind_is_found(text: str, kind: str) -> None:
    assert [k for _, k in give_aways(text)] == [kind]


@pytest.mark.parametrize(
    "text",
    [
        "f = waveform.place_of(theta)",
        "first = theta[0, 1]",
        "band[..., 1]",
        "x = np.zeros((n, k, waveform.size))",
        "loss = 3 * scale",
        "low, high = theta.unbind(-1)",
        "bounds = ('amplitude', 'frequency', 'sigma')",
    ],
)
def test_other_code_is_left_alone(text: str) -> None:
    assert list(give_aways(text)) == []
