"""Tables whose lease is with the table, as two hosts see them: each has an index of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rli import LeasePlace, Table, create_table, open_table


def leased_by_the_table(folder: Path, **settings: Any) -> tuple[Table, Table]:
    """An empty table with the index that it names, and the same table with another index."""
    table = create_table(
        folder / "t",
        record_key="id",
        partition_by="city",
        ordering="ts",
        index=f"lmdb://{folder}/one",
        shards=3,
        lease=LeasePlace.TABLE,
        **settings,
    )
    other = open_table(table.location, index=f"lmdb://{folder}/other")
    other.bootstrap_index(shards=3)
    return table, other
