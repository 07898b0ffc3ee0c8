"""``make soak`` runs each test that ``make test`` cuts short."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_RUN_WHOLE = {"tests/architecture", "tests/habits"}
"""They have no random cases, and all others each time."""


def test_soak_names_all_cut_folders() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    named = re.search(r"^SOAK_TESTS := (.*)$", makefile, re.MULTILINE)
    assert named is not None
    with_tests = {path.relative_to(ROOT).parts[:2] for path in (ROOT / "tests").rglob("test_*.py")}
    assert {*named[1].split()} == {"/".join(parts) for parts in with_tests} - _RUN_WHOLE | {"examples"}
