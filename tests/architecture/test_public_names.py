"""What is public is listed in one document, and is enough for those who write a store."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import pytest
from typer.main import get_command

from rli.cli.app import app

pytestmark = pytest.mark.every_case

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "reference" / "public.md"
PUBLIC_MODULES: Final = ("rli", "rli.errors", "rli.store", "rli.testing")

OWN_PARTS: Final = {
    "rli_sqlite": [],
    # Syncs a new folder, as tables do.
    "rli_lmdb": ["rli.storage.local_files"],
    # Hashes keys as arrays of words; tells records of the commit log by their names.
    "rli_redis": ["rli.codec.encoded_keys", "rli.index"],
    # Hudi's schema has record keys and instants in the place of encoded keys and sequences.
    "rli_hbase": ["rli.codec.record_keys", "rli.codec.lengths", "rli.index"],
}
"""Packages of stores, and the modules of rli that each imports beside public names."""


def listed(section: str) -> list[str]:
    """The names in code spans of one section, below its first sentence."""
    found = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert found is not None, section
    lists = [block for block in found[1].split("\n\n") if block.lstrip().startswith("`")]
    return re.findall(r"`([^`]+)`", "\n".join(lists))


def assert_listed(section: str, names: list[str]) -> None:
    assert sorted(listed(section)) == sorted(names), f"docs/reference/public.md lists other names: section={section}"


@pytest.mark.parametrize("module", ["rli", "rli.store", "rli.testing"])
def test_public_names_are_listed(module: str) -> None:
    imported = importlib.import_module(module)
    assert_listed(f"`{module}`", imported.__all__)
    assert [name for name in imported.__all__ if not hasattr(imported, name)] == []


def _public_callables() -> Iterator[tuple[str, Any]]:
    for module in PUBLIC_MODULES[:-1]:
        exported = importlib.import_module(module)
        yield from ((name, getattr(exported, name)) for name in getattr(exported, "__all__", ()))


def test_signatures_name_public_types() -> None:
    found = {
        f"{name}.{member}: {kind.__qualname__}"
        for name, public in _public_callables()
        for member, given in _members(public)
        for kind in _own_types(given)
    }
    assert sorted(found) == []


def _members(public: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The types of a function, or of a class: of its fields, of methods that users call, of properties."""
    if inspect.isfunction(public):
        yield "", get_type_hints(public)
    if not inspect.isclass(public):
        return
    fields = {name for base in public.__mro__ if _is_own(base) for name in base.__annotations__}
    yield "", {name: kind for name, kind in get_type_hints(public).items() if name in fields and name[0] != "_"}
    for name, member in inspect.getmembers_static(public):
        called = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(called) and _is_own(called):
            yield name, get_type_hints(called)


def _is_own(defined: Any) -> bool:
    return bool(defined.__module__.partition(".")[0] == "rli")


def _own_types(hints: dict[str, Any]) -> Iterator[type]:
    """The classes of rli among some types that no public module lists."""
    pending = list(hints.values())
    while pending:
        hint = pending.pop()
        pending += hint if isinstance(hint, list) else get_args(hint)
        if isinstance(hint, type) and _is_own(hint) and not _is_exported(hint):
            yield hint


def _is_exported(kind: type) -> bool:
    return any(getattr(importlib.import_module(module), kind.__name__, None) is kind for module in PUBLIC_MODULES)


def test_public_spark_names_are_listed() -> None:
    tree = ast.parse((REPOSITORY / "spark" / "rli_spark" / "__init__.py").read_text("utf-8"))
    assigned = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    assert_listed("`rli_spark`", ast.literal_eval(assigned["__all__"]))


def test_the_commands_are_listed() -> None:
    assert_listed("Commands", list(_commands(get_command(app), "rli")))


def _commands(command: Any, name: str) -> Iterator[str]:
    if not hasattr(command, "commands"):
        yield name
        return
    for child, below in command.commands.items():
        if not below.hidden:
            yield from _commands(below, f"{name} {child}")


def test_the_schemes_of_urls_are_listed() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    assert_listed("URLs of stores", list(project["entry-points"]["rli.stores"]))


def _files_of(package: str) -> list[Path]:
    if package == "rli_sqlite":
        return sorted((REPOSITORY / "examples" / package).glob("*.py"))
    return sorted((REPOSITORY / "backends" / package).rglob("*.py"))


def _imports_of_rli(source: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import of rli; the name is empty where the module itself is imported."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.partition(".")[0] == "rli")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "rli":
            yield from ((node.module, alias.name) for alias in node.names)


def _is_public(module: str, name: str) -> bool:
    if module not in PUBLIC_MODULES:
        return False
    public = importlib.import_module(module)
    return not name or name in getattr(public, "__all__", dir(public))


@pytest.mark.parametrize("package", OWN_PARTS)
def test_a_store_imports_public_names(package: str) -> None:
    imports = {found for file in _files_of(package) for found in _imports_of_rli(file.read_text("utf-8"))}
    assert imports
    private = sorted(f"{module}.{name}" for module, name in imports if not _is_public(module, name))
    assert [name for name in private if not name.startswith(tuple(OWN_PARTS[package]))] == []


@pytest.mark.parametrize("missing", ["pytest", "hypothesis"])
def test_store_tests_name_missing_dependency(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import rli.testing"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert outcome.returncode == 1
    last = outcome.stderr.strip().splitlines()[-1]
    assert "rli.testing needs pytest and hypothesis" in last
    assert f"module={missing}" in last
    assert 'pip install "record-level-index[testing]"' in last
