"""What an index costs HBase: measured with 100,000 keys of 16 bytes, after a compaction."""

from __future__ import annotations

from typing import Final

from rli.store import Capacity

# 27 bytes on disk for a UUID, with Snappy and FAST_DIFF.
_BYTES_BESIDE_KEY: Final = 11
_REGION_BYTES: Final = 10 << 30
_REGIONS_PER_SERVER: Final = 20


def estimate(entries: int, key_width: int) -> Capacity:
    """The cost of an index before HDFS replicates it."""
    each = float(key_width + _BYTES_BESIDE_KEY)
    regions = max(1, round(entries * each / _REGION_BYTES + 0.5))
    servers = max(1, round(regions / _REGIONS_PER_SERVER + 0.5))
    advice = (
        "HDFS keeps three copies: plan three times the disk space",
        "a block cache that holds the whole index makes look-ups several times faster",
        f"split the table at the borders of shards into {max(regions, 8)} regions or more (see docs/stores/hbase.md)",
    )
    return Capacity(each, "disk", servers, advice)
