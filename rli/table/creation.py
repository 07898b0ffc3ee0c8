"""Creating a table takes several steps in two places: this keeps them from being left half done.

A claim in the table's folder says who creates what. It is there before anything else, and goes when the table is
whole or the creation has failed. A claim of a dead process is cleared up by the next creation: its index, which no
table names yet, goes first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import Final

from rli.errors import IndexNotFoundError, RliError, TableExistsError
from rli.index.record_index import open_index
from rli.layout.properties import PROPERTIES_PATH
from rli.settings import TableSettings
from rli.storage import Storage
from rli.table.coordination.liveness import ProcessId
from rli.table.state import paths

_TRIES: Final = 3


@contextmanager
def claimed(storage: Storage, settings: TableSettings) -> Iterator[None]:
    """Create a table inside; what is left of it if that fails is removed.

    Args:
        storage: the table's folder.
        settings: of the new table; they name its index.

    Raises:
        TableExistsError: there is a table already, or another process is creating one.
    """
    made = [folder for folder in paths.FOLDERS if not storage.exists(folder)]
    _claim(storage, settings)
    try:
        _require_no_table(storage)
        yield
    except BaseException as error:
        try:
            if not storage.exists(PROPERTIES_PATH):
                _drop_index(settings.index_url, settings.table_id)
                storage.delete_files([paths.SETTINGS])
        except (RliError, OSError) as left:
            # Why the creation failed is what the caller has to know first.
            error.add_note(f"what had been made could not be removed: {left}")
        raise
    finally:
        storage.delete_files([paths.CLAIM])
        for folder in made:
            storage.delete_empty_folder(folder)


def _claim(storage: Storage, settings: TableSettings) -> None:
    claim = {"table_id": settings.table_id, "index_url": settings.index_url, **asdict(ProcessId.current())}
    for _ in range(_TRIES):
        _require_no_table(storage)
        if storage.create(paths.CLAIM, json.dumps(claim).encode()):
            return
        _clear_dead_claim(storage)
    raise TableExistsError(f"other processes are creating a table here: path={storage.location}; open it")


def _clear_dead_claim(storage: Storage) -> None:
    content = storage.read_bytes(paths.CLAIM)
    if content is None:
        return
    found = json.loads(content)
    process = ProcessId(found["host"], found["pid"], found["started"])
    if not process.is_known_dead:
        raise TableExistsError(
            f"another process is creating a table here: path={storage.location} host={process.host} "
            f"pid={process.pid}; wait for it. If it runs no more, drop the index {found['index_url']} if there is one, "
            f"delete the file {paths.CLAIM} and create the table again"
        )
    if not storage.exists(PROPERTIES_PATH):
        _drop_index(found["index_url"], found["table_id"])
    storage.delete_files([paths.CLAIM])


def _require_no_table(storage: Storage) -> None:
    if storage.exists(PROPERTIES_PATH):
        raise TableExistsError(f"there is a table already: path={storage.location}; open it, or choose another path")


def _drop_index(url: str, table_id: str) -> None:
    """Drop the index of a table that was never completed; an index of anything else is left alone."""
    with suppress(IndexNotFoundError), open_index(url) as index:
        if index.settings.table_id == table_id:
            index.drop()
