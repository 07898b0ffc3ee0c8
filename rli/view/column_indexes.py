"""The indexes on columns of a table: what each is, and whether readers can use it.

An index lives in Hudi's metadata table, which knows no names of statistics. So rli keeps the names in a file of its own. An
index whose partition a change did not keep is still named there: it is shown as invalid, and not as if it had never been.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal, Self
from uuid import uuid4

from pydantic import BaseModel, Field, ValidationError

from rli.errors import CorruptTableError, InvalidInputError
from rli.filters.syntax import parsed, quoted_name
from rli.hudi.meta_columns import META_COLUMNS
from rli.hudi.metadata.index_definitions import IndexDefinition, expression_of, indexed_column, load_index_definitions
from rli.hudi.metadata.partitions import PartitionKind, kind_of
from rli.hudi.properties import TableProperties
from rli.storage import Storage
from rli.telemetry.index_uses import IndexUses, uses_of
from rli.view import paths
from rli.view.definition import TableDefinition
from rli.view.planned_indexing import partitions_of, pending_indexings


class IndexUse(StrEnum):
    """What an index on a column is made of."""

    SECONDARY = "secondary"
    """Value of the column → record keys."""
    COLUMN_STATS = "column_stats"
    """Least and greatest value of the column in each file."""
    BLOOM_FILTERS = "bloom_filters"
    """A bloom filter of each file, of the values of the column or of an expression over it."""
    EXPRESSION = "expression"
    """Statistics or bloom filters of an expression over the column, whose definition is lost."""


_MADE: Final = (IndexUse.SECONDARY, IndexUse.COLUMN_STATS, IndexUse.BLOOM_FILTERS)
"""The kinds that rli makes."""


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
    DROPPING = "dropping"
    """It was dropped, and nobody uses it; its data are still to be removed."""


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """An index on a column.

    Attributes:
        name: by which it is dropped.
        using: what it is made of.
        columns: that it is of; none: Hudi's choice, which is the first columns of the table.
        state: what it is good for.
        partition: of the metadata table that holds it; "" for an index in a store.
        size: bytes of the partition's files that readers read, or of the store; 0 if there are none, or the store cannot tell.
        expression: over the column, whose values are indexed: in the grammar of filters, or Hudi's name of the function where rli has
            no such function. None for the column itself; bloom filters of another column than the record key have its name here.
        home: where it is kept.
        is_unique: whether no two records may have one value.
        lag: number of the table's commits that the index lacks; None if the index is not built, or cannot tell. The next look-up or
            commit brings an index in a store up to date; readers pass over a lagging index in the metadata table.
        covers: share of the table's file groups that the index can leave out of a read, from 0 to 1: the others have log files, or
            values that the index does not hold. With more than 1,000 file groups, the share in a sample. 0 unless the index is valid.
        uses: reads and look-ups of this process that the index has answered.
        files_skipped: file groups that these reads left out because of the index.
    """

    name: str
    using: IndexUse
    columns: tuple[str, ...]
    state: ColumnIndexState
    partition: str
    size: int = 0
    expression: str | None = None
    home: IndexHome = IndexHome.METADATA
    is_unique: bool = False
    lag: int | None = None
    covers: float = 0.0
    uses: int = 0
    files_skipped: int = 0

    @property
    def shares_statistics(self) -> bool:
        """Whether it is the statistics of columns, which are in one partition with those of others."""
        return self.using is IndexUse.COLUMN_STATS and self.expression is None

    @property
    def places(self) -> tuple[str, ...]:
        """The names under which its uses are counted: its partition, its columns in a partition of statistics, or its store."""
        if self.home is IndexHome.STORE:
            return (place_in_store(self.name),)
        if self.shares_statistics:
            return tuple(f"{self.partition}/{column}" for column in self.columns)
        return (self.partition,)

    def counted(self, table: str) -> ColumnIndex:
        """The index with the counts of this process; an index of several columns has those of its most used column.

        Args:
            table: location of the table.
        """
        found = max((uses_of(table, place) for place in self.places), default=IndexUses(), key=lambda one: one.uses)
        return replace(self, uses=found.uses, files_skipped=found.files_skipped)


def place_in_store(name: str) -> str:
    """The name under which the uses of an index in a store are counted."""
    return f"{IndexHome.STORE}/{name}"


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

    @classmethod
    def of(
        cls,
        column: str,
        using: IndexUse | str | None = None,
        expression: str | None = None,
        home: IndexHome | str | None = None,
        *,
        is_unique: bool = False,
        record_key: Sequence[str] = (),
    ) -> Self:
        """The index that a caller asks for, checked against the rules that hold in every table.

        Args:
            column: the indexed column.
            using: by default secondary, with an expression statistics of columns.
            expression: as ``expression``.
            home: as ``home``.
            is_unique: as ``is_unique``.
            record_key: the columns of the table's record key: bloom filters of another column are those of an expression.

        Raises:
            InvalidInputError: rli makes no such index.
        """
        if using is None:
            using = IndexUse.SECONDARY if expression is None else IndexUse.COLUMN_STATS
        _require_one_of(_MADE, using, "rli makes no index of this kind: using")
        if home is not None:
            _require_one_of(tuple(IndexHome), home, "rli keeps no index there: home")
        if expression is not None and using == IndexUse.SECONDARY:
            raise InvalidInputError(
                f"rli makes no secondary index on an expression: expression={expression!r}",
                remedy="choose using='column_stats' or using='bloom_filters' (--using)",
            )
        if is_unique and (using != IndexUse.SECONDARY or home == IndexHome.METADATA):
            raise InvalidInputError(
                f"values are kept unique by a secondary index in a store alone: using={using} home={home}",
                remedy="choose using='secondary' and home='store', or leave out unique",
            )
        if using != IndexUse.SECONDARY and home == IndexHome.STORE:
            raise InvalidInputError(
                f"a store keeps no index of this kind: using={using}",
                remedy="choose using='secondary', or leave out home",
            )
        if using == IndexUse.BLOOM_FILTERS and expression is None and tuple(record_key) != (column,):
            expression = quoted_name(column)
        return cls(IndexUse(using), column, expression, None if home is None else IndexHome(home), is_unique)

    @classmethod
    def again(cls, named: NamedIndex) -> Self:
        """An index that a caller has asked for before."""
        return cls(named.using, named.column, named.expression, named.home, named.is_unique)

    def named(self, home: IndexHome, *, is_owner: bool, is_scheduled: bool = False) -> NamedIndex:
        """What rli keeps of the index.

        Args:
            home: where it is kept.
            is_owner: as ``NamedIndex.is_owner``; an index on an expression always is.
            is_scheduled: as ``NamedIndex.is_scheduled``.
        """
        return NamedIndex(
            using=self.using,
            column=self.column,
            is_owner=is_owner or self.expression is not None,
            expression=self.expression,
            home=home,
            is_unique=self.is_unique,
            is_scheduled=is_scheduled,
            identity=uuid4().hex,
        )

    def is_like(self, other: ColumnIndex) -> bool:
        """Whether an index is what the caller asks for."""
        is_same = self.expression == other.expression or (
            self.expression is not None
            and other.expression is not None
            and parsed(self.expression) == parsed(other.expression)
        )
        return is_same and (other.using, other.columns, other.is_unique) == (self.using, (self.column,), self.is_unique)


def _require_one_of(known: Sequence[str], given: str, problem: str) -> None:
    if given not in known:
        raise InvalidInputError(f"{problem}={given!r}", remedy=f"choose one of {', '.join(known)}")


class NamedIndex(BaseModel):
    """What rli keeps of an index that a caller has named.

    Attributes:
        using: what it is made of.
        column: that it is of.
        is_owner: the partition, or the statistics of the column, were built for it and go with it.
        expression: over the column; None for the column itself.
        home: where it is kept.
        is_unique: whether no two records may have one value; once it is built.
        is_scheduled: it is still to be built, or a process is building it.
        identity: a random name, which tells the index from an earlier one of the same name; "" if a former version made the index.
        unique_since: the last commit before values were unique; "" if a former version made the index, or values may repeat.
    """

    using: IndexUse
    column: str
    is_owner: bool
    expression: str | None = None
    home: IndexHome = IndexHome.METADATA
    is_unique: bool = False
    is_scheduled: bool = False
    identity: str = ""
    unique_since: str = ""

    @property
    def shares_statistics(self) -> bool:
        """Whether it is the statistics of a column, which are in one partition with those of others."""
        return self.using is IndexUse.COLUMN_STATS and self.expression is None


class NamedIndexes(BaseModel):
    """The indexes on columns that callers have named, as their file has them.

    Attributes:
        version: of the format.
        indexes: by name.
        dropped: names of dropped indexes whose data are still to be removed; read from the marks of drops, not from the file.
    """

    version: Literal[1] = 1
    indexes: dict[str, NamedIndex] = {}
    dropped: frozenset[str] = Field(default=frozenset(), exclude=True)

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
            found = cls.model_validate_json(content)
        except ValidationError as error:
            raise CorruptTableError(
                f"the names of indexes on columns are damaged: file={paths.COLUMN_INDEXES}",
                remedy="delete the file, and create the indexes again",
            ) from error
        marks = {file.name for file in storage.list_files(paths.DROPPED_INDEXES)} if found.indexes else set()
        dropped = {name for name, index in found.indexes.items() if f"{name}.{index.identity}" in marks}
        return found.model_copy(update={"dropped": frozenset(dropped)})

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

    def is_last(self, name: str) -> bool:
        """Whether the data of an index go with it: they were made for the index, and no other index needs them."""
        own = self.indexes[name]
        # A build that died may have made a partition that is this index's alone.
        is_alone = own.expression is not None or own.using is IndexUse.SECONDARY
        is_made = own.is_owner and (is_alone or not own.is_scheduled)
        return is_made and self.heir_of(name) is None

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
            and other not in self.dropped
        )
        return next((other for other in same if other != name), None)

    @property
    def in_stores(self) -> dict[str, NamedIndex]:
        """Those in key-value stores, by name."""
        return {name: index for name, index in self.indexes.items() if index.home is IndexHome.STORE}

    @property
    def kept_in_stores(self) -> dict[str, NamedIndex]:
        """The indexes in stores that are built and not dropped: commits keep them, and readers use them."""
        return {
            name: index for name, index in self.in_stores.items() if not index.is_scheduled and name not in self.dropped
        }


_PARTITIONS: Final = {
    IndexUse.COLUMN_STATS: PartitionKind.COLUMN_STATS.value,
    IndexUse.BLOOM_FILTERS: PartitionKind.BLOOM_FILTERS.value,
}


_OF_NAMES: Final = (PartitionKind.SECONDARY_INDEX, PartitionKind.EXPRESSION_INDEX, PartitionKind.OWN_EXPRESSION_INDEX)
"""Beginnings of the names of partitions that hold one index."""


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


def without_dropped(partitions: Sequence[str], storage: Storage) -> list[str]:
    """Some partitions of the metadata table without those of dropped indexes."""
    of_names = [name for name in partitions if kind_of(name) in _OF_NAMES]
    try:
        dropped = NamedIndexes.load(storage).dropped if of_names else frozenset()
    except CorruptTableError:
        # Writers keep these partitions until they are removed.
        return [*partitions]
    gone = {f"{kind}{name}" for kind in _OF_NAMES for name in dropped}
    return [name for name in partitions if name not in gone]


def columns_of_values(table: TableDefinition) -> tuple[str, ...]:
    """The columns of which an index keeps each value, as an entry or in a bloom filter: a commit adds the values that it writes.

    Raises:
        CorruptTableError: the definitions of indexes or the file of their names cannot be read.
    """
    found = dict.fromkeys(index.column for index in NamedIndexes.load(table.storage).kept_in_stores.values())
    partitions = [name for name in table.properties.metadata_partitions if kind_of(name) in _OF_NAMES]
    definitions = load_index_definitions(table.storage, table.properties) if partitions else {}
    known = [definitions[name] for name in partitions if name in definitions]
    filtered = (one.columns[0] for one in known if one.columns and one.kind == PartitionKind.BLOOM_FILTERS)
    entered = (column for column in map(indexed_column, known) if column is not None)
    return (*(found | dict.fromkeys((*filtered, *entered))),)


def column_indexes(table: TableDefinition, sizes: Mapping[str, int]) -> tuple[ColumnIndex, ...]:
    """The indexes on columns in the metadata table: those that have a name, and those of Hudi's that have none of rli's.

    Their ``lag`` and ``covers`` are not measured.

    Args:
        table: as it is now.
        sizes: partition of the metadata table → bytes.

    Raises:
        CorruptTableError: the definitions of indexes or the file of their names cannot be read.
    """
    named = NamedIndexes.load(table.storage)
    definitions = load_index_definitions(table.storage, table.properties)
    partitions = partitions_of(table.properties, pending_indexings(table.load_timeline()))
    listing = _Listing(table.properties, partitions, definitions, sizes, named.dropped)
    found = [listing.named(name, index) for name, index in named.indexes.items() if index.home is IndexHome.METADATA]
    return (*found, *listing.unnamed(found))


@dataclass(frozen=True, slots=True)
class _Listing:
    """Tells the states of indexes."""

    properties: TableProperties
    partitions: Sequence[str]
    definitions: Mapping[str, IndexDefinition]
    sizes: Mapping[str, int]
    dropped: frozenset[str]

    def named(self, name: str, index: NamedIndex) -> ColumnIndex:
        partition = self._partition_of(name, index)
        state = self._state(partition)
        if name in self.dropped:
            state = ColumnIndexState.DROPPING
        elif index.is_scheduled:
            state = ColumnIndexState.BUILDING
        elif not self._covers(partition, index):
            state = ColumnIndexState.INVALID
        size = self.sizes.get(partition, 0)
        return ColumnIndex(name, index.using, (index.column,), state, partition, size, index.expression)

    def _partition_of(self, name: str, index: NamedIndex) -> str:
        if index.expression is None:
            return partition_of(name, index.using)
        shared, own = (partition_of_expression(name, is_own=is_own) for is_own in (False, True))
        return shared if shared in self.properties.all_metadata_partitions else own

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
        owned = {column for index in named if index.shares_statistics for column in index.columns}
        for partition in sorted(self.partitions):
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
        is_building = partition in self.partitions
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
