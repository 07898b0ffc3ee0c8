"""Transactions of callers that were committed: a write that is repeated changes nothing (docs/protocol.md, P26).

Each commit with a transaction has a record, a small file in the folder of its application. It lies among the base files
of the write and becomes part of the table with them: before the commit is published, under the lease, and not once the
write has been undone (P4, P9). It binds the transaction to the verb and the rows of the write. A record counts if its commit is part of the table. So a rollback takes the transaction
back, and an archive leaves it. To look one up lists the records of one application, which are as many as it has commits
on the active timeline, and one more.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from rli.errors import CorruptTableError, TransactionMismatchError
from rli.hudi.timeline.timeline import Timeline
from rli.json_text import parse_json
from rli.model import CommitResult, CommittedTransaction
from rli.storage import Storage
from rli.view import paths
from rli.view.caller_metadata import BoundRequest, CallerMetadata, CallerTransaction, ComparedBy

_VERSION: Final = 1
_COMPARED: Final = {
    ComparedBy.KEYS: "record keys",
    ComparedBy.RECORDS: "records",
    ComparedBy.CONDITION: "conditions or values",
}
_DIGITS: Final = 19
_LONGEST_NAME: Final = 120
_CAPITAL: Final = re.compile("[A-Z]")
_ESCAPE: Final = re.compile("%[0-9A-F]{2}")
_NAME: Final = re.compile(rf"[0-9]{{{_DIGITS}}}\.[0-9]{{17}}")

_NOT_KEPT: Final = frozenset(
    {
        "attempts",
        "conflicts",
        "seconds",
        "repeated",
        "duplicates",
        "index_behind",
        "dry_run",
        "files_to_rewrite",
        "receipt",
    }
)
"""What is not known yet when the record is written, and what earlier versions do not read within the result."""


class RepeatedTransactionError(Exception):
    """A write was committed before. Ends the repeat; no caller sees it.

    Attributes:
        result: for the caller.
    """

    def __init__(self, result: CommitResult) -> None:
        super().__init__(result.instant)
        self.result = result


@dataclass(frozen=True, slots=True, order=True)
class _Record:
    """One record, as its name tells; ordered by number."""

    number: int
    instant: str
    path: str

    @classmethod
    def at(cls, path: str) -> _Record:
        number, _, instant = path.rpartition("/")[2].partition(".")
        return cls(int(number), instant, path)


def require_first(storage: Storage, timeline: Timeline, caller: CallerMetadata) -> None:
    """Pass a write whose transaction, if it has one, was not committed, and none of a greater number.

    Raises:
        RepeatedTransactionError: the transaction was committed with the same request, or by an earlier version of rli, which
            kept no request.
        TransactionMismatchError: it was committed with another request, or a greater number was committed, and nothing is
            kept of this one.
    """
    transaction = caller.transaction
    if transaction is None:
        return
    committed = [record for record in _records(storage, transaction) if timeline.is_visible(record.instant)]
    if not committed or max(committed).number < transaction.number:
        return
    same = [record for record in committed if record.number == transaction.number]
    if not same:
        raise TransactionMismatchError(
            "a transaction with a greater number was committed, and this number is not known: "
            f"transaction={_named(transaction)} committed={max(committed).number}",
            remedy="nothing was written: go on with a greater number than the committed one",
        )
    done = _load(storage, max(same).path)
    if done.request is not None and caller.request is not None:
        _require_same(transaction, done.request, caller.request, done.result.instant)
    raise RepeatedTransactionError(replace(done.result, repeated=True))


def last_committed(storage: Storage, timeline: Timeline, application_id: str) -> CommittedTransaction | None:
    """The transaction of an application with the greatest number; None if none was committed, or all were undone.

    Raises:
        CorruptTableError: its record is damaged.
    """
    records = _records(storage, CallerTransaction(application_id, 0))
    committed = [record for record in records if timeline.is_visible(record.instant)]
    if not committed:
        return None
    last = max(committed)
    done = _load(storage, last.path)
    return CommittedTransaction(last.number, done.metadata, done.result)


def save_record(storage: Storage, instant: str, caller: CallerMetadata, result: CommitResult) -> list[str]:
    """Write the record of a transaction, if there is one, among the unpublished files of a write; returns its path in the table."""
    transaction = caller.transaction
    if transaction is None:
        return []
    path = f"{_folder(transaction)}/{transaction.number:0{_DIGITS}}.{instant}"
    content = {
        "version": _VERSION,
        "transaction": list(transaction),
        "result": {name: value for name, value in asdict(result).items() if name not in _NOT_KEPT},
        "duplicates": result.duplicates,
        "request": None if caller.request is None else _stored_request(caller.request),
        **({"metadata": dict(caller.strings)} if caller.strings else {}),
    }
    storage.write_bytes(paths.unpublished_file(instant, path), json.dumps(content).encode())
    return [path]


def delete_superseded(
    storage: Storage, timeline: Timeline, transaction: CallerTransaction, require_held: Callable[[], None]
) -> None:
    """Remove records of an application that nobody needs any more.

    Commits that were archived are never undone: of their records the greatest suffices. Records without a commit are of
    writes and commits that were undone.

    Args:
        storage: of the table.
        timeline: as it has been since the caller took the lease.
        transaction: of the application.
        require_held: raises ``LeaseLostError`` once the lease is another process's, whose records the timeline may not tell.
    """
    records = _records(storage, transaction)
    archived = sorted(record for record in records if timeline.is_archived(record.instant))
    gone = [record for record in records if not timeline.is_visible(record.instant)]
    superseded = [record.path for record in (*archived[:-1], *gone)]
    if superseded:
        require_held()
    storage.delete_files(superseded)


def delete_records_of(storage: Storage, instants: frozenset[str]) -> None:
    """Remove the records of commits that were undone."""
    _delete(storage, (record.path for record in _all_records(storage) if record.instant in instants))


def delete_uncommitted_records(storage: Storage, timeline: Timeline, require_held: Callable[[], None]) -> None:
    """Remove all records without a commit; the arguments are those of ``delete_superseded``."""
    gone = [record.path for record in _all_records(storage) if not timeline.is_visible(record.instant)]
    if gone:
        require_held()
    _delete(storage, gone)


def _delete(storage: Storage, records: Iterable[str]) -> None:
    gone = list(records)
    storage.delete_files(gone)
    # None comes back with a power cut, when its instant counts as archived (P17).
    storage.flush(folders={posixpath.dirname(path) for path in gone})


def _all_records(storage: Storage) -> list[_Record]:
    return [record for folder in storage.list_folders(paths.TRANSACTIONS) for record in _records_in(storage, folder)]


def _records(storage: Storage, transaction: CallerTransaction) -> list[_Record]:
    folder, earlier = _folder(transaction), _earlier_folder(transaction)
    records = _records_in(storage, folder)
    # By its exact name: where case does not count, it could be opened as the folder of another application.
    if earlier != folder and earlier in storage.list_folders(paths.TRANSACTIONS):
        records += _records_in(storage, earlier)
    return records


def _records_in(storage: Storage, folder: str) -> list[_Record]:
    # File systems and file managers leave files of their own in folders.
    return [_Record.at(file.path) for file in storage.list_files(folder) if _NAME.fullmatch(file.name)]


def _folder(transaction: CallerTransaction) -> str:
    # In small letters only: file systems may take "Job" and "job" for one folder.
    quoted = quote(transaction.application_id, safe="")
    return _folder_named(
        _CAPITAL.sub(lambda found: f"%{ord(found[0]):x}", _ESCAPE.sub(_in_small_letters, quoted)), quoted
    )


def _earlier_folder(transaction: CallerTransaction) -> str:
    """Where the records lie that were written before names had small letters only."""
    quoted = quote(transaction.application_id, safe="")
    return _folder_named(quoted, quoted)


def _folder_named(name: str, quoted: str) -> str:
    if len(name) > _LONGEST_NAME:
        name = hashlib.sha256(quoted.encode()).hexdigest()
    # No application's id makes it a name that file systems take for another folder, such as "..".
    return f"{paths.TRANSACTIONS}/id={name}"


def _in_small_letters(found: re.Match[str]) -> str:
    return found[0].lower()


@dataclass(frozen=True, slots=True)
class _Committed:
    """The content of a record; those of earlier versions have no ``request``, and keep no metadata."""

    result: CommitResult
    request: BoundRequest | None
    metadata: dict[str, str]


def _load(storage: Storage, path: str) -> _Committed:
    try:
        fields: dict[str, Any] = parse_json(storage.read_bytes(path) or b"")
        if fields["version"] != _VERSION:
            raise CorruptTableError(
                f"the record of a transaction has another version: file={path} version={fields['version']}",
                remedy="use the version of rli that wrote it",
            )
        result = CommitResult(**fields["result"], duplicates=fields.get("duplicates", 0))
        return _Committed(result, _request_of(fields.get("request")), dict(fields.get("metadata", {})))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptTableError(
            f"the record of a transaction is damaged: file={path} ({error})",
            remedy="the transaction was committed: go on with the next number",
        ) from error


def _stored_request(request: BoundRequest) -> dict[str, Any]:
    # Hashes of another algorithm would have another name, so that nobody compares them with these.
    return {"verb": request.verb, "rows": request.rows, request.compared_by.value: f"{request.hashes:016x}"}


def _request_of(stored: dict[str, Any] | None) -> BoundRequest | None:
    if stored is None:
        return None
    for compared_by in (ComparedBy.RECORDS, ComparedBy.KEYS, ComparedBy.CONDITION):
        if compared_by in stored:
            return BoundRequest(stored["verb"], compared_by, int(stored["rows"]), int(stored[compared_by], 16))
    return BoundRequest(stored["verb"], ComparedBy.NOTHING, int(stored["rows"]), 0)


def _require_same(
    transaction: CallerTransaction, committed: BoundRequest, repeat: BoundRequest, instant: str | None
) -> None:
    """Raise ``TransactionMismatchError`` where a repeat is another request than the one that was committed."""
    at = f"transaction={_named(transaction)} instant={instant}"
    remedy = "nothing was written: a write of its own needs a number of its own, greater than all before"
    if repeat.verb != committed.verb:
        raise TransactionMismatchError(
            f"the transaction was committed by another verb: {at} committed={committed.verb} repeat={repeat.verb}",
            remedy=remedy,
        )
    if not repeat.has_rows_of(committed):
        raise TransactionMismatchError(
            f"the transaction was committed with other {_COMPARED[repeat.compared_by]}: {at} committed "
            f"rows={committed.rows} repeat rows={repeat.rows}",
            remedy=remedy,
        )


def _named(transaction: CallerTransaction) -> str:
    return f"{transaction.application_id}:{transaction.number}"
