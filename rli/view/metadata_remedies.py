"""What a user types to build partitions of the metadata table again."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable

from rli.hudi.metadata.partitions import PartitionKind, kind_of, with_dependent
from rli.index_urls import is_in_metadata_table
from rli.view.definition import TableDefinition


def to_build_again(table: TableDefinition, damaged: Iterable[str]) -> str:
    """The commands, as advice; what needs one of the partitions is removed and built with it.

    Args:
        table: as it is now.
        damaged: names of listed partitions.

    Example:
        >>> to_build_again(table.definition, ["column_stats"])  # doctest: +SKIP
        'rli metadata disable TABLE --partitions column_stats, then rli metadata enable TABLE --partitions column_stats'
    """
    listed = table.properties.all_metadata_partitions
    gone = sorted(with_dependent(damaged, listed))
    if PartitionKind.RECORD_INDEX in gone and _is_index(table):
        return _in_order(["rli index bootstrap TABLE", *_indexes_on_columns(gone)])
    names = "" if {*listed} <= {*gone} else _named(gone)
    return _in_order([f"rli metadata disable TABLE{names}", to_build(gone)])


def to_build(removed: Iterable[str], columns: Collection[str] = ()) -> str:
    """The commands that build partitions which are gone, as advice.

    Args:
        removed: names of partitions.
        columns: that get statistics; none for those that get them by default.

    Example:
        >>> to_build(["files", "column_stats"], ["city", "fare"])
        'rli metadata enable TABLE --partitions column_stats,files --columns city,fare'
    """
    names = sorted(removed)
    # The others need more than a name.
    built = [name for name in names if kind_of(name) == name]
    chosen = f" --columns {shlex.quote(','.join(columns))}" if columns else ""
    return _in_order(
        [*([f"rli metadata enable TABLE{_named(built)}{chosen}"] if built else []), *_indexes_on_columns(names)]
    )


def _indexes_on_columns(partitions: Iterable[str]) -> list[str]:
    is_one_of_them = any(kind_of(name) != name for name in partitions)
    return ["rli index create for each index that rli index list TABLE shows as invalid"] if is_one_of_them else []


def _in_order(steps: Iterable[str]) -> str:
    return ", then ".join(steps)


def _named(partitions: Iterable[str]) -> str:
    return f" --partitions {','.join(partitions)}"


def _is_index(table: TableDefinition) -> bool:
    return table.settings is not None and is_in_metadata_table(table.index_url)
