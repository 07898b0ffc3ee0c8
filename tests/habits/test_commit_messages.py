"""The hook for commit messages accepts good subjects and names what is wrong with others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.every_case

ROOT = Path(__file__).resolve().parents[2]
GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]


def _commit(folder: Path, message: str) -> subprocess.CompletedProcess[str]:
    subprocess.run([*GIT, "init", "-q", "."], cwd=folder, check=True)
    (folder / ".git" / "hooks" / "commit-msg").symlink_to(ROOT / ".ci" / "check-subject")
    command = [*GIT, "commit", "--allow-empty", "-qm", message]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "message",
    ["Read a file", "Read a file\n\nbecause it is there", "Ü" * 72, "Merge branch 'a' into main.", "fixup! Read"],
)
def test_good_subjects_are_accepted(tmp_path: Path, message: str) -> None:
    done = _commit(tmp_path, message)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("Read a file.", "ends with a period"),
        ("read a file", "no capital letter"),
        ("R" * 73, "73 characters"),
        ("Read a file\nbecause it is there", "second line"),
    ],
)
def test_bad_subjects_are_refused(tmp_path: Path, message: str, reason: str) -> None:
    done = _commit(tmp_path, message)
    assert done.returncode != 0
    assert reason in done.stderr


def test_pre_commit_installs_the_hook() -> None:
    settings = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert "default_install_hook_types: [pre-commit, commit-msg]" in settings
    assert "entry: .ci/check-subject" in settings
