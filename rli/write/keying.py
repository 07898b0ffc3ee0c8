"""Keying: from the rows that a caller gives to rows with record keys, of which each key has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from rli.errors import InvalidInputError
from rli.file_group import work_rows
from rli.file_group.merge import first_records
from rli.hudi.meta_columns import IS_DELETED, require_no_reserved_columns
from rli.hudi.schema import conform, written_schema
from rli.hudi.table_keys import TableKeys
from rli.model import Scope
from rli.write.deletions import marked
from rli.write.tagging import newest_of, require_ordering, scoped_keys, with_keys

_KEYS_ALONE: Final = pa.schema([(work_rows.RECORD_KEY, pa.string())])


class Keying(ABC):
    """Forms the keyed rows of a write. Picklable: engines call it on any machine, a batch at a time."""

    has_records: ClassVar[bool]
    """Whether rows are records, which may differ where their keys are equal."""

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
    """

    keys: TableKeys
    ordering_field: str | None
    scope: Scope = Scope.GLOBAL
    has_records: ClassVar[bool] = True

    def keyed(self, rows: pa.Table) -> pa.Table:
        return with_keys(rows, self.keys, self.ordering_field, self.scope)

    def distinct(self, keyed: pa.Table) -> pa.Table:
        return newest_of(keyed, self.ordering_field, self.scope)


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
                f"records to insert are marked as deleted: column={IS_DELETED}; upsert them, or leave them out"
            )
        # Without ``super``: a class with slots is made anew by its decorator.
        return RecordKeying.keyed(self, rows)

    def distinct(self, keyed: pa.Table) -> pa.Table:
        positions = first_records(scoped_keys(keyed, self.scope))
        return keyed if positions is None else keyed.take(pa.array(positions))


@dataclass(frozen=True, slots=True)
class KeysAlone(Keying):
    """Record keys: whole ones in the column ``_hoodie_record_key``, if there is one, or formed from the key columns.

    With ordering values, each key has the greatest one in the column ``work_rows.ORDERING``.

    Attributes:
        keys: of the table.
        ordering: the column of ordering values; None if the keys have none.
    """

    keys: TableKeys
    ordering: str | None = None
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
