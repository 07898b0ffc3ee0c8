"""What may be wrong with the table of an index: its regions and the properties of its families."""

from __future__ import annotations

from typing import Any, Final

from rli.store import Finding, Verdict
from rli_hbase.client import Client
from rli_hbase.keyspace import CONTROL, ENTRIES, LONG, shard_row
from rli_hbase.table_making import FOR_EVER

_SUGGESTED_REGIONS: Final = 8


def table_health(client: Client, shard_count: int) -> list[Finding]:
    """Findings about the table; ``shard_count`` is the number of shards to suggest splits for."""
    regions = client.call(lambda thrift: thrift.getTableRegions(client.table))
    families = client.call(lambda thrift: thrift.getColumnDescriptors(client.table))
    every = (family_finding(client, name, families[name + b":"]) for name in (ENTRIES, LONG, CONTROL))
    return [_regions(client, regions, shard_count), *every]


def split_commands(table: str, shard_count: int) -> list[str]:
    """Commands of the HBase shell that cut a table at the borders of shards."""
    step = max(1, shard_count // _SUGGESTED_REGIONS)
    borders = (shard_row(shard) for shard in range(step, shard_count, step))
    return ["split '{}', \"{}\"".format(table, "".join(f"\\x{byte:02X}" for byte in border)) for border in borders]


def _regions(client: Client, regions: list[Any], shard_count: int) -> Finding:
    servers = {(region.serverName, region.port) for region in regions}
    detail = f"table={client.settings.table} regions={len(regions)} region servers={len(servers)}"
    if len(regions) == 1:
        commands = "; ".join(split_commands(client.settings.table, shard_count))
        return Finding(
            "regions",
            Verdict.WARNING,
            f"the whole index is in a single region, on a single region server, until HBase splits it: {detail}",
            f"in the HBase shell: {commands}",
        )
    return Finding("regions", Verdict.OK, detail)


def family_finding(client: Client, name: bytes, family: Any) -> Finding:
    """Whether the properties of a column family suit entries."""
    detail = (
        f"table={client.settings.table} family={name.decode()} bloom filter={_string(family.bloomFilterType)} "
        f"block cache={family.blockCacheEnabled} ttl={family.timeToLive} compression={_string(family.compression)}"
    )
    if family.timeToLive != FOR_EVER:
        problem = "entries expire although they are needed"
        return Finding("family", Verdict.PROBLEM, f"{problem}: {detail}", "set TTL => 'FOREVER'")
    if _string(family.bloomFilterType) == "NONE" or not family.blockCacheEnabled:
        advice = "set BLOOMFILTER => 'ROW', BLOCKCACHE => 'true', then run a major compaction"
        return Finding("family", Verdict.WARNING, f"look-ups are slow: {detail}", advice)
    return Finding("family", Verdict.OK, detail)


def _string(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
