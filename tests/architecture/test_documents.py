"""Documents that name modules, tests and decisions name those that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.every_case

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
KEPT = {
    name: (re.findall(r"`([^`]+)`", modules), re.findall(r"`([^`]+)`", tests))
    for name, modules, tests in re.findall(r"^\| (P\d+) \| (.+) \| (.+) \|$", PROTOCOL, re.MULTILINE)
}


def test_invariants_have_module_and_test() -> None:
    assert sorted(KEPT) == sorted(re.findall(r"^\*\*(P\d+)\.", PROTOCOL, re.MULTILINE))


@pytest.mark.parametrize("name", KEPT)
def test_modules_and_tests_of_invariants_exist(name: str) -> None:
    modules, tests = KEPT[name]
    assert [path for path in (*modules, *tests) if not (ROOT / path).is_file()] == []
    assert modules
    assert tests
    for path in tests:
        assert f'"{name}"' in (ROOT / path).read_text(encoding="utf-8")


def test_invariant_numbers_have_no_gaps() -> None:
    used = {int(name[1:]) for name in KEPT}
    missing = set(range(1, max(used) + 1)) - used
    assert {f"P{number}" for number in missing} == set(re.findall(r"there is no (P\d+)", PROTOCOL))


@pytest.mark.parametrize("page", DECISIONS, ids=[page.stem for page in DECISIONS])
def test_decisions_have_status_and_date(page: Path) -> None:
    title, _, status = page.read_text(encoding="utf-8").splitlines()[:3]
    number, _, name = title.removeprefix("# ").partition(". ")
    assert int(number) == int(page.name[:4])
    found = re.fullmatch(r"\*\*Status:\*\* (accepted|superseded by \d+), (\d{4}-\d\d-\d\d)\.", status)
    assert found is not None, status
    index = (page.parent / "index.md").read_text(encoding="utf-8")
    assert f"| {number} | [{name}]({page.name}) | {found[1]} | {found[2]} |" in index


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOTS = ("backends", "benchmarks", "docker", "docs", "examples", "rli", "spark", "tests", "changelog.d", ".ci")


def test_paths_of_the_recipes_exist() -> None:
    named = {path for path in re.findall(r"`([\w./-]+)`", CONTRIBUTING) if "NAME" not in path}
    paths = {path for path in named if path.split("/")[0] in ROOTS and "/" in path}
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_the_recipes_name_existing_tests() -> None:
    named = re.findall(r'"(tests/[\w/]+\.py)::(\w+)', CONTRIBUTING)
    assert named
    for path, function in named:
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8")
