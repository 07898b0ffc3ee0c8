"""LMDB as one would use it by hand, without rli: the limit of the embedded store."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Self

import lmdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.codec.record_keys import encode

_MAP_SIZE: Final = 1 << 33
"""Bytes; more than any benchmark fills."""

_PUT: Final = 2_000_000
"""Entries of one transaction."""


class RawLmdb:
    """Encoded UUID keys in the main database of an environment, through LMDB's own calls for batches."""

    def __init__(self, folder: Path) -> None:
        self._environment = lmdb.open(str(folder), map_size=_MAP_SIZE)

    def load(self, keys: NDArray[np.void], entries: Entries) -> None:
        """Fill the empty environment with keys and their entries, in order of the keys."""
        order = EncodedKeys(keys, np.zeros(len(keys), dtype=np.uint16)).sort_order()
        values = entries.astype(">u8").view("V8")
        for start in range(0, len(order), _PUT):
            some = order[start : start + _PUT]
            with self._environment.begin(write=True) as transaction, transaction.cursor() as cursor:
                cursor.putmulti(zip(keys[some].tolist(), values[some].tolist(), strict=True), append=True)

    def get(self, batch: list[bytes]) -> list[tuple[bytes, bytes]]:
        """Those of some encoded keys that are there, with their entries."""
        with self._environment.begin() as transaction, transaction.cursor() as cursor:
            found: list[tuple[bytes, bytes]] = cursor.getmulti(sorted(batch))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._environment.close()


def encoded(keys: pa.Array) -> NDArray[np.void]:
    """UUIDs as the codec writes them: what a user of LMDB would write by hand."""
    ((_, items),) = encode(keys)
    return items
