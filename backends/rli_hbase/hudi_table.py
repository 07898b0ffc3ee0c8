"""The table that Apache Hudi's writers share with an index: it is made where it is missing, and never removed."""

from __future__ import annotations

from typing import Any

from rli.errors import SettingsError
from rli.store import Finding, Verdict
from rli_hbase.client import Client
from rli_hbase.errors import NotThereYetError, is_table_missing
from rli_hbase.health import family_finding
from rli_hbase.hudi_rows import FAMILY, VERSIONS
from rli_hbase.table_making import create_table
from rli_hbase.thrift import HbaseError


def find_or_make_table(client: Client) -> None:
    """Make the table, or see that it is one that Hudi's writers and the index can share.

    Raises:
        SettingsError: it is not.
        StoreUnavailableError: HBase does not answer, or does not let us make the table.
    """
    _require_suitable(client, client.call(lambda thrift: _find_or_make(client, thrift)))


def require_hudi_table(client: Client) -> None:
    """See that the table is one that Hudi's writers and the index can share; raises as ``find_or_make_table``."""
    families = client.call(lambda thrift: thrift.getColumnDescriptors(client.table))
    _require_suitable(client, families.get(FAMILY + b":"))


def _require_suitable(client: Client, family: Any) -> None:
    if family is None:
        raise SettingsError(
            f"not a Hudi HBase-index table: store={client.settings.location} expected family={FAMILY.decode()}",
            remedy="name another table, or leave schema= out",
        )
    if family.maxVersions < VERSIONS:
        raise SettingsError(
            f"the table keeps too few versions: store={client.settings.location} family={FAMILY.decode()} "
            f"versions={family.maxVersions}",
            remedy=f"in the HBase shell: {_more_versions(client)}",
        )


def hudi_table_health(client: Client) -> list[Finding]:
    """Findings about the table."""
    regions = client.call(lambda thrift: thrift.getTableRegions(client.table))
    family = client.call(lambda thrift: thrift.getColumnDescriptors(client.table))[FAMILY + b":"]
    detail = f"table={client.settings.table} versions={family.maxVersions}"
    kept = Finding("versions", Verdict.OK, detail)
    if family.maxVersions < VERSIONS:
        problem = "the location of a record before a pending or failed commit of Hudi is unknown"
        kept = Finding("versions", Verdict.PROBLEM, f"{problem}: {detail}", _more_versions(client))
    return [
        Finding("regions", Verdict.OK, f"table={client.settings.table} regions={len(regions)}"),
        family_finding(client, FAMILY, family),
        kept,
    ]


def _find_or_make(client: Client, thrift: Any) -> Any:
    try:
        families = thrift.getColumnDescriptors(client.table)
    except HbaseError as error:
        if not is_table_missing(error):
            raise
        create_table(client.table, [FAMILY], VERSIONS, thrift)
        raise NotThereYetError from error
    return families.get(FAMILY + b":")


def _more_versions(client: Client) -> str:
    return f"alter '{client.settings.table}', {{NAME => '{FAMILY.decode()}', VERSIONS => {VERSIONS}}}"
