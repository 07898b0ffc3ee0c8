"""Continuous integration runs each Python version that the package claims."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _claimed() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))


def test_each_claimed_version_has_a_lane() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    matrix = re.search(r"python: \[(.*)\]", workflow)
    assert matrix is not None
    assert re.findall(r"3\.\d+", matrix[1]) == _claimed()


def test_whole_check_runs_second_version() -> None:
    assert re.search(r"^make .*\bunit-lane( &)?$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    version = re.search(r"^UNIT_VERSION \?= (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert version is not None
    assert version[1] in _claimed()[1:]
