"""What every store in HBase has in common: control records in a table of its own, and the life of an index."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final

from rli.store import APPLIED, Store, sequence_in, with_option, without_option
from rli_hbase.control import ControlRecords
from rli_hbase.lifecycle import drop_generation
from rli_hbase.table import IndexTable
from rli_hbase.url import HbaseSettings

_PREFIX_WIDTH: Final = 8
"""Of indexes beside the index: the keys of a value begin with eight bytes of its hash."""


class ControlledStore(Store):
    """A store whose control records, and whose generation, are in a table of HBase.

    What a call has written is in HBase's write-ahead log when it returns. Threads of a process each use a connection of
    their own, which a copy made by pickling, or a forked process, opens again.

    Args:
        url: of the store.
        table: with the control records.
    """

    # A call already sends several reads at a time. More reads, or concurrent writes, make small servers time out.
    gains_by_threads: ClassVar[bool] = False

    # HBase does not count its rows.
    counts: ClassVar[bool] = False

    def __init__(self, url: str, table: IndexTable) -> None:
        self._url = url
        self._table = table
        self._control = ControlRecords(table)

    @property
    def url(self) -> str:
        return self._url

    def url_beside(self, name: str) -> str:
        # Entries of other keys than Hudi's are in the schema of rli.
        settings = HbaseSettings.from_url(self._url)
        beside = with_option(without_option(self._url, "schema"), "table", f"{settings.table}.{name}")
        return with_option(beside, "prefix", str(_PREFIX_WIDTH))

    def read_control(self, name: str) -> bytes | None:
        [value] = self._control.read_all([name])
        # A value that was found belongs to this index. An absent record may have been dropped with its index behind the look at the generation.
        if value is None:
            self._table.require_present()
        return value

    def read_controls(self, names: Sequence[str]) -> list[bytes | None]:
        return self._control.read_all(names)

    def applied_beside(self, names: Sequence[str]) -> tuple[int | None, list[bytes | None]]:
        applied, *values = self.read_controls([APPLIED, *names])
        return sequence_in(applied), values

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        found = self._control.scan(prefix, start)
        self._table.require_present()
        return found

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        is_set = self._control.compare_and_set(name, expected, value)
        self._table.require_present()
        return is_set

    def drop(self) -> None:
        drop_generation(self._table.client, self._table.generation)

    def close(self) -> None:
        self._table.client.close()

    @abstractmethod
    def __reduce__(self) -> tuple[object, ...]:
        """How a copy is made in another process: without looking for the index again."""
