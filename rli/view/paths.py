"""Where rli keeps what Hudi has no place for: below ``.hoodie/.rli``, which Hudi's writers and readers pass over."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from rli.hudi.timeline.instant import UNDOING_ACTIONS

_FOLDER: Final = ".hoodie/.rli"
_DIGEST_BYTES: Final = 8

FOLDERS: Final = (_FOLDER, ".hoodie", "")
"""This folder and those that it is in, up to the table's own; the innermost one first."""

SETTINGS: Final = f"{_FOLDER}/table.json"
CLAIM: Final = f"{_FOLDER}/creating.json"
DROPPING: Final = f"{_FOLDER}/dropping.json"
MIGRATION: Final = f"{_FOLDER}/migration.json"
COLUMN_INDEXES: Final = f"{_FOLDER}/column_indexes.json"
DROPPED_INDEXES: Final = f"{_FOLDER}/dropped_indexes"
WORK: Final = f"{_FOLDER}/work"
REQUESTS: Final = f"{_FOLDER}/requests"
JOURNAL: Final = f"{_FOLDER}/journal"
UNDOING: Final = f"{_FOLDER}/undoing"
SERVICES: Final = f"{_FOLDER}/services"
PREPARED: Final = f"{_FOLDER}/prepared"

ARCHIVING: Final = f"{_FOLDER}/archiving"
BIRTHS: Final = f"{_FOLDER}/metadata"
BUILDS: Final = f"{_FOLDER}/builds"
RECORDS: Final = f"{_FOLDER}/records"
INDEX: Final = f"{_FOLDER}/index"
PROBES: Final = _FOLDER
"""Where a process makes a file to see whether another path leads here; a clean removes those of killed processes."""

TRANSACTIONS: Final = f"{_FOLDER}/transactions"
STREAMS: Final = f"{_FOLDER}/streams"
DELETED_KEYS: Final = f"{_FOLDER}/deleted_keys"


def mark_of_drop(name: str, identity: str) -> str:
    """Says that an index on a column was dropped; of its identity, so that the mark of an earlier index of the name counts for nothing."""
    return f"{DROPPED_INDEXES}/{name}.{identity}"


def work_folder(instant: str) -> str:
    """Holds what a write has not published yet: base files, the commit's content, the manifest."""
    return f"{WORK}/{instant}"


def request_folder(name: str) -> str:
    """Holds what a write has computed before it has an instant."""
    return f"{REQUESTS}/{name}"


def stream_folder(name: str) -> str:
    """Holds what a stream has read of the table to fill its state."""
    return f"{STREAMS}/{name}"


def begun(instant: str) -> str:
    """Makes the work folder be there in an object store, where a folder is no more than a part of names."""
    return f"{work_folder(instant)}/begun"


def unrequested(instant: str) -> str:
    """Says that the writer has not requested its instant yet: if it is on the timeline, another engine may have requested it."""
    return f"{work_folder(instant)}/unrequested"


def unpublished_files(instant: str) -> str:
    """Holds the base files of a write before they are moved into the table."""
    return f"{work_folder(instant)}/files"


def unpublished_file(instant: str, path: str) -> str:
    """Where a base file lies before its write publishes it: those of all partitions in one folder, as folders take time."""
    folder, _, name = path.rpartition("/")
    return f"{unpublished_files(instant)}/{blake2b(folder.encode(), digest_size=_DIGEST_BYTES).hexdigest()}-{name}"


def manifest(instant: str) -> str:
    """Lists the base files that a write is about to bring into the table."""
    return f"{work_folder(instant)}/manifest.json"


def commit_content(instant: str) -> str:
    """Content of the completed instant before it is published; without it nobody can publish."""
    return f"{work_folder(instant)}/commit"


def deltacommit_content(instant: str) -> str:
    """Content of the write's deltacommit of the metadata table before that is published; as ``commit_content``."""
    return f"{work_folder(instant)}/deltacommit"


def announcement(instant: str, action: str) -> str:
    """Holds the plan of a table service of rli's; once it is announced, every holder of the lease carries it out."""
    return f"{UNDOING if action in UNDOING_ACTIONS else SERVICES}/{instant}.{action}"


def archiving_folder(attempt: str) -> str:
    """Holds what one archive is about to do."""
    return f"{ARCHIVING}/{attempt}"


def archive_plan(folder: str) -> str:
    """Says which files leave the active timeline once the archive's file has its name."""
    return f"{folder}/plan.json"


def archive_content(folder: str) -> str:
    """Content of the archive's file before it has its name; without it nobody can give it."""
    return f"{folder}/content"


def birth_folder(attempt: str) -> str:
    """Holds new partitions of the metadata table before they are brought into it."""
    return f"{BIRTHS}/{attempt}"


def birth_files(folder: str) -> str:
    """Holds their files; without it nobody can bring any more of them into the metadata table."""
    return f"{folder}/files"


def birth_plan(folder: str) -> str:
    """Says which partitions are about to come."""
    return f"{folder}/plan.json"


def build_folder(source: str) -> str:
    """Holds what was read for builds of partitions of the metadata table, for builds that go on."""
    return f"{BUILDS}/{source}"


def compaction_plan(folder: str) -> str:
    """Says which base files of the metadata table are about to come."""
    return f"{folder}/compaction.json"


def journal_folder(instant: str) -> str:
    """Holds the journal of a commit."""
    return f"{JOURNAL}/{instant}"


def journal_file(instant: str, name: str) -> str:
    """A file of a commit's journal."""
    return f"{journal_folder(instant)}/{name}"
