"""``rli.advise``: which kind of index and which type suit a table, or files that are to become one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from rli.advice.calibration import LMDB, MEMORY, calibration
from rli.advice.choice import Advice, Needs, advised
from rli.advice.sources import KeySource, ParquetSource, TableSource
from rli.advice.statistics import Survey, commit_statistics, survey
from rli.arrow_tables import as_arrow_table
from rli.errors import InvalidInputError, SettingsError, TableNotFoundError
from rli.index.registry import is_kind
from rli.index_urls import IndexUrl
from rli.model import Scope, TableType
from rli.storage import Storage
from rli.table.table import Table, opened_table
from rli.urls import without_secrets
from rli.view.definition import TableDefinition, load_definition
from rli.view.snapshot import Snapshot
from rli.view.time_travel import told_of_whole

_PARQUET: Final = ".parquet"


def advise(  # noqa: PLR0913  (all but the first are independent choices)
    table_or_files: Table | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    batch: Any = None,
    record_key: Sequence[str] | str = (),
    partition_by: Sequence[str] | str = (),
    scope: Scope | str | None = None,
    several_machines: bool = False,
    stores: Sequence[str] = (),
    storage_options: Mapping[str, str] | None = None,
    calibrate: bool = False,
) -> Advice:
    """Which kind of index and which type suit a table, by its statistics, a batch, and the measured rates of this machine.

    Reads footers, commit metadata and some record keys; writes nothing but a cache of the rates, which are measured in a few
    seconds when they are first needed.

    Args:
        table_or_files: a table or its folder, or local Parquet files (or a folder of them) that are to become one.
        batch: records that will be upserted, as ``Table.upsert`` takes them, or paths of Parquet files; by default the
            last commits stand for it.
        record_key: columns that identify a record, of files that are no table yet.
        partition_by: partition columns of these.
        scope: where record keys are to be unique, "global" or "partition"; by default what the table shows.
        several_machines: whether several machines will write the table; more than one in its commits tells, too.
        stores: URLs of stores at hand. Each is measured at once, with an index that is made and dropped again.
        storage_options: of an object store, as for ``open_table``.
        calibrate: measure this machine again.

    Example:
        >>> import rli
        >>> advice = rli.advise("trips")
        >>> advice.scope, len(advice.reasons) <= 10
        (<Scope.GLOBAL: 'global'>, True)

    Raises:
        TableNotFoundError: there is neither a table nor a Parquet file.
        InvalidInputError, SchemaError, InvalidKeyError: the batch or a file lacks a key, or cannot be read.
        SettingsError: an argument is wrong, or no kind of index does what is needed.
        StoreUnavailableError: a store does not answer.
    """
    wanted = _scope_named(scope)
    definition = _definition(table_or_files, storage_options or {})
    at_hand = tuple(dict.fromkeys(IndexUrl.parse(url).store for url in [*stores, *_own_store(definition)]))
    records = None if batch is None else _records(batch)
    keys, partitions = _columns(record_key), _columns(partition_by)
    if definition is None:
        source = _files(table_or_files, keys, partitions)
        found = survey(source, records, None, table_type=None, index=None)
    elif keys or partitions:
        raise SettingsError(
            f"the table knows its columns: table={definition.location}", remedy="leave record_key and partition_by out"
        )
    else:
        found = _table_surveyed(definition, records)
    rates = calibration(*at_hand, again=calibrate)
    return advised(found, rates, Needs(wanted, several_machines, tuple(map(without_secrets, at_hand))))


def _table_surveyed(definition: TableDefinition, batch: pa.Table | None) -> Survey:
    index = None if definition.settings is None else without_secrets(definition.settings.index_url)

    def surveyed(snapshot: Snapshot) -> Survey:
        kept = TableType.COPY_ON_WRITE if definition.properties.is_copy_on_write else TableType.MERGE_ON_READ
        return survey(TableSource(snapshot), batch, commit_statistics(snapshot), table_type=kept, index=index)

    return told_of_whole(definition, surveyed)


def _own_store(definition: TableDefinition | None) -> list[str]:
    """The URL of a table's index, if it is in a store that other machines may reach."""
    if definition is None or definition.settings is None:
        return []
    url = definition.index_url
    return [] if is_kind(url) or url.partition(":")[0] in {LMDB, MEMORY} else [url]


def _definition(given: Any, options: Mapping[str, str]) -> TableDefinition | None:
    """The table that is meant; None for Parquet files."""
    if isinstance(given, Table):
        return opened_table(given).definition
    if not isinstance(given, str | os.PathLike):
        return None
    path = os.fspath(given)
    if path.endswith(_PARQUET) or Path(path).is_file():
        return None
    try:
        return load_definition(Storage(path, options))
    except TableNotFoundError:
        if not _parquet_files(path):
            raise
        return None


def _files(given: Any, record_key: Sequence[str], partition_by: Sequence[str]) -> KeySource:
    listed = given if isinstance(given, list | tuple) else [given]
    if not all(isinstance(path, str | os.PathLike) for path in listed):
        raise InvalidInputError(
            f"neither a table nor files: type={type(given).__name__}",
            remedy="give a table, its folder, or paths of Parquet files",
        )
    paths: list[str] = [os.fspath(path) for path in listed]
    files = [file for path in paths for file in _parquet_files(path)]
    if not files:
        raise InvalidInputError(f"there are no Parquet files: files={paths}", remedy="name some")
    location = files[0] if len(files) == 1 else f"{len(files)} Parquet files"
    return ParquetSource(location, files, record_key, partition_by)


def _parquet_files(path: str) -> list[str]:
    folder = Path(path)
    if not folder.is_dir():
        return [path] if path.endswith(_PARQUET) else []
    return sorted(str(file) for file in folder.rglob(f"*{_PARQUET}") if ".hoodie" not in file.parts)


def _records(batch: Any) -> pa.Table:
    if isinstance(batch, str | os.PathLike):
        batch = [batch]
    if isinstance(batch, list | tuple) and batch and all(isinstance(path, str | os.PathLike) for path in batch):
        files = [file for path in batch for file in _parquet_files(os.fspath(path)) or [os.fspath(path)]]
        try:
            return pa.concat_tables(
                [pq.read_table(file, partitioning=None) for file in files], promote_options="default"
            )
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidInputError(
                f"the batch cannot be read as Parquet: files={files} ({error})", remedy="give Parquet files, or records"
            ) from error
    return as_arrow_table(batch)


def _columns(given: Sequence[str] | str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _scope_named(scope: Scope | str | None) -> Scope | None:
    try:
        return None if scope is None else Scope(scope)
    except ValueError:
        raise SettingsError(
            f"no such scope: scope={scope!r}", remedy=f"choose one of {[str(known) for known in Scope]}"
        ) from None
