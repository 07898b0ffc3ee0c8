"""Where an index is: the URL of a Redis store, taken apart and validated.

==================================  =====================================================
``redis://host:port/db``            one server; ``rediss://`` with TLS
``redis://h1:p1,h2:p2/db?           the same, where it is told by sentinels, whose addresses these are; ``rediss://``
sentinel=service``                  with TLS to them, too
``unix:///path?db=0``               one server, through its socket
``redis+shards://h1:p1,h2:p2/db``   several independent servers (``rediss+shards://``)
``redis+cluster://h1:p1,h2:p2``     a Redis Cluster, some of its nodes (``rediss+cluster://``)
==================================  =====================================================

``user:password@`` may stand before the hosts. ``rli_redis.log_in`` says where a password comes from that is not there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Annotated, Any, Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import Field, SecretStr

from rli.errors import SettingsError
from rli.store import DEFAULT_DEADLINE_SECONDS, StoredSettings, StoredUrl, parse_url, without_password
from rli_redis.log_in import log_in
from rli_redis.segments import MAX_PREFIX_WIDTH

_DEFAULT_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379
_SOCKET_TIMEOUT_SECONDS: Final = 10.0
_ATTEMPTS_IN_A_TIMEOUT: Final = 3
# Most answers have hundreds of kilobytes: the client library's 64 are many calls.
_BYTES_PER_READ: Final = 1 << 18


class Kind(Enum):
    """What stands behind a URL."""

    SERVER = "server"
    SENTINEL = "sentinel"
    SHARDS = "shards"
    CLUSTER = "cluster"


_SCHEMES: Final = {
    "redis": Kind.SERVER,
    "rediss": Kind.SERVER,
    "unix": Kind.SERVER,
    "redis+shards": Kind.SHARDS,
    "rediss+shards": Kind.SHARDS,
    "redis+cluster": Kind.CLUSTER,
    "rediss+cluster": Kind.CLUSTER,
}


class Options(StoredSettings):
    """What may stand in the query of the URL.

    Attributes:
        name: tells the indexes of one database apart.
        db: the database's number; may stand in the URL's path instead.
        sentinel: the name by which sentinels know the server; the hosts are theirs then.
        timeout: seconds that one call to the servers may take, all attempts together.
        allow_eviction: use a server that may evict the index's keys when its memory is full.
        prefix: when the index is made: by how many first bytes of its keys they are found; 0 for whole keys alone.
        ssl_ca_certs: file of the certificates that the server's one is checked against.
        ssl_certfile: file of the client's certificate.
        ssl_keyfile: file of the client's key.
        ssl_cert_reqs: "none" accepts any certificate.
        ssl_check_hostname: whether the certificate must be of the host's name.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = "default"
    db: Annotated[int, Field(ge=0)] = 0
    sentinel: Annotated[str, Field(min_length=1)] | None = None
    timeout: Annotated[float, Field(gt=0)] = DEFAULT_DEADLINE_SECONDS
    allow_eviction: bool = False
    prefix: Annotated[int, Field(ge=0, le=MAX_PREFIX_WIDTH)] = 0
    ssl_ca_certs: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_cert_reqs: Literal["none", "optional", "required"] = "required"
    ssl_check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Address:
    """A Redis URL in parts.

    Attributes:
        url: the URL as it was given.
        kind: what stands behind it.
        hosts: host and port of each server, or of each sentinel; empty for a Unix socket.
        socket_path: of a Unix socket.
        username: None for the default user.
        password: None where none is known for these servers.
        sentinel_password: None where none is known for the sentinels.
        is_encrypted: whether connections use TLS.
        options: the query.
    """

    url: str = field(repr=False)
    kind: Kind
    hosts: tuple[tuple[str, int], ...]
    socket_path: str | None
    username: str | None
    password: SecretStr | None
    sentinel_password: SecretStr | None
    is_encrypted: bool
    options: Options

    @property
    def public_url(self) -> str:
        """The URL without its password, for messages."""
        return without_password(self.url)

    @property
    def servers(self) -> list[str]:
        """What credentials are bound to: ``host:port`` of each server or sentinel, or the path of the socket."""
        if self.socket_path is not None:
            return [self.socket_path]
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts]

    @property
    def has_checked_certificates(self) -> bool:
        """Whether nobody between here and the servers reads what is sent; a table may name no CA of its own for that."""
        is_foreign_ca = isinstance(self.url, StoredUrl) and self.options.ssl_ca_certs is not None
        is_checked = self.options.ssl_cert_reqs == "required" and self.options.ssl_check_hostname
        return self.is_encrypted and is_checked and not is_foreign_ca

    def connection_options(self) -> dict[str, Any]:
        """Arguments of redis-py's connections, apart from host and port."""
        timeout = min(self.options.timeout / _ATTEMPTS_IN_A_TIMEOUT, _SOCKET_TIMEOUT_SECONDS)
        options: dict[str, Any] = {
            "username": self.username,
            "password": self.password and self.password.get_secret_value(),
            "socket_timeout": timeout,
            "socket_connect_timeout": timeout,
            "socket_read_size": _BYTES_PER_READ,
            "client_name": "rli",
            "protocol": 2,
        }
        if self.kind is Kind.CLUSTER:
            options["ssl"] = self.is_encrypted
        else:
            options["db"] = self.options.db
        if self.is_encrypted:
            options |= self.options.model_dump(include={name for name in Options.model_fields if name[:4] == "ssl_"})
        return options


