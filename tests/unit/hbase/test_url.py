from __future__ import annotations

import pytest

from rli.errors import SettingsError
from rli.store.registry import open_store
from rli_hbase.url import HbaseSettings


def test_a_short_url_has_the_defaults() -> None:
    settings = HbaseSettings.from_url("hbase://hb1/?table=trips")
    assert settings.servers == (("hb1", 9090),)
    assert (settings.table, settings.transport, settings.protocol) == ("trips", "buffered", "binary")
    assert (settings.timeout, settings.batch, settings.ops_per_second) == (30, 1000, None)
    assert settings.schema_ == "rli"


def test_url_names_servers_and_options() -> None:
    settings = HbaseSettings.from_url(
        "hbase://hb1:9091,hb2:9092?table=ns:trips&transport=framed&protocol=compact&timeout=2.5&batch=10&ops_per_second=500"
    )
    assert settings.servers == (("hb1", 9091), ("hb2", 9092))
    assert settings.table_name == b"ns:trips"
    assert (settings.transport, settings.protocol) == ("framed", "compact")
    assert (settings.timeout, settings.batch, settings.ops_per_second) == (2.5, 10, 500)
    assert settings.location == "hbase://hb1:9091,hb2:9092/?table=ns:trips"


def test_hudi_schema_adds_control_table() -> None:
    settings = HbaseSettings.from_url("hbase://hb1/?table=ns:trips&schema=hudi&batch=5")
    assert settings.schema_ == "hudi"
    assert settings.of_control_table.table_name == b"ns:trips_rli"
    assert settings.of_control_table.batch == 5


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("hbase:///?table=t", "not a URL of an HBase store"),
        ("hbase://h/path?table=t", "not a URL of an HBase store"),
        ("hbase://h/?table=t#part", "not a URL of an HBase store"),
        ("hbase://user:secret@h/?table=t", "^(?!.*secret).*names a user"),
        ("hbase://h", "names no table"),
        ("hbase://h/?batch=5", "names no table"),
        (
            "hbase://h/?table=t&tabel=u",
            "option=tabel .*known options: batch, ops_per_second, prefix, protocol, schema, table",
        ),
        ("hbase://h/?table=t&servers=x", "option=servers"),
        ("hbase://h/?table=t&table=u", "given twice: option=table"),
        ("hbase://h/?table", "not name=value pairs"),
        ("hbase://h/?table=a/b", "table: "),
        ("hbase://h/?table=", "table: "),
        ("hbase://h/?table=t&transport=http", "transport: "),
        ("hbase://h/?table=t&protocol=json", "protocol: "),
        ("hbase://h/?table=t&schema=delta", "schema: "),
        ("hbase://h/?table=t&schema_=hudi", "option=schema_"),
        ("hbase://h/?table=t&timeout=0", "timeout: "),
        ("hbase://h/?table=t&timeout=inf", "timeout: "),
        ("hbase://h/?table=t&batch=0", "batch: "),
        ("hbase://h/?table=t&batch=many", "batch: "),
        ("hbase://h/?table=t&ops_per_second=0", "ops_per_second: "),
        ("hbase://h:x/?table=t", "a port is not a number"),
        ("hbase://h:99999/?table=t", "a port is not a number"),
        ("hbase://h1,/?table=t", "server= "),
    ],
)
def test_wrong_url_is_refused_by_name(url: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        open_store(url)
