"""Work rows by file group: new rows get one, and the rows of each come together."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.file_group import work_rows
from rli.index.placing import Placement
from rli.locations import NamedGroups, named_groups
from rli.model import FileGroupId

_FEW_KINDS: Final = 1 << 16


Positions: TypeAlias = NDArray[np.intp]


def place(new_rows: pa.Table, placements: Mapping[str, Placement]) -> pa.Table:
    """New and arriving work rows with the file group that takes each."""
    named = placed_groups(new_rows, placements)
    file_ids = pa.array([group and group.file_id for group in named.groups], pa.string()).take(pa.array(named.codes))
    position = new_rows.schema.get_field_index(work_rows.FILE_ID)
    return new_rows.set_column(position, new_rows.schema.field(position), file_ids)


def placed_groups(new_rows: pa.Table, placements: Mapping[str, Placement]) -> NamedGroups:
    """The file group that takes each of some new and arriving work rows."""
    paths = pc.dictionary_encode(new_rows.column(work_rows.PARTITION_PATH).combine_chunks())
    keys = new_rows.column(work_rows.RECORD_KEY).combine_chunks()
    groups: list[FileGroupId | None] = []
    codes = np.empty(len(keys), np.intp)
    for path, positions in zip(
        paths.dictionary.to_pylist(), positions_by_code(paths.indices.to_numpy(), len(paths.dictionary)), strict=True
    ):
        placement = placements[path]
        if placement.only_file_id is not None:
            codes[positions] = len(groups)
            groups.append(FileGroupId(path, placement.only_file_id))
            continue
        file_ids = placement.file_ids_of(keys.take(pa.array(positions)))
        codes[positions] = len(groups) + file_ids.indices.to_numpy()
        groups.extend(FileGroupId(path, file_id) for file_id in file_ids.dictionary.to_pylist())
    return NamedGroups(groups, codes)


def groups_of(rows: pa.Table, columns: tuple[str, str] = work_rows.FILE_GROUP) -> list[tuple[FileGroupId, pa.Table]]:
    """Work rows by the file group that two of their columns name: the one that they change, unless said otherwise."""
    named = named_groups(*(rows.column(name).combine_chunks() for name in columns))
    parts = split_by_code(rows, named.codes, len(named.groups))
    return [(group, part) for group, part in zip(named.groups, parts, strict=True) if group is not None]


def split_by_code(rows: pa.Table, codes: NDArray[np.integer], kinds: int) -> list[pa.Table]:
    """Rows by a code, in their order.

    Args:
        rows: any.
        codes: shape (rows,), each less than ``kinds``.
        kinds: how many there are.

    Returns:
        Shape (kinds,).
    """
    if kinds == 1:
        return [rows]
    parts = positions_by_code(codes, kinds)
    arranged = work_rows.rows_at(rows, np.concatenate([np.empty(0, np.intp), *parts]))
    bounds = np.cumsum([0, *map(len, parts)]).tolist()
    return [arranged.slice(start, end - start) for start, end in pairwise(bounds)]


def rows_at(rows: pa.Table, positions: Positions) -> pa.Table:
    """The rows at some positions; not copied if these follow each other."""
    if not len(positions):
        return rows.slice(0, 0)
    start = int(positions[0])
    if len(positions) == positions[-1] - start + 1 and (np.diff(positions) == 1).all():
        return rows.slice(start, len(positions))
    return work_rows.rows_at(rows, positions)


def positions_by_code(codes: NDArray[np.integer], kinds: int) -> list[Positions]:
    """The positions of each code, in rising order.

    Args:
        codes: shape (n,), each less than ``kinds``.
        kinds: how many there are.
    """
    # Numbers of two bytes are sorted several times as fast as others.
    narrow = codes.astype(np.uint16) if kinds <= _FEW_KINDS else codes
    order = np.argsort(narrow, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes, minlength=kinds))[:-1]) if kinds else []
