"""What the README shows is run, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rli import open_table

pytestmark = pytest.mark.every_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_ten_lines_of_readme_work(tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[0], encoding="utf-8")
    shown = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("1 0 1\n")
    assert "'partition_path': 'Bern'" in shown.stdout
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, check=True)  # and once more


@pytest.mark.one_spark
@pytest.mark.spark
def test_the_same_in_spark(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spark.sparkContext.master == "local[2]"
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES:
        exec(example, {})  # noqa: S102  (the README's own lines)
    assert sorted(open_table("trips").read()["id"].to_pylist()) == ["b", "c", "d"]


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\((?!https?:)([^)#]+)\)", README))))
def test_links_lead_to_files(target: str) -> None:
    assert (ROOT / target).exists(), target


def test_readme_commands_are_make_targets() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {"demo", "test", "bench"} <= set(targets)