def parse_address(url: str) -> Address:
    """Take a Redis URL apart.

    Raises:
        SettingsError: the URL is not one of a Redis store, or an option is unknown or wrong; or the file of credentials
            is damaged.
    """
    try:
        parts = parse_url(url)
        address = _address(url, _SCHEMES[parts.scheme], parts)
    except (KeyError, ValueError) as error:
        raise SettingsError(
            f"not a URL of a Redis store ({error})",
            remedy=(
                "use redis://host:port/db, rediss://, unix:///path, redis+shards://host:port,host:port/db or "
                "redis+cluster://host:port"
            ),
        ) from None
    return _with_log_in(address)


def _address(url: str, kind: Kind, parts: SplitResult) -> Address:
    if parts.fragment:
        raise ValueError("a fragment has no meaning here")
    is_socket = parts.scheme == "unix"
    user, _, hosts = parts.netloc.rpartition("@")
    username, _, password = (unquote(part) for part in user.partition(":"))
    options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    path = unquote(parts.path).strip("/")
    if not is_socket and path:
        options["db"] = path
    if kind is Kind.CLUSTER and "db" in options:
        raise ValueError("a Redis Cluster has a single database, and no number in its URL")
    if is_socket and not path:
        raise ValueError("the path of the socket is missing")
    is_encrypted = parts.scheme.startswith("rediss")
    if not is_encrypted and (unused := sorted(name for name in options if name.startswith("ssl_"))):
        raise ValueError(f"{unused[0]} has no meaning without TLS; use rediss, or leave it out")
    if "sentinel" in options:
        kind = _told_by_sentinels(parts.scheme)
    return Address(
        url=url,
        kind=kind,
        hosts=() if is_socket else _hosts(hosts, kind),
        socket_path=unquote(parts.path) if is_socket else None,
        username=username or None,
        password=SecretStr(password) if password else None,
        sentinel_password=None,
        is_encrypted=is_encrypted,
        options=_options(options, url),
    )


def _options(options: dict[str, str], url: str) -> Options:
    unknown = sorted(options.keys() - Options.model_fields.keys())
    if unknown:
        raise SettingsError(
            f"unknown option: option={unknown[0]} url={without_password(url)}",
            remedy=f"known options: {', '.join(sorted(Options.model_fields))}",
        )
    try:
        return Options.of(**options)
    except SettingsError as error:
        raise SettingsError(
            f"an option of the URL is wrong: url={without_password(url)} ({error})", remedy="see docs/stores/redis.md"
        ) from error


def _with_log_in(address: Address) -> Address:
    """The address with what logs in to its servers."""
    login = log_in(address.url, address.servers, address.username, address.password)
    if login.needs_tls and not address.has_checked_certificates:
        raise SettingsError(
            f"the credentials of this server are for TLS with a checked certificate: store={address.public_url}",
            remedy="use rediss:// without ssl_cert_reqs and ssl_check_hostname; if the URL has ssl_ca_certs, pass it with --index",
        )
    return replace(
        address,
        username=login.username,
        password=login.password,
        sentinel_password=login.sentinel_password,
    )


def _told_by_sentinels(scheme: str) -> Kind:
    if scheme not in ("redis", "rediss"):
        raise ValueError("sentinels name a single server: use redis:// or rediss:// with sentinel=")
    return Kind.SENTINEL


def _hosts(netloc: str, kind: Kind) -> tuple[tuple[str, int], ...]:
    found: list[tuple[str, int]] = []
    for item in netloc.split(","):
        parts = urlsplit(f"//{item}")
        if not parts.hostname:
            raise ValueError("a host is missing")
        found.append((parts.hostname, parts.port or (_SENTINEL_PORT if kind is Kind.SENTINEL else _DEFAULT_PORT)))
    if kind is Kind.SERVER and len(found) > 1:
        raise ValueError("a single server has a single host; for several use redis+shards:// or redis+cluster://")
    if len(set(found)) < len(found):
        raise ValueError("a host is named twice")
    return tuple(found)
