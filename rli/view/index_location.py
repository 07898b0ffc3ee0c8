"""Where a table's own index is: in the table's folder, under a URL that moves with it."""

from __future__ import annotations

import json
import os
import posixpath
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from rli.errors import SettingsError
from rli.index_urls import IndexUrl
from rli.settings import TableSettings
from rli.storage import Storage
from rli.urls import StoredUrl
from rli.view import paths

_STORED: Final = f"lmdb:{paths.INDEX}"
"""URL of such an index as it is stored, relative to the table."""

_MOST_PARSED: Final = 64
"""Contents of settings whose meaning is kept in memory: each write reads the settings four times, each look-up twice."""


def own_index_url(storage: Storage) -> str:
    """URL of the index in the folder of a table on this machine."""
    return f"lmdb://{quote(posixpath.join(os.path.realpath(storage.root), paths.INDEX))}"


def default_index_url(storage: Storage) -> str:
    """Where the index of a table is if nobody says: in its folder.

    Raises:
        SettingsError: the table is not on this machine.
    """
    if not storage.is_local:
        raise SettingsError(
            f"a table that is not on this machine needs an explicit index: path={storage.location}",
            remedy="give index=URL, for example redis://host:6379/0",
        )
    return own_index_url(storage)


def is_in_table(storage: Storage, index_url: str) -> bool:
    """Whether an index is in the folder of its table."""
    return storage.is_local and IndexUrl.parse(index_url).store == own_index_url(storage)


def to_stored(storage: Storage, settings: TableSettings) -> bytes:
    """The settings as they are stored with the table."""
    if not is_in_table(storage, settings.index_url):
        return settings.to_json()
    own = IndexUrl.parse(settings.index_url).at(_STORED).full
    return settings.model_copy(update={"index_url": own}).to_json()


def from_stored(storage: Storage, content: bytes) -> tuple[TableSettings, StoredUrl]:
    """The settings that are stored with a table, and the URL of its index with the password that may be stored there.

    Earlier versions stored passwords.

    Raises:
        SettingsError: the settings are damaged.
    """
    settings, named = _parsed(content)
    if named.store == _STORED or _was_own(storage, named.store):
        settings = _with_index_in_table(content, own_index_url(storage))
        return settings, StoredUrl(settings.index_url)
    return settings, StoredUrl(json.loads(content)["index_url"])


@lru_cache(_MOST_PARSED)
def _parsed(content: bytes) -> tuple[TableSettings, IndexUrl]:
    settings = TableSettings.from_json(content)
    return settings, IndexUrl.parse(settings.index_url)


@lru_cache(_MOST_PARSED)
def _with_index_in_table(content: bytes, own_url: str) -> TableSettings:
    settings, named = _parsed(content)
    return settings.model_copy(update={"index_url": named.at(own_url).full})


def _was_own(storage: Storage, index_url: str) -> bool:
    """Whether a URL names the index in the table's folder by a place that the table had before.

    Earlier versions stored the whole path.
    """
    parts = urlsplit(index_url)
    is_default = parts.scheme == "lmdb" and unquote(parts.path).endswith(f"/{paths.INDEX}")
    return is_default and storage.is_local and storage.exists(paths.INDEX)
