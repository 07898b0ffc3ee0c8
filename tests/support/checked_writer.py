"""A writer that checks after each batch what the table and its index say."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

import rli
from tests.support.table_model import Rows, Version, deleted, upserted
from tests.support.tables import check_stored, records, rows_of

KEYS: Final = [f"key-{number}" for number in range(400)]
_DELETES_EVERY: Final = 3


class CheckedWriter:
    """Writes batch after batch and checks after each what the table and its index say."""

    def __init__(self, folder: Path, url: str) -> None:
        self.table = rli.create_table(
            folder / "table", record_key="id", partition_by="city", ordering="ts", index=url, target_file_size=16_384
        )
        self.rows: Rows = {}
        self.rounds = 0

    def write(self) -> None:
        """Write one more batch."""
        self.rounds += 1
        source = random.Random(self.rounds)
        if self.rounds % _DELETES_EVERY:
            batch = [version(source, self.rounds) for _ in range(150)]
            self.table.upsert(records(*batch))
            self.rows = upserted(self.rows, batch).rows
        else:
            keys = source.sample(KEYS, 40)
            self.table.delete(keys)
            self.rows = deleted(self.rows, keys).rows
        self.require_right_tags()

    def require_right_tags(self) -> None:
        found = self.table.lookup(KEYS).column("partition_path").to_pylist()
        assert found == [self.rows[key][1] if key in self.rows else None for key in KEYS]

    def require_all(self) -> None:
        assert [tuple(row.values()) for row in rows_of(self.table)] == sorted(self.rows.values())
        check_stored(self.table)


def version(source: random.Random, number: int) -> Version:
    return (source.choice(KEYS), source.choice("wxyz"), source.randrange(number, number + 3), number + 0.5)
