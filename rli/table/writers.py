"""The buffered writer of an open table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from rli.model import CommitResult, CommittedTransaction, MissingColumns, OnPartitionChange
from rli.table.opened import OpenTable
from rli.view.caller_metadata import CallerMetadata
from rli.view.caller_transactions import last_committed
from rli.view.snapshot import told_of_now
from rli.write.buffered.buffer import WriterLimits
from rli.write.buffered.rows import RowChoices
from rli.write.buffered.writer import BufferedWriter
from rli.write.choices import one_of
from rli.write.engine.local import LocalEngine
from rli.write.operations.merge import MergeChoices, merge
from rli.write.operations.upsert import upsert
from rli.write.options import WriteOptions, pass_over


@dataclass(frozen=True, slots=True)
class TableTarget:
    """Commits the rows of a writer by upserts, or by merges where rows have operations or there is a condition.

    Attributes:
        opened: the table.
        choices: of a merge; those of an upsert are among them.
        transaction: id of the application; None where commits are not numbered.
        attempts: as for ``Table.upsert``.
    """

    opened: OpenTable
    choices: MergeChoices
    transaction: str | None
    attempts: int | None

    @property
    def location(self) -> str:
        return self.opened.definition.location

    def schema(self) -> pa.Schema | None:
        return told_of_now(self.opened.reloaded(), lambda snapshot: snapshot.schema)

    def committed(self) -> CommittedTransaction | None:
        if self.transaction is None:
            return None
        definition = self.opened.reloaded()
        return last_committed(definition.storage, definition.load_timeline(), self.transaction)

    def commit(self, records: pa.Table, number: int, metadata: Mapping[str, str]) -> CommitResult:
        transaction = None if self.transaction is None else (self.transaction, number)
        options = WriteOptions.of(self.attempts, transaction, metadata, pass_over)
        choices, engine = self.choices, LocalEngine()
        if choices.op is not None or choices.when is not None:
            return self.opened.write_with(
                lambda table, index: merge(table, index, engine, records, options, choices=choices)
            )
        return self.opened.write_with(
            lambda table, index: upsert(
                table,
                index,
                engine,
                records,
                options,
                on_partition_change=choices.on_partition_change,
                missing=choices.missing,
            )
        )


def buffered_writer(target: TableTarget, limits: WriterLimits, schema: pa.Schema | None) -> BufferedWriter:
    """A writer of a table; see ``Table.writer``."""
    if target.transaction is not None:
        CallerMetadata.of((target.transaction, 0), None)
    choices = target.choices
    if choices.on_partition_change is not None:
        one_of(OnPartitionChange, "on_partition_change", choices.on_partition_change)
    keys = target.opened.definition.properties.record_key_fields
    rows = RowChoices(keys, choices.op, one_of(MissingColumns, "missing", choices.missing))
    return BufferedWriter(target, limits, rows, schema)
