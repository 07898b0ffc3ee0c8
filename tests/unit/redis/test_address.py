"""A Redis URL is understood in all its forms, and one that is not says why without telling a password."""

from __future__ import annotations

import traceback

import pytest

from rli.errors import SettingsError
from rli_redis.address import PASSWORD_VARIABLE, Kind, parse_address


@pytest.fixture(autouse=True)
def _no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("url", "kind", "hosts", "db", "is_encrypted"),
    [
        ("redis://h", Kind.SERVER, [("h", 6379)], 0, False),
        ("redis://h:7/3", Kind.SERVER, [("h", 7)], 3, False),
        ("redis://h?db=3", Kind.SERVER, [("h", 6379)], 3, False),
        ("redis://[::1]:7/", Kind.SERVER, [("::1", 7)], 0, False),
        ("rediss://h:7/0", Kind.SERVER, [("h", 7)], 0, True),
        ("redis+shards://a:1,b,c:3/2", Kind.SHARDS, [("a", 1), ("b", 6379), ("c", 3)], 2, False),
        ("redis+shards://h:1,h:2", Kind.SHARDS, [("h", 1), ("h", 2)], 0, False),
        ("rediss+shards://a,b", Kind.SHARDS, [("a", 6379), ("b", 6379)], 0, True),
        ("redis+cluster://a:1,b:2", Kind.CLUSTER, [("a", 1), ("b", 2)], 0, False),
        ("rediss+cluster://a/", Kind.CLUSTER, [("a", 6379)], 0, True),
        ("redis://a,b:1/2?sentinel=trips", Kind.SENTINEL, [("a", 26379), ("b", 1)], 2, False),
        ("rediss://a?sentinel=trips", Kind.SENTINEL, [("a", 26379)], 0, True),
    ],
)
def test_where_the_servers_are(
    url: str, kind: Kind, hosts: list[tuple[str, int]], db: int, *, is_encrypted: bool
) -> None:
    address = parse_address(url)
    assert (address.kind, list(address.hosts), address.options.db) == (kind, hosts, db)
    assert address.is_encrypted == is_encrypted
    assert (address.url, address.public_url, address.socket_path) == (url, url, None)
    assert (address.username, address.password) == (None, None)


def test_a_socket() -> None:
    address = parse_address("unix:///var/run/my%20redis.sock?db=2&name=trips")
    assert (address.kind, address.hosts, address.socket_path) == (Kind.SERVER, (), "/var/run/my redis.sock")
    assert (address.options.db, address.options.name) == (2, "trips")


@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix", "redis+shards", "rediss+shards", "redis+cluster"])
def test_user_and_password_are_known_and_not_shown(scheme: str) -> None:
    rest = "/path" if scheme == "unix" else "a:1"
    address = parse_address(f"{scheme}://us%40er:pass%3A%2F%40word@{rest}")
    assert (address.username, address.password) == ("us@er", "pass:/@word")
    assert address.public_url == f"{scheme}://us%40er:***@{rest}"
    assert parse_address(f"{scheme}://:secret@{rest}").public_url == f"{scheme}://:***@{rest}"
    assert "secret" not in repr(parse_address(f"{scheme}://:secret@{rest}"))


def test_a_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "secret")
    assert parse_address("redis://user@h").password == "secret"  # noqa: S105  (the test's own)
    assert parse_address("redis://user:other@h").password == "other"  # noqa: S105


def test_options() -> None:
    address = parse_address(
        "rediss://h/?name=a.b-c:d_1&timeout=1.5&allow_eviction=true&ssl_ca_certs=/ca.pem&ssl_check_hostname=false"
    )
    options = address.options
    assert (options.name, options.timeout, options.allow_eviction) == ("a.b-c:d_1", 1.5, True)
    connection = address.connection_options()
    assert (connection["ssl_ca_certs"], connection["ssl_check_hostname"]) == ("/ca.pem", False)
    assert (connection["ssl_cert_reqs"], connection["socket_timeout"]) == ("required", 0.5)
    assert parse_address("redis://h?timeout=300").connection_options()["socket_timeout"] == 10


def test_connections_without_tls_get_no_options_of_it() -> None:
    assert not [name for name in parse_address("redis://h").connection_options() if name.startswith("ssl")]
    assert parse_address("redis+cluster://h").connection_options()["ssl"] is False


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://", "a host is missing"),
        ("redis://a,b", "one server has one host"),
        ("redis+shards://a,b,a:6379", "named twice"),
        ("redis+shards://a,,b", "a host is missing"),
        ("redis://h:x", "no number"),
        ("redis://h:65536", "no number"),
        ("redis://h/x", "db"),
        ("redis://h/-1", "db"),
        ("redis://h/0#part", "fragment"),
        ("redis+cluster://h/1", "one database"),
        ("redis+cluster://h?db=1", "one database"),
        ("unix://", "path of the socket"),
        ("unix:///", "path of the socket"),
        ("redis://h?nonsense=1", "nonsense"),
        ("redis://h?name", "redis://host:port/db"),
        ("redis://h?name=", "name"),
        ("redis://h?name=a/b", "name"),
        ("redis://h?name=" + "n" * 65, "name"),
        ("redis://h?timeout=0", "timeout"),
        ("redis://h?allow_eviction=perhaps", "allow_eviction"),
        ("rediss://h?ssl_cert_reqs=maybe", "ssl_cert_reqs"),
        ("redis://h?ssl_ca_certs=/ca.pem", "ssl_ca_certs has no meaning without TLS"),
        ("unix:///path?ssl_check_hostname=false", "ssl_check_hostname has no meaning"),
        ("redis+cluster://h?ssl_cert_reqs=none", "ssl_cert_reqs has no meaning"),
        ("redis://h?sentinel=", "sentinel"),
        ("redis+cluster://h?sentinel=trips", "sentinels tell of one server"),
        ("unix:///path?sentinel=trips", "sentinels tell of one server"),
        ("http://h", "redis://host:port/db"),
    ],
)
def test_what_is_no_address(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        parse_address(url)


@pytest.mark.parametrize(
    "url", ["redis://user:secret", "redis://user:secret/h", "redis://:secret@h:x", "redis+cluster://u:secret@h/1"]
)
def test_no_error_tells_the_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_address(url)
    assert "secret" not in "".join(traceback.format_exception(caught.value, chain=True)).replace(url, "")
    assert "secret" not in str(caught.value)
