"""A release collects the fragments of changes into the changelog."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\nFragments of newer changes are in `changelog.d/`.\n\n### Added\n- One.\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "changelog.py", tmp_path / ".ci")
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("How.", encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, encoding="utf-8")
    _set_version(tmp_path, "0.1.0")
    return tmp_path


def _set_version(checkout: Path, version: str) -> None:
    (checkout / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n', encoding="utf-8")


def _run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(checkout / ".ci" / "changelog.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_fragments_become_a_section(checkout: Path) -> None:
    (checkout / "changelog.d" / "two.added.md").write_text("Two,\nin two lines.\n", encoding="utf-8")
    (checkout / "changelog.d" / "three.fixed.md").write_text("- Three.\n", encoding="utf-8")
    assert _run(checkout, "collect", "0.1.0", "2026-12-01").returncode == 0
    expected = "### Added\n- One.\n- Two,\n  in two lines.\n\n### Fixed\n- Three.\n"
    assert expected in (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    assert _run(checkout, "notes", "0.1.0").stdout == expected.replace("\n  in", " in")
    assert [path.name for path in (checkout / "changelog.d").iterdir()] == ["README.md"]


def test_a_later_release_keeps_earlier_sections(checkout: Path) -> None:
    assert _run(checkout, "collect", "0.1.0", "2026-12-01").returncode == 0
    (checkout / "changelog.d" / "two.changed.md").write_text("Two.", encoding="utf-8")
    assert _run(checkout, "collect", "0.2.0", "2026-12-02").returncode == 0
    assert _run(checkout, "notes", "0.1.0").stdout == "### Added\n- One.\n"
    _set_version(checkout, "0.2.0")
    assert _run(checkout, "notes", "0.2.0").stdout == "### Changed\n- Two.\n"


def test_tags_of_other_versions_are_refused(checkout: Path) -> None:
    assert _run(checkout, "collect", "0.2.0", "2026-12-02").returncode == 0
    assert "built=0.1.0" in _run(checkout, "notes", "0.2.0").stderr


def test_a_released_version_is_refused(checkout: Path) -> None:
    assert _run(checkout, "collect", "0.1.0", "2026-12-01").returncode == 0
    assert "version=0.1.0" in _run(checkout, "collect", "0.1.0", "2026-12-02").stderr


def test_unknown_kinds_are_refused(checkout: Path) -> None:
    (checkout / "changelog.d" / "two.news.md").write_text("Two.", encoding="utf-8")
    before = (checkout / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "two.news.md" in _run(checkout, "collect", "0.1.0", "2026-12-01").stderr
    assert (checkout / "CHANGELOG.md").read_text(encoding="utf-8") == before


def test_own_fragments_can_be_collected(checkout: Path) -> None:
    shutil.copytree(ROOT / "changelog.d", checkout / "changelog.d", dirs_exist_ok=True)
    shutil.copy(ROOT / "CHANGELOG.md", checkout)
    done = _run(checkout, "collect", "99.0.0", "2026-12-01")
    assert done.returncode == 0, done.stderr
