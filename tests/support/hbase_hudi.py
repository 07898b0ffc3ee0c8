"""What tests of indexes in Hudi's own HBase schema need: rows as Hudi writes them, and the store as any other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import happybase
import numpy as np
import pyarrow as pa

from rli.codec import record_keys as codec
from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import Entries
from rli.codec.lengths import Positions
from rli.index.record.log.commit_log import CommitLog
from rli.model import FileGroupId
from rli.store.contract import Store, StoreStats
from rli.testing.batches import key_batch
from tests.support.docker import Service, running_service
from tests.support.java import SHORT_LIVED
from tests.support.log_drafts import repair_draft

SEQUENCES: Final = 100
FILE_GROUPS: Final = 12_000
"""What the commit log of an ``AnyKeyStore`` gives out."""

# The bundle's client asks for a class by a name that only the bundle knows, unless it asks for none. A value cannot be
# empty, so it is that of a variable that is not set.
_CLIENT_SETTINGS: Final = {
    "hbase.client.rpc.codec": "${env.RLI_TESTS_NOT_SET-}",
    "hbase.client.default.rpc.codec": "${env.RLI_TESTS_NOT_SET-}",
    "hbase.defaults.for.version.skip": "true",
}

_TEXT: Final = "k{:04x}{}"
_KEY_STARTS: Final = 5
_SUITE: Final = "suite/"


def hudi_row(instant: str, file_id: str = "f1", partition_path: str = "Oslo") -> dict[bytes, bytes]:
    """The cells of a row of Hudi's."""
    values = {"commit_ts": instant, "file_name": file_id, "partition_path": partition_path}
    return {f"_s:{name}".encode(): value.encode() for name, value in values.items()}


def rows_in(table: happybase.Table) -> dict[str, tuple[str, str, str]]:
    """Instant, file id and partition path of each record key, as Hudi reads them."""
    names = (b"_s:commit_ts", b"_s:file_name", b"_s:partition_path")
    return {key.decode(): tuple(cells[name].decode() for name in names) for key, cells in table.scan()}


@contextmanager
def hbase_on_host(thrift: int, zookeeper: int) -> Iterator[Service]:
    """An HBase all of whose ports Hudi's client reaches under the names that HBase gives them."""
    environment = {
        "THRIFT_ADDRESS": "127.0.0.1",
        "THRIFT_PORT": str(thrift),
        "ZOOKEEPER_PORT": str(zookeeper),
        "RANDOM_PORTS": "true",
        "JAVA_TOOL_OPTIONS": SHORT_LIVED,
    }
    with running_service("hbase", network="host", environment=environment) as service:
        yield service


def hbase_options(zookeeper: int, table: str) -> dict[str, str]:
    """Options that tell Hudi where HBase is, and to move records in its index."""
    return {
        "hoodie.index.hbase.zkquorum": "localhost",
        "hoodie.index.hbase.zkport": str(zookeeper),
        "hoodie.index.hbase.zknode.path": "/hbase",
        "hoodie.index.hbase.table": table,
        "hoodie.hbase.index.update.partition.path": "true",
    }


def write_client_settings(class_path: Path) -> None:
    """Write what the HBase client in Hudi's bundle needs to be told, into a folder of the class path."""
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in _CLIENT_SETTINGS.items()
    )
    (class_path / "hbase-site.xml").write_text(f"<configuration>{properties}</configuration>")


class AnyKeyStore(Store):
    """A store in Hudi's schema that takes what the conformance suite gives: any bytes as keys, in any shard.

    A key and its shard become a record key of text; the commit log has given out the first ``SEQUENCES`` sequences and
    ``FILE_GROUPS`` file groups, and its records are kept apart from those of the suite.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    @classmethod
    def prepared(cls, inner: Store) -> AnyKeyStore:
        """The same, with its commit log filled if it is empty."""
        log = CommitLog(inner)
        state = log.refresh()
        if not state.head:
            groups = [FileGroupId("p", f"f{number}") for number in range(FILE_GROUPS)]
            instants = [f"{number:017d}" for number in range(SEQUENCES)]
            log.append(state, repair_draft("suite", instants, groups))
        return cls(inner)

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, keys: EncodedKeys) -> Entries:
        found = np.zeros(len(keys), dtype=np.uint64)
        for positions, encoded in _as_text(keys):
            found[positions] = self._inner.get(encoded)
        return found

    def put(self, keys: EncodedKeys, entries: Entries) -> None:
        for positions, encoded in _as_text(keys):
            self._inner.put(encoded, entries[positions])

    def scan(self, shard: int, batch_size: int) -> Iterator[tuple[EncodedKeys, Entries]]:
        for keys, entries in self._inner.scan(0, batch_size):
            by_width: defaultdict[int, list[tuple[bytes, int]]] = defaultdict(list)
            for text, entry in zip(codec.decode(keys.keys).to_pylist(), entries.tolist(), strict=True):
                if text.startswith(_TEXT.format(shard, "")):
                    by_width[len(text)].append((bytes.fromhex(text[_KEY_STARTS:]), entry))
            for found in by_width.values():
                yield key_batch([key for key, _ in found], shard), np.array([entry for _, entry in found], np.uint64)

    def read_control(self, name: str) -> bytes | None:
        return self._inner.read_control(_SUITE + name)

    def scan_control(self, prefix: str, start: str = "") -> list[tuple[str, bytes]]:
        found = self._inner.scan_control(_SUITE + prefix, _SUITE + start)
        return [(name.removeprefix(_SUITE), value) for name, value in found]

    def compare_and_set(self, name: str, expected: bytes | None, value: bytes | None) -> bool:
        return self._inner.compare_and_set(_SUITE + name, expected, value)

    def drop(self) -> None:
        self._inner.drop()

    def stats(self) -> StoreStats:
        return self._inner.stats()

    def close(self) -> None:
        self._inner.close()

    def __reduce__(self) -> tuple[object, ...]:
        return AnyKeyStore, (self._inner,)


def _as_text(keys: EncodedKeys) -> list[tuple[Positions, EncodedKeys]]:
    texts = [_TEXT.format(shard, key.hex()) for shard, key in zip(keys.shards.tolist(), keys.to_bytes(), strict=True)]
    return [
        (positions, EncodedKeys(encoded, np.zeros(len(encoded), np.uint16)))
        for positions, encoded in codec.encode(pa.array(texts, pa.string()))
    ]
