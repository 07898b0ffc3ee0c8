"""Store URLs: what is shown of them, what is stored, and what is said of those that cannot be opened."""

from __future__ import annotations

import traceback

import pytest

import rli
from rli.store.registry import open_store
from rli.urls import has_secrets, without_password, without_secrets


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:s3cret@host:6379/0?name=x", "redis://user:***@host:6379/0?name=x"),
        ("redis+shards://:s3cret@a:1,b:2/3", "redis+shards://:***@a:1,b:2/3"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://user@host/0", "redis://user@host/0"),
        ("lmdb:///data/a:b@c", "lmdb:///data/a:b@c"),
        ("memory:name", "memory:name"),
        ("unix://:s3cret@/path?db=1", "unix://:***@/path?db=1"),
        ("redis://host?name=x&password=s3cret&auth_token=s3cret", "redis://host?name=x&password=***&auth_token=***"),
        ("rediss://host?ssl_keyfile=/path", "rediss://host?ssl_keyfile=/path"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("redis://user:s3cret@host:6379/0?name=x", "redis://user@host:6379/0?name=x"),
        ("redis+shards://:s3cret@a:1,b:2/3", "redis+shards://a:1,b:2/3"),
        ("unix://:s3cret@/path?db=1", "unix:///path?db=1"),
        ("redis://host?name=x&password=s3cret", "redis://host?name=x"),
        ("redis://host?password=s3cret", "redis://host"),
        ("lmdb:///data/a:b@c", "lmdb:///data/a:b@c"),
        ("lmdb:.hoodie/.rli/index", "lmdb:.hoodie/.rli/index"),
    ],
)
def test_a_password_is_not_stored(url: str, stored: str) -> None:
    assert without_secrets(url) == stored
    assert has_secrets(url) == (url != stored)
    assert not has_secrets(stored)


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:s3cret",
        "redis://user:s3cret/rest@host",
        "redis://user:s3cret#rest@host",
        "redis://user:s3cret?rest@host",
        "redis://user:s3cret[@host",
        "redis://user:1s3cret:@host:x",
        "redis:user:s3cret@host",
        "redis://user:9999999s3cret@host:99999/0",
    ],
)
def test_unparsable_url_shows_only_scheme(url: str) -> None:
    assert without_password(url) == without_secrets(url) == "redis:***"
    with pytest.raises(rli.SettingsError) as caught:
        open_store(url)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value)).replace(url, "")


def test_string_without_scheme_is_hidden() -> None:
    assert without_password("user:s3cret@host:1/0") == "user:***"
    assert without_password("user@host:s3cret@") == "***"


def test_unknown_scheme_hides_password() -> None:
    with pytest.raises(rli.SettingsError, match="floppy") as caught:
        open_store("floppy://user:s3cret@host")
    assert "s3cret" not in str(caught.value)
