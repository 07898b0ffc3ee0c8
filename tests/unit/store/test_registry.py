"""Store URLs: what is shown of them, and what is said of those that cannot be opened."""

from __future__ import annotations

import pytest

import rli
from rli.store.registry import open_store, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:secret@host:6379/0?name=x", "redis://user:***@host:6379/0?name=x"),
        ("redis+shards://:secret@a:1,b:2/3", "redis+shards://:***@a:1,b:2/3"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://user@host/0", "redis://user@host/0"),
        ("lmdb:///data/a:b@c", "lmdb:///data/a:b@c"),
        ("memory:name", "memory:name"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown


def test_an_unknown_scheme_is_named_without_its_password() -> None:
    with pytest.raises(rli.SettingsError, match="floppy") as caught:
        open_store("floppy://user:secret@host")
    assert "secret" not in str(caught.value)
