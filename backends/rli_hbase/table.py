"""The table of an open index: its generation, its columns and its rows."""

from __future__ import annotations

from collections.abc import Sequence

from rli_hbase.ceiling import Ceiling
from rli_hbase.client import Client
from rli_hbase.keyspace import Columns
from rli_hbase.lifecycle import cells_beside_generation, require_generation
from rli_hbase.rows import Rows


class IndexTable:
    """One generation of an index.

    Attributes:
        client: how it is reached.
        generation: what tells it from every other index.
        columns: where its cells are.
        ceiling: what all its processes together keep to; None without one.
        rows: its rows.
    """

    def __init__(self, client: Client, generation: bytes) -> None:
        self.client = client
        self.generation = generation
        self.columns = Columns.of(generation)
        ops_per_second = client.settings.ops_per_second
        self.ceiling = None if ops_per_second is None else Ceiling(client, self.columns.control, ops_per_second)
        self.rows = Rows(client, self.ceiling)

    def read_while_present(self, rows: Sequence[bytes], column: bytes) -> list[bytes | None]:
        """The cells of a column in some rows, None for a row without the cell. The same request reads the generation.

        Rows and generation need not be of one moment.

        Raises:
            IndexNotFoundError: the index was dropped before.
        """
        return cells_beside_generation(self.client, self.generation, rows, column)

    def require_present(self) -> None:
        """Raise ``IndexNotFoundError`` if the index was dropped, so that nothing read or written until now counts."""
        require_generation(self.client, self.generation)
