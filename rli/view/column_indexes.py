"""The indexes on columns of a table: what each is, and whether readers can use it.

An index lives in Hudi's metadata table, which knows no names of statistics. So rli keeps the names in a file of its own. An
index whose partition a change did not keep is still named there: it is shown as invalid, and not as if it had never been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import BaseModel, ValidationError

from rli.errors import CorruptTableError
from rli.filters.syntax import parsed
from rli.hudi.meta_columns import META_COLUMNS
from rli.hudi.metadata.index_definitions import IndexDefinition, expression_of, load_index_definitions
from rli.hudi.metadata.partitions import PartitionKind, kind_of
from rli.hudi.properties import TableProperties
from rli.storage import Storage
from rli.view import paths
from rli.view.definition import TableDefinition


class IndexUse(StrEnum):
    """What an index on a column is made of."""

    SECONDARY = "secondary"
    """Value of the column → record keys."""
    COLUMN_STATS = "column_stats"
    """Least and greatest value of the column in each file."""
    BLOOM_FILTERS = "bloom_filters"
    """A bloom filter of the record keys of each file, or of the values of an expression."""
    EXPRESSION = "expression"
    """Statistics or bloom filters of an expression over the column, whose definition is lost."""


class IndexHome(StrEnum):
    """Where an index on a column is kept."""

    METADATA = "metadata"
    """In Hudi's metadata table, which Hudi's readers and writers share."""
    STORE = "store"
    """In the key-value store of the table's record index, beside it."""


class ColumnIndexState(StrEnum):
    """What an index on a column is good for."""

    BUILDING = "building"
    """It is scheduled or being built: readers do not use it yet."""
    VALID = "valid"
    """Readers use it, and each commit keeps it."""
    INVALID = "invalid"
    """A change did not keep it, or it was removed with its partition: nobody uses it."""


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """An index on a column.

    Attributes:
        name: by which it is dropped.
        using: what it is made of.
        columns: that it is of; none: Hudi's choice, which is the first columns of the table.
        state: what it is good for.
        partition: of the metadata table that holds it; "" for an index in a store.
        bytes: of the files of that partition which readers read, or of the store; 0 where there is none, or the store cannot tell.
        expression: over the column, whose values are indexed: in the grammar of filters, or Hudi's name of the function where rli has
            no such function; None for the column itself.
        home: where it is kept.
        is_unique: whether no two records may have one value.
    """

    name: str
    using: IndexUse
    columns: tuple[str, ...]
    state: ColumnIndexState
    partition: str
    bytes: int = 0
    expression: str | None = None
    home: IndexHome = IndexHome.METADATA
    is_unique: bool = False


@dataclass(frozen=True, slots=True)
class WantedIndex:
    """An index that a caller asks for.

    Attributes:
        using: what it is to be made of.
        column: that it is of.
        expression: over the column, in the grammar of filters; None for the column itself.
        home: where it is to be kept; None for the place that suits the table.
        is_unique: whether no two records may have one value.
    """

    using: IndexUse
    column: str
    expression: str | None = None
    home: IndexHome | None = None
    is_unique: bool = False

    def is_like(self, other: ColumnIndex) -> bool:
        """Whether an index is what the caller asks for."""
        is_same = self.expression == other.expression or (
            self.expression is not None
            and other.expression is not None
            and parsed(self.expression) == parsed(other.expression)
        )
        return is_same and (other.using, other.columns, other.is_unique) == (self.using, (self.column,), self.is_unique)


class NamedIndex(BaseModel):
    """What rli keeps of an index that a caller has named.

    Attributes:
        using: what it is made of.
        column: that it is of.
        is_owner: the partition, or the statistics of the column, were built for it and go with it.
        expression: over the column; None for the column itself.
        home: where it is kept.
        is_unique: whether no two records may have one value.
        is_scheduled: it is still to be built.
    """

    using: IndexUse
    column: str
    is_owner: bool
    expression: str | None = None
    home: IndexHome = IndexHome.METADATA
    is_unique: bool = False
    is_scheduled: bool = False


class NamedIndexes(BaseModel):
    """The indexes on columns that callers have named, as their file has them.

    Attributes:
        version: of the format.
        indexes: by name.
    """

    version: Literal[1] = 1
    indexes: dict[str, NamedIndex] = {}

    @classmethod
    def load(cls, storage: Storage) -> Self:
        """Those of a table; none if there is no such file.

        Raises:
            CorruptTableError: the file is damaged.
        """
        content = storage.read_bytes(paths.COLUMN_INDEXES)
        if content is None:
            return cls()
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise CorruptTableError(
                f"the names of indexes on columns are damaged: file={paths.COLUMN_INDEXES}",
                remedy="delete the file, and create the indexes again",
            ) from error

    def with_index(self, name: str, index: NamedIndex) -> NamedIndexes:
        """These and one more."""
        return NamedIndexes(indexes={**self.indexes, name: index})

    def without(self, name: str) -> NamedIndexes:
        """These but one, whose heir is the owner of its data now."""
        left = {other: index for other, index in self.indexes.items() if other != name}
        heir = self.heir_of(name)
        if heir is not None:
            left[heir] = left[heir].model_copy(update={"is_owner": True})
        return NamedIndexes(indexes=left)

    def heir_of(self, name: str) -> str | None:
        """Another index that the data of an index go to when that is dropped; None if they need none, or go with it."""
        own = self.indexes.get(name)
        if own is None or not own.is_owner or own.is_scheduled or own.expression is not None:
            return None
        if own.home is IndexHome.STORE:
            return None
        same = (
            other
            for other, index in self.indexes.items()
            if (index.using, index.column, index.home) == (own.using, own.column, own.home)
        )
        return next((other for other in same if other != name), None)

    @property
    def in_stores(self) -> dict[str, NamedIndex]:
        """Those in key-value stores, by name."""
        return {name: index for name, index in self.indexes.items() if index.home is IndexHome.STORE}


