"""``rli capacity``: how large an index will be, before there is one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from rli.cli.options import JsonOption, add_command
from rli.cli.output import print_facts, report
from rli.errors import SettingsError
from rli.sizes import human_bytes
from rli.store.capacity import estimate_capacity

_UUID_WIDTH: Final = 16
_KIND_WIDTH: Final = 1
_UNITS: Final = {"k": 10**3, "m": 10**6, "g": 10**9}
"""Of records, not of bytes."""


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """What ``rli capacity`` reports.

    Attributes:
        store: name of the store.
        records: record keys in the index.
        key_bytes: of a key as the index encodes it.
        bytes_per_entry: of one copy, everything included.
        total_bytes: of one copy of the index.
        kept_in: what they are bytes of.
        servers: how many should share it, apart from replicas.
        advice: what matters at this size.
    """

    store: str
    records: int
    key_bytes: int
    bytes_per_entry: float
    total_bytes: int
    kept_in: str
    servers: int
    advice: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    add_command(
        app,
        capacity,
        "rli capacity --records 1e9 --key uuid --store redis",
        "rli capacity --records 50_000_000 --key integer --store lmdb",
        "rli capacity --records 3e9 --key 24 --store hbase --json",
    )


def capacity(
    records: Annotated[str, typer.Option("--records", help="Number of record keys, such as 250000, 500M or 1e9.")],
    store: Annotated[str, typer.Option("--store", help="redis, hbase, lmdb, or a store of another package.")],
    key: Annotated[
        str, typer.Option("--key", help="uuid, integer, or the number of bytes of a key's string.")
    ] = "uuid",
    as_json: JsonOption = False,
) -> None:
    """Estimate the memory or disk space of an index in a store.

    The figures were measured with this version; docs/stores has a page for each store.
    """
    count = _count(records)
    width = _key_width(key, count)
    estimated = estimate_capacity(store, count, width)
    found = CapacityReport(
        store=store,
        records=count,
        key_bytes=width,
        bytes_per_entry=round(estimated.bytes_per_entry, 1),
        total_bytes=round(count * estimated.bytes_per_entry),
        kept_in=estimated.kept_in,
        servers=estimated.servers,
        advice=estimated.advice,
    )
    report(found, as_json=as_json, render=lambda: _print(found))


def _print(found: CapacityReport) -> None:
    print_facts(
        {
            "records": found.records,
            "encoded key": f"{found.key_bytes} bytes",
            "entry": f"{found.bytes_per_entry} bytes of {found.kept_in}, everything included",
            "index": f"{human_bytes(found.total_bytes)} of {found.kept_in}, for each copy",
            "servers": f"{found.servers} (apart from replicas)",
        }
    )
    for sentence in found.advice:
        typer.echo(f"- {sentence}")


def _count(text: str) -> int:
    digits, unit = (text[:-1], text[-1].lower()) if text[-1:].lower() in _UNITS else (text, "")
    try:
        number = float(digits) * _UNITS.get(unit, 1)
    except ValueError:
        number = -1.0
    if not number >= 1 or number == float("inf"):
        raise SettingsError(f"not a number of records: records={text}", remedy="write it as 250000, 500M or 1e9")
    return round(number)


def _key_width(text: str, records: int) -> int:
    """Bytes of an encoded key (``rli.codec.record_keys``)."""
    if text == "uuid":
        return _UUID_WIDTH
    if text == "integer":
        return _KIND_WIDTH + (records.bit_length() + 7) // 8
    if not re.fullmatch(r"[1-9]\d{0,5}", text):
        raise SettingsError(
            f"not a kind of key: key={text}", remedy="use uuid, integer, or the bytes of its string, as in 24"
        )
    return _KIND_WIDTH + int(text)
