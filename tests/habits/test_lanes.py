"""The lane of PySpark 4 collects the folders of its tests alone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_OF_SPARK = re.compile(r"pytest\.mark\.spark\b")
_ON_ONE_LINE = re.compile(r"pytest\.mark\.(one_spark|hudi)\b")


def test_other_folders_run_one_spark() -> None:
    named = re.search(r"^SPARK4_TESTS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert named is not None
    folders = [ROOT / folder for folder in named[1].split()]
    with_spark = [
        path for path in (ROOT / "tests").rglob("test_*.py") if _OF_SPARK.search(path.read_text(encoding="utf-8"))
    ]
    elsewhere = [path for path in with_spark if not any(path.is_relative_to(folder) for folder in folders)]
    assert len(elsewhere) < len(with_spark)
    assert [path for path in elsewhere if not _ON_ONE_LINE.search(path.read_text(encoding="utf-8"))] == []
