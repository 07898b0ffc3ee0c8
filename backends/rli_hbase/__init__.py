"""The HBase store of rli: one table behind one or more Thrift servers, shared by any number of machines."""

from __future__ import annotations

from rli_hbase.hudi_store import HudiStore
from rli_hbase.store import HbaseStore, open_hbase_store

__all__ = ["HbaseStore", "HudiStore", "open_hbase_store"]
