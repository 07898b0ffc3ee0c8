"""Each invariant of the commit protocol is kept by a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
MARK = re.compile(r"pytest\.mark\.invariant\(([^)]*)\)")


def _invariants() -> list[str]:
    return re.findall(r"^\*\*(P\d+)\.", PROTOCOL, re.MULTILINE)


def _named_by_tests() -> set[str]:
    modules = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "rli" / "testing").glob("*.py")]
    marks = [mark for module in modules for mark in MARK.findall(module.read_text(encoding="utf-8"))]
    return {name for mark in marks for name in re.findall(r'"(P\d+)"', mark)}


def test_invariant_numbers_are_unique() -> None:
    assert len(set(_invariants())) == len(_invariants()) > 20


def test_each_invariant_is_named_by_test() -> None:
    missing = sorted(set(_invariants()) - _named_by_tests())
    assert missing == [], 'put @pytest.mark.invariant("P…") on the test that would catch it lying'


def test_tests_name_known_invariants_only() -> None:
    assert sorted(_named_by_tests() - set(_invariants())) == []