_PARTITIONS: Final = {
    IndexUse.COLUMN_STATS: PartitionKind.COLUMN_STATS.value,
    IndexUse.BLOOM_FILTERS: PartitionKind.BLOOM_FILTERS.value,
}


def partition_of(name: str, using: IndexUse) -> str:
    """The partition of the metadata table that holds an index."""
    return _PARTITIONS.get(using) or f"{PartitionKind.SECONDARY_INDEX}{name}"


def partition_of_expression(name: str, *, is_own: bool) -> str:
    """The partition of the metadata table that holds an index on an expression.

    Args:
        name: of the index.
        is_own: whether Hudi does not know the index.
    """
    return f"{PartitionKind.OWN_EXPRESSION_INDEX if is_own else PartitionKind.EXPRESSION_INDEX}{name}"


def column_indexes(table: TableDefinition, sizes: Mapping[str, int]) -> tuple[ColumnIndex, ...]:
    """The indexes on columns in the metadata table: those that have a name, and those of Hudi's that have none of rli's.

    Args:
        table: as it is now.
        sizes: partition of the metadata table → bytes.

    Raises:
        CorruptTableError: the definitions of indexes or the file of their names cannot be read.
    """
    named = NamedIndexes.load(table.storage).indexes
    definitions = load_index_definitions(table.storage, table.properties)
    listing = _Listing(table.properties, definitions, sizes)
    found = [listing.named(name, index) for name, index in named.items() if index.home is IndexHome.METADATA]
    return (*found, *listing.unnamed(found))


@dataclass(frozen=True, slots=True)
class _Listing:
    """Tells the states of indexes."""

    properties: TableProperties
    definitions: Mapping[str, IndexDefinition]
    sizes: Mapping[str, int]

    def named(self, name: str, index: NamedIndex) -> ColumnIndex:
        partition = self._partition_of(name, index)
        state = self._state(partition)
        if index.is_scheduled:
            state = ColumnIndexState.BUILDING
        elif not self._covers(partition, index):
            state = ColumnIndexState.INVALID
        size = self.sizes.get(partition, 0)
        return ColumnIndex(name, index.using, (index.column,), state, partition, size, index.expression)

    def _partition_of(self, name: str, index: NamedIndex) -> str:
        if index.expression is None:
            return partition_of(name, index.using)
        shared = partition_of_expression(name, is_own=False)
        is_shared = shared in self.properties.all_metadata_partitions
        return shared if is_shared else partition_of_expression(name, is_own=True)

    def _covers(self, partition: str, index: NamedIndex) -> bool:
        if index.using is IndexUse.BLOOM_FILTERS or index.expression is not None:
            return True
        definition = self.definitions.get(partition)
        # Without a list of columns, Hudi takes the first ones.
        if definition is None or not definition.columns:
            return index.using is IndexUse.COLUMN_STATS
        return index.column in definition.columns

    def unnamed(self, named: Sequence[ColumnIndex]) -> Iterator[ColumnIndex]:
        """The partitions that hold no index with a name, and the columns of statistics that belong to none."""
        owned = {column for index in named if index.using is IndexUse.COLUMN_STATS for column in index.columns}
        for partition in sorted(self.properties.all_metadata_partitions):
            using = _use_of(partition)
            if using is None or (
                using is not IndexUse.COLUMN_STATS and any(index.partition == partition for index in named)
            ):
                continue
            definition = self.definitions.get(partition, IndexDefinition(partition, using))
            columns = tuple(name for name in definition.columns if name not in {*META_COLUMNS, *owned})
            if using is IndexUse.BLOOM_FILTERS:
                columns = self.properties.record_key_fields
            if columns or not definition.columns:
                yield self._unnamed(partition, using, columns, definition)

    def _unnamed(
        self, partition: str, using: IndexUse, columns: tuple[str, ...], definition: IndexDefinition
    ) -> ColumnIndex:
        kind = kind_of(partition)
        name = partition.removeprefix(kind) if kind is not None and kind.is_prefix else partition
        expression = None
        if using is IndexUse.EXPRESSION:
            expression = expression_of(definition) or definition.function
            using = IndexUse(definition.kind) if definition.kind in _PARTITIONS else using
        return ColumnIndex(
            name, using, columns, self._state(partition), partition, self.sizes.get(partition, 0), expression
        )

    def _state(self, partition: str) -> ColumnIndexState:
        if partition in self.properties.metadata_partitions:
            return ColumnIndexState.VALID
        is_building = partition in self.properties.metadata_partitions_inflight
        return ColumnIndexState.BUILDING if is_building else ColumnIndexState.INVALID


def _use_of(partition: str) -> IndexUse | None:
    match kind_of(partition):
        case PartitionKind.SECONDARY_INDEX:
            return IndexUse.SECONDARY
        case PartitionKind.EXPRESSION_INDEX | PartitionKind.OWN_EXPRESSION_INDEX:
            return IndexUse.EXPRESSION
        case PartitionKind.COLUMN_STATS:
            return IndexUse.COLUMN_STATS
        case PartitionKind.BLOOM_FILTERS:
            return IndexUse.BLOOM_FILTERS
    return None
