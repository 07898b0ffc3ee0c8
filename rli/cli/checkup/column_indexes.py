"""Looking at a table's indexes on columns: is each of them in use?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rli.findings import Finding, Verdict
from rli.table.column_indexes import IndexesOnColumns
from rli.table.opened import OpenTable
from rli.view.column_indexes import ColumnIndex, ColumnIndexState, IndexHome, IndexUse

_CHECK = "indexes on columns"


def column_index_findings(table: OpenTable) -> Iterator[Finding]:
    """Findings about the indexes on columns of a table; none if it has no such index.

    Raises:
        CorruptTableError: the metadata table, or a file that describes the indexes, is damaged.
    """
    indexes = IndexesOnColumns(table).list()
    sound = [index.name for index in indexes if index.state in (ColumnIndexState.VALID, ColumnIndexState.BUILDING)]
    if sound:
        yield Finding(_CHECK, Verdict.OK, f"indexes={','.join(sound)}")
    for index in indexes:
        if index.state is ColumnIndexState.INVALID:
            lag = "" if index.lag is None else f" lag={index.lag}"
            detail = f"nobody uses an index, because a change did not keep it: name={index.name}{lag}"
            yield Finding(
                _CHECK, Verdict.WARNING, detail, f"{_to_build(index)}; or drop it: rli index drop TABLE {index.name}"
            )
        elif index.state is ColumnIndexState.DROPPING:
            detail = f"the data of a dropped index are still there: name={index.name} size={index.size}"
            yield Finding(_CHECK, Verdict.WARNING, detail, "run: rli index run TABLE")


def _to_build(index: ColumnIndex) -> str:
    if len(index.columns) != 1:
        # ``rli index create`` makes an index of one column. Statistics of several columns come with the metadata table.
        return "build it again: rli metadata enable TABLE"
    options = [
        *(["--using", index.using] if index.using is not IndexUse.SECONDARY else []),
        *(["--expr", shlex.quote(index.expression)] if index.expression is not None else []),
        *(["--home", index.home] if index.home is IndexHome.STORE else []),
        *(["--unique"] if index.is_unique else []),
    ]
    return " ".join(
        ["build it again: rli index create TABLE", index.name, "--on", shlex.quote(index.columns[0]), *options]
    )
