"""Creating a table takes several steps in two places: this keeps them from being left half done.

A claim in the table's folder says who creates what. It is there before anything else, and goes when the table is
whole or the creation has failed. A claim of a dead process is cleared up by the next creation: its index, which no
table names yet, goes first, if the creation is to make an index at the same URL.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rli.errors import CorruptTableError, RliError, StoreUnavailableError, TableExistsError
from rli.hudi.properties import PROPERTIES_PATH
from rli.index.registry import drop_unfinished
from rli.processes import ProcessId
from rli.settings import TableSettings
from rli.storage import Storage
from rli.store.retries import answers_within
from rli.urls import without_password, without_secrets
from rli.view import paths

_TRIES: Final = 3
_LAST_WORD_SECONDS: Final = 1.0

_log = logging.getLogger(__name__)


@contextmanager
def claimed(storage: Storage, settings: TableSettings, index_url: str) -> Iterator[None]:
    """Create a table inside; what is left of it if that fails is removed.

    Args:
        storage: the table's folder.
        settings: of the new table.
        index_url: opens its index; a password in it is not written down.

    Raises:
        TableExistsError: there is a table already, or another process is creating one.
    """
    made = [folder for folder in paths.FOLDERS if not storage.exists(folder)]
    try:
        _claim(storage, settings, index_url)
    except OSError:
        _delete_empty(storage, made)
        raise
    try:
        _require_no_table(storage)
        yield
    except BaseException as error:
        try:
            if not storage.exists(PROPERTIES_PATH):
                with _patience_after(error):
                    drop_unfinished(index_url, settings.table_id)
                storage.delete_files([paths.SETTINGS])
        except (RliError, OSError) as left:
            # Why the creation failed is what the caller has to know first.
            error.add_note(f"created parts could not be removed: {left}")
        raise
    finally:
        storage.delete_files([paths.CLAIM])
        _delete_empty(storage, made)


def _patience_after(error: BaseException) -> AbstractContextManager[None]:
    """Do not wait again for a store that has just not answered for its whole deadline."""
    return answers_within(_LAST_WORD_SECONDS) if isinstance(error, StoreUnavailableError) else nullcontext()


def _delete_empty(storage: Storage, folders: list[str]) -> None:
    for folder in folders:
        storage.delete_empty_folder(folder)


def _claim(storage: Storage, settings: TableSettings, index_url: str) -> None:
    process = ProcessId.current()
    claim = _Claim(
        table_id=settings.table_id,
        index_url=settings.index_url,
        host=process.host,
        pid=process.pid,
        started=process.started,
    )
    for _ in range(_TRIES):
        _require_no_table(storage)
        if storage.create(paths.CLAIM, claim.model_dump_json().encode()):
            return
        _clear_dead_claim(storage, index_url)
    raise TableExistsError(f"other processes are creating a table here: path={storage.location}", remedy="open it")


def _clear_dead_claim(storage: Storage, index_url: str) -> None:
    content = storage.read_bytes(paths.CLAIM)
    if content is None:
        return
    found = _parse_claim(content, storage.location)
    process = ProcessId(found.host, found.pid, found.started)
    shown_url = without_password(found.index_url)
    if not process.is_known_dead:
        raise TableExistsError(
            f"another process is creating a table here: path={storage.location} host={process.host} pid={process.pid}",
            remedy=(
                f"wait for it. If it no longer runs, drop the index {shown_url} if it exists, delete the file "
                f"{paths.CLAIM} and create the table again"
            ),
        )
    if without_secrets(found.index_url) != without_secrets(index_url):
        # A claim is a file of the folder: it gives nobody the right to drop an index that this call does not name.
        _log.warning(
            "a dead creation may have left an index: path=%s index=%s; drop it: rli index drop URL",
            storage.location,
            shown_url,
        )
    elif not storage.exists(PROPERTIES_PATH):
        drop_unfinished(index_url, found.table_id)
    storage.delete_files([paths.CLAIM])


class _Claim(BaseModel):
    """Who creates which table with which index, as the claim's file says it."""

    model_config = ConfigDict(strict=True, hide_input_in_errors=True)

    table_id: str
    index_url: str
    host: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    started: str


def _parse_claim(content: bytes, location: str) -> _Claim:
    try:
        return _Claim.model_validate_json(content)
    except ValidationError as error:
        raise CorruptTableError(
            f"the claim of a table's creation is damaged: path={location} file={paths.CLAIM}",
            remedy="if no process is creating the table, delete the file and create the table again",
        ) from error


def _require_no_table(storage: Storage) -> None:
    if storage.exists(paths.DROPPING):
        raise TableExistsError(
            f"the drop of a table here was interrupted: path={storage.location}",
            remedy="finish it first: rli drop TABLE",
        )
    if storage.exists(PROPERTIES_PATH):
        raise TableExistsError(
            f"there is a table already: path={storage.location}", remedy="open it, or choose another path"
        )
