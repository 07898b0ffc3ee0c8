"""Limits are passed to the code that keeps them, as ``LogLimits`` is; tests replace no constant and no private function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")
PRIVATE = re.compile(r"_[a-z]\w*")


def test_tests_replace_nothing_private() -> None:
    folders = ("tests", "spark", "examples", "rli/testing")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    replaced = {name for path in files for name in _replaced(ast.parse(path.read_text(encoding="utf-8")))}
    assert replaced == set(), "pass a limit, or let something happen at a step, a request, a change"


def _replaced(module: ast.Module) -> Iterator[str]:
    """The constants that a module sets in other modules or classes, and the private functions that it replaces there."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setattr":
            # setattr(module, "NAME", value), or setattr("module.NAME", value)
            full = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            names = [name.rpartition(".")[2] for name in full]
            yield from (name for name in names if CONSTANT.fullmatch(name) or PRIVATE.fullmatch(name))
        elif isinstance(node, ast.Assign):
            targets = [target.attr for target in node.targets if isinstance(target, ast.Attribute)]
            yield from filter(CONSTANT.fullmatch, targets)
