"""Keying: from the rows that a caller gives to rows with record keys, of which each key has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from rli.codec.content_hashes import content_hashes
from rli.errors import InvalidInputError, InvalidKeyError
from rli.file_group import work_rows
from rli.file_group.merge import first_records
from rli.hudi.meta_columns import IS_DELETED, require_no_reserved_columns
from rli.hudi.schema import conform, written_schema
from rli.hudi.table_keys import TableKeys
from rli.model import OnDuplicates, Scope
from rli.view.caller_metadata import ComparedBy
from rli.write.rows.deletions import marked
from rli.write.rows.keyed_records import newest_of, require_ordering, scoped_keys, with_keys
from rli.write.rows.tally import Tally

_SAMPLE: Final = 5

_KEYS_ALONE: Final = pa.schema([(work_rows.RECORD_KEY, pa.string())])


class Keying(ABC):
    """Forms the keyed rows of a write. Picklable: engines call it on any machine, a batch at a time."""

    has_records: ClassVar[bool]
    """Whether rows are records, which may differ where their keys are equal."""

    compared_by: ComparedBy
    """What the repeat of a transaction is compared by."""

    @abstractmethod
    def keyed(self, rows: pa.Table) -> pa.Table:
        """Rows with the column ``work_rows.RECORD_KEY``, in their order.

        Raises:
            SchemaError: a column is missing or of a wrong type.
            InvalidKeyError: a key is null or empty, a partition value cannot name a folder, or one of them would change
                in its column, or would not be told apart from another one.
        """

    @abstractmethod
    def distinct(self, keyed: pa.Table) -> pa.Table:
        """One row for each key; the same table if no key occurs twice.

        Of batches that were reduced alone, put together and reduced again, it gives what it gives of all rows at once.
        """

    def received(self, keyed: pa.Table) -> Tally:
        """The rows that a caller gave: how many, and the sum of their hashes if a repeat is compared with them.

        Args:
            keyed: the rows before ``distinct``.
        """
        match self.compared_by:
            case ComparedBy.NOTHING | ComparedBy.CONDITION:
                return Tally(keyed.num_rows)
            case ComparedBy.KEYS:
                return Tally.of(keyed.column(work_rows.RECORD_KEY))
            case ComparedBy.RECORDS:
                # The keys of records follow from their values.
                columns = self.schema(keyed.schema).names if self.has_records else keyed.column_names
                return Tally.of_hashes(content_hashes(keyed.select(columns)))

    def may_delete(self, columns: Collection[str]) -> bool:
        """Whether rows with some columns may be deletes."""
        return IS_DELETED in columns

    @property
    def order(self) -> tuple[str, ...]:
        """Columns by which rows of a source without an order are sorted before ``distinct`` chooses between them."""
        return ()

    @staticmethod
    def schema(keyed: pa.Schema) -> pa.Schema:
        """Of the records of keyed rows, without their working columns."""
        return pa.schema([field for field in keyed if not field.name.startswith(work_rows.PREFIX)])


@dataclass(frozen=True, slots=True)
class RecordKeying(Keying):
    """Records behind their key and the partition path that their own values name; see ``tagging.with_keys``.

    Of several records with one key the one with the greatest ordering value stays, of equals the last.

    Attributes:
        keys: of the table.
        ordering_field: of the table; None if it has none.
        scope: where a key is unique.
        on_duplicates: what ``distinct`` does if several records have one key.
        compared_by: what the repeat of a transaction is compared by.
    """

    keys: TableKeys
    ordering_field: str | None
    scope: Scope = Scope.GLOBAL
    on_duplicates: OnDuplicates = OnDuplicates.SKIP
    compared_by: ComparedBy = ComparedBy.NOTHING
    has_records: ClassVar[bool] = True

    def keyed(self, rows: pa.Table) -> pa.Table:
        return with_keys(rows, self.keys, self.ordering_field, self.scope)

    def distinct(self, keyed: pa.Table) -> pa.Table:
        return self._allowed(keyed, newest_of(keyed, self.ordering_field, self.scope))

    def _allowed(self, keyed: pa.Table, distinct: pa.Table) -> pa.Table:
        """The rows with distinct keys, if the caller allows that others are left out."""
        if self.on_duplicates is OnDuplicates.FAIL and distinct.num_rows < keyed.num_rows:
            _refuse_duplicates(keyed, self.scope)
        return distinct


@dataclass(frozen=True, slots=True)
class FirstRecordKeying(RecordKeying):
    """As ``RecordKeying``, but of several records with one key the first stays."""

    @property
    def order(self) -> tuple[str, ...]:
        return () if self.ordering_field is None else (self.ordering_field,)

    def keyed(self, rows: pa.Table) -> pa.Table:
        require_no_reserved_columns(rows.schema)
        if marked(rows).any():
            raise InvalidInputError(
                f"records to insert are marked as deleted: column={IS_DELETED}", remedy="upsert them, or leave them out"
            )
        # Without ``super``: a class with slots is made anew by its decorator.
        return RecordKeying.keyed(self, rows)

    def distinct(self, keyed: pa.Table) -> pa.Table:
        positions = first_records(scoped_keys(keyed, self.scope))
        if positions is None or len(positions) == keyed.num_rows:
            return keyed
        return self._allowed(keyed, keyed.take(pa.array(positions)))


@dataclass(frozen=True, slots=True)
class KeysAlone(Keying):
    """Record keys: whole ones in the column ``_hoodie_record_key``, if there is one, or formed from the key columns.

    With ordering values, each key has the greatest one in the column ``work_rows.ORDERING``.

    Attributes:
        keys: of the table.
        ordering: the column of ordering values; None if the keys have none.
        compared_by: what the repeat of a transaction is compared by.
    """

    keys: TableKeys
    ordering: str | None = None
    compared_by: ComparedBy = ComparedBy.NOTHING
    has_records: ClassVar[bool] = False

    def keyed(self, rows: pa.Table) -> pa.Table:
        keys = self.keys.given_keys(rows)
        if self.ordering is None:
            return pa.table([keys], schema=_KEYS_ALONE)
        require_ordering(rows, self.ordering)
        values = rows.select([self.ordering])
        values = conform(values, written_schema(values.schema)).column(0)
        return pa.table({work_rows.RECORD_KEY: keys, work_rows.ORDERING: values})

    def distinct(self, keyed: pa.Table) -> pa.Table:
        if self.ordering is not None:
            return newest_of(keyed, work_rows.ORDERING)
        keys = keyed.column(work_rows.RECORD_KEY)
        unique = keys.unique()
        return keyed if len(unique) == len(keys) else pa.table([unique], schema=_KEYS_ALONE)


def _refuse_duplicates(keyed: pa.Table, scope: Scope) -> None:
    counted = pc.value_counts(scoped_keys(keyed, scope))
    repeated = counted.filter(pc.greater(counted.field("counts"), 1)).field("values")
    # The first rows of these keys, because a key of partition scope is no text for people.
    rows = keyed.take(pc.index_in(repeated.slice(0, _SAMPLE), value_set=scoped_keys(keyed, scope)))
    raise InvalidKeyError(
        f"record keys occur in several of the records: keys={rows.column(work_rows.RECORD_KEY).to_pylist()}",
        remedy=('remove the repeats, or write with on_duplicates="skip": one record of each key counts'),
    )
