"""Keying of change batches: images of records behind their key, with a mark on those that are deletes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from rli.codec.content_hashes import content_hashes
from rli.file_group import work_rows
from rli.hudi.meta_columns import IS_DELETED
from rli.model import Scope
from rli.view.caller_metadata import ComparedBy
from rli.write.rows.change_batches import FLAT_DELETED, FLAT_OP, Changes, FlatForm, require_distinct, without_views
from rli.write.rows.debezium import EnvelopeForm, without_payload
from rli.write.rows.keyed_records import with_keys
from rli.write.rows.keying import RecordKeying
from rli.write.rows.tally import Tally

_MARK: Final = pa.field(work_rows.IS_DELETED, pa.bool_())


@dataclass(frozen=True, slots=True)
class ChangeKeying(RecordKeying):
    """The images of changes, behind their key and the partition path that their own values name.

    Of several changes of one key the one with the greatest ordering value stays, of equals the last. Where rows have no order, a
    delete stays of equals.

    Attributes:
        op: the column of operations that the caller names.
        stored: columns of the table: a column of operations that it has is a column of records, too.
    """

    op: str | None = None
    stored: frozenset[str] = frozenset()

    @property
    def order(self) -> tuple[str, ...]:
        return (work_rows.IS_DELETED,)

    def may_delete(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        return True

    def keyed(self, rows: pa.Table) -> pa.Table:
        require_distinct(rows.column_names)
        rows = without_payload(without_views(rows))
        form = self._form(rows.schema)
        changes = form.changes(rows)
        images = self._with_partitions(changes)
        said = form.columns if isinstance(form, FlatForm) else ()
        images = images.drop_columns([name for name in said if name not in self.stored])
        keyed = with_keys(images, self.keys, self.ordering_field, self.scope)
        return keyed.append_column(_MARK, pa.array(changes.deletes))

    def received(self, keyed: pa.Table) -> Tally:
        if self.compared_by is not ComparedBy.RECORDS:
            return RecordKeying.received(self, keyed)
        # The table may get a column of operations between a write and its repeat. The marks tell what such columns say.
        said = {self.op, FLAT_OP, FLAT_DELETED, IS_DELETED}
        names = [name for name in self.schema(keyed.schema).names if name not in said]
        return Tally.of_hashes(content_hashes(keyed.select([*names, work_rows.IS_DELETED])))

    def _form(self, schema: pa.Schema) -> FlatForm | EnvelopeForm:
        record_key, partition = self.keys.generator.record_key_fields, self.keys.generator.partition_fields
        envelope = EnvelopeForm.of(
            schema,
            self.op,
            record_key=record_key,
            partition=() if self.scope is Scope.GLOBAL else partition,
            ordering=self.ordering_field,
        )
        return envelope or FlatForm.of(schema, self.op, record_key)

    def _with_partitions(self, changes: Changes) -> pa.Table:
        """The images with all partition columns: with global scope, deletes alone need none."""
        images = changes.images
        lacking = [name for name in self.keys.generator.partition_fields if name not in images.column_names]
        if self.scope is not Scope.GLOBAL or not changes.deletes.all():
            return images
        for name in lacking:
            kind = self.keys.types.field(name).type if name in self.keys.types.names else pa.null()
            images = images.append_column(name, pa.nulls(images.num_rows, kind))
        return images
