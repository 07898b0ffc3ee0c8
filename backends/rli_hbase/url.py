"""What a URL of the HBase store says: ``hbase://host:port[,host:port…]/?table=…``."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from rli.errors import SettingsError
from rli.store import DEFAULT_DEADLINE_SECONDS, StoredSettings, without_password
from rli_hbase.keyspace import MAX_PREFIX_WIDTH

_FORM: Final = "hbase://host:port/?table=name"
_DEFAULT_PORT: Final = 9090
_ATTEMPTS_IN_A_DEADLINE: Final = 3
_CONTROL_TABLE: Final = "_rli"


class ThriftServer(NamedTuple):
    """Where one Thrift server listens."""

    host: str
    port: int


class HbaseSettings(StoredSettings):
    """How to reach one index in HBase.

    Attributes:
        servers: Thrift servers of the same cluster; any of them will do.
        table: name of the index's table, with its namespace where that is not the default one.
        transport: how the Thrift servers frame messages.
        protocol: how they encode them.
        timeout: seconds that a call may take, all attempts together.
        batch: rows that one request reads or writes at most.
        ops_per_second: ceiling on the rows that all processes together read and write in a second; None: no ceiling.
        prefix: when the index is made: by how many first bytes of its keys they are found; 0 for whole keys alone.
        schema_: ``rli``, or ``hudi`` for a table that is also the HBase index of Apache Hudi's own writers.
    """

    servers: Annotated[tuple[ThriftServer, ...], Field(min_length=1)]
    table: Annotated[str, Field(pattern=r"^([A-Za-z0-9_]+:)?[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
    transport: Literal["buffered", "framed"] = "buffered"
    protocol: Literal["binary", "compact"] = "binary"
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = DEFAULT_DEADLINE_SECONDS
    batch: Annotated[int, Field(ge=1, le=100_000)] = 1000
    ops_per_second: Annotated[int, Field(ge=1)] | None = None
    prefix: Annotated[int, Field(ge=0, le=MAX_PREFIX_WIDTH)] = 0
    schema_: Annotated[Literal["rli", "hudi"], Field(alias="schema")] = "rli"

    @property
    def table_name(self) -> bytes:
        """The table's name as Thrift takes it."""
        return self.table.encode("ascii")

    @property
    def location(self) -> str:
        """Servers and table, for messages."""
        servers = ",".join(f"{host}:{port}" for host, port in self.servers)
        return f"hbase://{servers}/?table={self.table}"

    @property
    def of_control_table(self) -> Self:
        """The same of the table beside one in Hudi's schema, which holds what that schema has no place for."""
        return self.model_copy(update={"table": f"{self.table}{_CONTROL_TABLE}"})

    @property
    def attempt_seconds(self) -> float:
        """How long one attempt waits for an answer, so that there is time for another."""
        return self.timeout / _ATTEMPTS_IN_A_DEADLINE

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Read a URL; raises ``SettingsError`` that names what is wrong with it."""
        parts = urlsplit(url)
        if "@" in parts.netloc:
            # The URL is not repeated: what stands there may be a secret.
            raise SettingsError("the URL names a user, but HBase's Thrift server has no log-in", remedy=f"use {_FORM}")
        if parts.path not in {"", "/"} or parts.fragment or not parts.netloc:
            raise SettingsError(f"not a URL of an HBase store: url={without_password(url)}", remedy=f"use {_FORM}")
        servers = tuple(_server(item, url) for item in parts.netloc.split(","))
        return cls.of(servers=servers, **_options(parts.query, url))


# ``schema`` is a name that pydantic keeps to itself.
_OPTIONS: Final = tuple(
    sorted(field.alias or name for name, field in HbaseSettings.model_fields.items() if name != "servers")
)


def _server(text: str, url: str) -> ThriftServer:
    host, _, port = text.partition(":")
    if not host or not (port or str(_DEFAULT_PORT)).isdecimal() or int(port or _DEFAULT_PORT) > 0xFFFF:
        raise SettingsError(
            f"not a Thrift server: server={text} url={without_password(url)}",
            remedy="name each as host:port, separated by commas",
        )
    return ThriftServer(host, int(port or _DEFAULT_PORT))


def _options(query: str, url: str) -> dict[str, str]:
    known = ", ".join(_OPTIONS)
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise SettingsError(
            f"options of the URL are not name=value pairs: url={without_password(url)}",
            remedy=f"known options: {known}",
        ) from error
    options: dict[str, str] = {}
    for name, value in pairs:
        if name not in _OPTIONS:
            raise SettingsError(
                f"unknown option: option={name} url={without_password(url)}", remedy=f"known options: {known}"
            )
        if name in options:
            raise SettingsError(
                f"an option is given twice: option={name} url={without_password(url)}", remedy="give it once"
            )
        options[name] = value
    if "table" not in options:
        raise SettingsError(f"the URL names no table: url={without_password(url)}", remedy=f"use {_FORM}")
    return options
