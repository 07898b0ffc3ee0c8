"""What upsert, insert and delete have in common: how a source becomes a request, and a request a commit.

An operation says how rows are keyed and what becomes of them. ``run`` does the rest, the same for all operations and engines:
it forms the request once, tries the write until it is published, and maintains the table if that is due.

The keys of a request are formed before the write begins, in the types that the table's columns have. Only the first write
of a table decides on these types. Where another writer's first write gets there while a request is formed, its keys may be
spelled in other types: then the request is formed again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from rli.commit.begun_write import BegunWrite
from rli.commit.exclusive_service import made_ready
from rli.commit.outcome import Published
from rli.commit.prepared_write import PreparedWrite
from rli.commit.retries import write_until_published
from rli.commit.write_basis import WriteBasis
from rli.errors import CorruptTableError, SchemaError
from rli.hudi.table_features import require_writable
from rli.hudi.table_keys import TableKeys
from rli.hudi.timeline.instant import Action
from rli.index.contract import TableIndex
from rli.model import CommitResult, Scope
from rli.view.caller_metadata import CallerMetadata
from rli.view.definition import TableDefinition
from rli.view.given_keys import table_keys
from rli.write.engine.contract import Engine, Request
from rli.write.maintenance import maintain_if_due
from rli.write.operations.dry_run import dry_run
from rli.write.options import WriteOptions
from rli.write.rows.keying import Keying


class KeyTypesChangedError(SchemaError):
    """Another writer gave the table's key columns other types while the request was formed."""


class Operation(ABC):
    """A verb of the table."""

    name: ClassVar[str]
    """As Hudi has it in the commit, such as ``UPSERT``."""

    action: ClassVar[Action | None] = None
    """Of its instants; None for that of the table's writes."""

    @property
    def verb(self) -> str:
        """As callers name it, such as ``upsert``."""
        return self.name.lower()

    @abstractmethod
    def keying(self, keys: TableKeys, table: TableDefinition, scope: Scope, options: WriteOptions) -> Keying:
        """Forms the keyed rows of a request.

        Args:
            keys: forms keys in the types of the table's columns.
            table: that is written.
            scope: where a key is unique.
            options: of the write.
        """

    @abstractmethod
    def prepare(self, write: WriteBasis, request: Request, engine: Engine) -> PreparedWrite:
        """Tag the rows of a request, and have the engine write file groups; may be called again for another attempt.

        Args:
            write: the attempt, or a dry run.
            request: the keyed rows.
            engine: does the work.

        Raises:
            ConflictError: another commit changed records while they were looked up.
            VoidAttemptError: the tasks have read, compared or written other rows than were requested.
            SchemaError: the rows do not fit the table.
        """


def run(
    operation: Operation,
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    source: Any,
    *,
    options: WriteOptions,
) -> CommitResult:
    """Write a source's rows, and maintain the table if that is due.

    Args:
        operation: what becomes of the rows.
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        source: the rows, in the engine's own form.
        options: of the write.

    Raises:
        KeyTypesChangedError: the engine's rows were keyed before, and their keys cannot be formed again.
    """
    options.attempts_of(table)
    require_writable(table.properties)
    # A dry run undoes nothing that a power cut has torn.
    keys = table_keys(table) if options.dry_run else _keys_to_write(table, index)
    while True:
        with engine.request(source, operation.keying(keys, table, index.scope, options), table, index) as request:
            caller = options.caller_of(operation.verb, request.received)
            prepare = partial(operation.prepare, request=request, engine=engine)
            try:
                return written(
                    operation.name,
                    table,
                    index,
                    engine,
                    prepare,
                    options=options,
                    caller=caller,
                    action=operation.action,
                )
            except KeyTypesChangedError:
                present = table_keys(table)
                if present == keys:
                    raise
                keys = present


def written(
    name: str,
    table: TableDefinition,
    index: TableIndex,
    engine: Engine,
    prepare: Callable[[WriteBasis], PreparedWrite],
    *,
    options: WriteOptions,
    caller: CallerMetadata,
    action: Action | None = None,
) -> CommitResult:
    """Try a write until it is published, and maintain the table if that is due; or only tell what it would do.

    Args:
        name: Hudi's name of the operation, such as ``UPSERT``.
        table: the definition as it is stored now.
        index: of the table.
        engine: does the work.
        prepare: the work of an attempt, or of a dry run.
        options: of the write.
        caller: what is kept with the commit.
        action: of the instant; None for that of the table's writes.
    """
    if options.dry_run:
        return dry_run(table, index, options.on_step, caller, prepare)
    outcome = write_until_published(
        table,
        partial(
            BegunWrite.begin, table, index, engine.tasks, options.on_step, action, caller, patience=options.patience
        ),
        prepare,
        options.attempts_of(table),
        name,
    )
    if isinstance(outcome, Published) and outcome.timeline is not None:
        maintain_if_due(table, index, outcome.timeline, engine.tasks)
    return outcome.result


def require_same_key_types(write: WriteBasis, request: pa.Schema) -> None:
    """Raise ``KeyTypesChangedError`` if records of a schema have keys in other types than the table has by now."""
    for stored in write.snapshot.table_keys.types:
        kind = request.field(stored.name).type if stored.name in request.names else stored.type
        if kind != stored.type:
            raise KeyTypesChangedError(
                "another writer gave a key or partition column its type, after the keys of this write were formed: "
                f"column={stored.name} table={stored.type} records={kind}",
                remedy="write again, or start the stream again",
            )


def _keys_to_write(table: TableDefinition, index: TableIndex) -> TableKeys:
    try:
        return table_keys(table)
    except CorruptTableError:
        # A commit that a power cut has torn is undone by the write that is about to begin; its columns do not count.
        return table_keys(made_ready(table, index, "recovery before a write").table)
