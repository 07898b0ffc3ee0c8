"""Outputs, folders and pipes that cannot be written end a command with one line and status 2, and leave nothing behind."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import rli as library
from tests.cli.conftest import Rli

_OUTPUTS = ("x.parquet", "x.csv", "x.jsonl", "x.arrow")


_LOCATIONS = (
    ("create", "/proc/rli", "--record-key", "id"),
    ("create", "file/t", "--record-key", "id"),
    ("create", "t", "--record-key", "id", "--index", "lmdb:///proc/rli"),
    ("create", "t", "--record-key", "id", "--index", "lmdb:file"),
    ("demo", "--dir", "/proc/rli", "--engine", "local"),
    ("demo", "--dir", "file", "--engine", "local"),
    ("index", "bootstrap", "trips", "--index", "lmdb:///proc/rli"),
    ("bench", "index_size", "--output", "/proc/rli"),
    ("bench", "index_size", "--output", "file/results"),
)


def full_disk() -> None:
    """Let this process write no byte to a file."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def run_on_a_full_disk(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
        preexec_fn=full_disk,
    )


def test_unwritable_output_is_refused(rli: Rli, trips: str, tmp_path: Path) -> None:
    for name in _OUTPUTS:
        refused = rli("read", trips, "--output", f"nowhere/{name}", status=2).err
        assert refused.startswith(f"error: the folder does not exist: file=nowhere/{name} ")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "device.csv").symlink_to("/dev/full")
    for name in ("folder.csv", "device.csv"):
        refused = rli("read", trips, "--output", name, status=2).err
        assert refused.startswith(f"error: this is not a regular file: file={name}; ")
    assert (tmp_path / "device.csv").is_symlink()


def test_output_follows_symbolic_link(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link.csv").symlink_to("kept/file.csv")
    rli("read", trips, "--output", "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "kept" / "file.csv").read_text().count("\n") == 4
    assert os.listdir(tmp_path / "kept") == ["file.csv"]


@pytest.mark.parametrize("name", ["x.parquet", "x.csv"])
def test_full_disk_keeps_earlier_output(trips: str, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("earlier")
    before = sorted(os.listdir())
    run = run_on_a_full_disk("read", trips, "--output", name)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        f"error: the file cannot be written: file={name} (File too large); check permissions and free space\n"
    )
    assert sorted(os.listdir()) == before
    assert (tmp_path / name).read_text() == "earlier"


def test_failed_creation_leaves_nothing(rli: Rli, tmp_path: Path) -> None:
    run = run_on_a_full_disk("create", "t", "--record-key", "id")
    assert run.returncode == 2
    assert run.stderr.startswith("error: ")
    assert "File too large" in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert [path.name for path in (tmp_path / "t").rglob("*")] in ([], [".hoodie"])
    rli("create", "t", "--record-key", "id")


def test_uncreatable_location_is_refused(rli: Rli, trips: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    before = library.open_table(trips).settings.index_url
    for arguments in _LOCATIONS:
        refused = rli(*arguments, status=4 if "lmdb:///proc/rli" in arguments else 2)
        assert len(refused.err.splitlines()) == 1, refused
        assert refused.err.startswith("error: ")
    # A bootstrap at a URL that cannot be used keeps the index that there is.
    assert library.open_table(trips).settings.index_url == before
    rli("index", "verify", trips)


@pytest.mark.parametrize("command", [("doctor",), ("read", "--json")], ids=" ".join)
def test_closed_pipe_ends_command_quietly(trips: str, command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [sys.executable, "-m", "rli", command[0], trips, *command[1:]],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=240,
    )
    os.close(writing)
    assert (run.returncode, run.stderr) == (141, "")


def test_full_device_fails_output_not_notes(trips: str) -> None:
    command = [sys.executable, "-m", "rli", "lookup", trips, "k2", "--json"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        lost = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=240)
        kept = subprocess.run(
            [sys.executable, "-m", "rli", "upsert", trips, "day1.jsonl"],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
            timeout=240,
        )
    assert lost.returncode == 2
    assert lost.stderr.startswith("error: the operating system refused: [Errno 28] No space left on device")
    assert kept.returncode == 0
    assert "unchanged" in kept.stdout
