"""Limits are passed to the code that keeps them, as ``LogLimits`` is; tests replace no constant of a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]+")


def test_tests_replace_no_constants() -> None:
    folders = ("tests", "spark", "examples", "rli/testing")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    replaced = {name for path in files for name in _replaced(ast.parse(path.read_text(encoding="utf-8")))}
    assert replaced == set(), "pass a limit instead"


def _replaced(module: ast.Module) -> Iterator[str]:
    """The names of constants that a module sets in other modules or classes."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "setattr":
            # setattr(module, "NAME", value), or setattr("module.NAME", value)
            names = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        elif isinstance(node, ast.Assign):
            names = [target.attr for target in node.targets if isinstance(target, ast.Attribute)]
        else:
            continue
        yield from (name for full in names if CONSTANT.fullmatch(name := full.rpartition(".")[2]))
