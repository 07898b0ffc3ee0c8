"""A Redis URL is understood in all its forms, and one that is not says why without telling a password."""

from __future__ import annotations

import pickle
import traceback
from pathlib import Path

import pytest

from rli.errors import SettingsError
from rli.store.credentials import VARIABLE as CREDENTIALS_VARIABLE
from rli.urls import StoredUrl
from rli_redis.log_in import HOSTS_VARIABLE, PASSWORD_VARIABLE, SENTINEL_PASSWORD_VARIABLE
from rli_redis.url import Address, Kind, parse_address


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of credentials, which is not there yet; the environment has no password."""
    for variable in (PASSWORD_VARIABLE, SENTINEL_PASSWORD_VARIABLE, HOSTS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(CREDENTIALS_VARIABLE, str(tmp_path / "credentials.toml"))
    return tmp_path / "credentials.toml"


def password_of(address: Address) -> str | None:
    return None if address.password is None else address.password.get_secret_value()


def write(credentials: Path, content: str) -> None:
    credentials.touch(mode=0o600)
    credentials.write_text(content)


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
def test_user_and_password_are_hidden(scheme: str) -> None:
    rest = "/path" if scheme == "unix" else "a:1"
    address = parse_address(f"{scheme}://us%40er:pass%3A%2F%40word@{rest}")
    assert (address.username, password_of(address)) == ("us@er", "pass:/@word")
    assert address.public_url == f"{scheme}://us%40er:***@{rest}"
    assert parse_address(f"{scheme}://:s3cret@{rest}").public_url == f"{scheme}://:***@{rest}"
    assert "s3cret" not in repr(parse_address(f"{scheme}://:s3cret@{rest}"))


def test_a_password_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
    assert password_of(parse_address("redis://user@h")) == "s3cret"
    assert password_of(parse_address("redis://user:other@h")) == "other"


@pytest.mark.parametrize("scheme", ["redis", "rediss", "unix", "redis+shards", "redis+cluster"])
def test_server_from_table_gets_no_password(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
    monkeypatch.setenv(SENTINEL_PASSWORD_VARIABLE, "s3cret")
    url = StoredUrl("unix:///path" if scheme == "unix" else f"{scheme}://user@h:7")
    assert "s3cret" not in str(parse_address(url).connection_options())
    monkeypatch.setenv(HOSTS_VARIABLE, "other:7, /other")
    assert "s3cret" not in str(parse_address(url).connection_options())
    monkeypatch.setenv(HOSTS_VARIABLE, "other:7, H:7, /path")
    assert password_of(parse_address(url)) == "s3cret"
    assert password_of(parse_address(StoredUrl("redis://user:own@elsewhere"))) == "own"


def test_every_server_must_be_named(monkeypatch: pytest.MonkeyPatch, credentials: Path) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, "s3cret")
    monkeypatch.setenv(HOSTS_VARIABLE, "good,[::1],good:7")
    write(credentials, '["good:6379"]\npassword = "s3cret"\n')
    for named in ("redis://good", "redis://good:7", "redis+cluster://good,good:7", "redis://[::1]:6379"):
        assert password_of(parse_address(StoredUrl(named))) == "s3cret"
    for url in ("redis+cluster://good,evil", "redis+shards://evil,good", "redis://good:1", "redis://evil.good"):
        assert password_of(parse_address(StoredUrl(url))) is None
    sentinels = parse_address(StoredUrl("redis://good:6379,evil?sentinel=trips"))
    assert (sentinels.password, sentinels.sentinel_password) == (None, None)


def test_file_credentials_go_to_their_server(credentials: Path) -> None:
    write(
        credentials,
        """
        ["trips.example:6379"]
        username = "writer"
        password = "s3cret"
        ["s1:26379"]
        password = "s3cret"
        sentinel_password = "guard"
        ["/run/redis.sock"]
        password = "s3cret"
        """,
    )
    address = parse_address(StoredUrl("redis://Trips.example/0?name=x"))
    assert (address.username, password_of(address)) == ("writer", "s3cret")
    assert parse_address(StoredUrl("redis://reader@trips.example")).username == "reader"
    assert password_of(parse_address("unix:///run/redis.sock")) == "s3cret"
    told = parse_address(StoredUrl("redis://s1?sentinel=trips"))
    assert told.sentinel_password is not None
    assert (password_of(told), told.sentinel_password.get_secret_value()) == ("s3cret", "guard")
    assert password_of(parse_address("unix:///run/REDIS.sock")) is None
    assert password_of(parse_address("redis://trips.example.evil")) is None
    assert password_of(parse_address("redis://trips.example:6380")) is None


def test_tls_credentials_need_checked_tls(credentials: Path) -> None:
    write(credentials, '["h:6379"]\npassword = "s3cret"\ntls = true\n')
    assert password_of(parse_address(StoredUrl("rediss://h"))) == "s3cret"
    assert password_of(parse_address("rediss://h?ssl_ca_certs=/ca.pem")) == "s3cret"
    for url in ("redis://h", "rediss://h?ssl_cert_reqs=none", "rediss://h?ssl_check_hostname=false"):
        with pytest.raises(SettingsError, match="TLS with a checked certificate"):
            parse_address(url)
    with pytest.raises(SettingsError, match="--index"):
        parse_address(StoredUrl("rediss://h?ssl_ca_certs=/table/ca.pem"))


def test_differing_credentials_are_refused(credentials: Path) -> None:
    write(credentials, '["a:6379"]\npassword = "s3cret1"\n["b:6379"]\npassword = "s3cret2"\n')
    with pytest.raises(SettingsError, match="different credentials") as caught:
        parse_address("redis+shards://a,b")
    assert "s3cret" not in str(caught.value)


def test_pickled_address_keeps_its_login(monkeypatch: pytest.MonkeyPatch, credentials: Path) -> None:
    write(credentials, '["h:6379"]\nusername = "u"\npassword = "s3cret"\n')
    travelling = pickle.dumps(parse_address(StoredUrl("redis://h")))
    monkeypatch.setenv(PASSWORD_VARIABLE, "other")
    credentials.unlink()
    arrived = pickle.loads(travelling)  # noqa: S301  (the test's own)
    assert (arrived.username, password_of(arrived)) == ("u", "s3cret")
    assert "s3cret" not in repr(arrived)


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


def test_plain_connections_get_no_tls_options() -> None:
    assert not [name for name in parse_address("redis://h").connection_options() if name.startswith("ssl")]
    assert parse_address("redis+cluster://h").connection_options()["ssl"] is False


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://", "a host is missing"),
        ("redis://a,b", "a single server has a single host"),
        ("redis+shards://a,b,a:6379", "named twice"),
        ("redis+shards://a,,b", "a host is missing"),
        ("redis://h:x", "not a number"),
        ("redis://h:65536", "not a number"),
        ("redis://h/x", "db"),
        ("redis://h/-1", "db"),
        ("redis://h/0#part", "fragment"),
        ("redis+cluster://h/1", "a single database"),
        ("redis+cluster://h?db=1", "a single database"),
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
        ("redis+cluster://h?sentinel=trips", "sentinels name a single server"),
        ("unix:///path?sentinel=trips", "sentinels name a single server"),
        ("http://h", "redis://host:port/db"),
    ],
)
def test_what_is_no_address(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        parse_address(url)


@pytest.mark.parametrize(
    "url", ["redis://user:s3cret", "redis://user:s3cret/h", "redis://:s3cret@h:x", "redis+cluster://u:s3cret@h/1"]
)
def test_no_error_tells_the_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_address(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value, chain=True)).replace(url, "")
    assert "s3cret" not in str(caught.value)
