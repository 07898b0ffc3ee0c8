"""What a table keeps of commits beside the timeline goes when they are undone, whichever engine undoes them."""

from __future__ import annotations

from rli.file_group import deleted_keys
from rli.storage import Storage
from rli.view.caller_transactions import delete_records_of


def forget_undone(storage: Storage, instants: frozenset[str]) -> None:
    """Remove callers' transactions and deleted keys of commits that were undone; may be repeated.

    Without this, a caller would be told that its transaction stands, and a late event would lose against a delete that
    was taken back.
    """
    delete_records_of(storage, instants)
    deleted_keys.delete_files_of(storage, instants)
