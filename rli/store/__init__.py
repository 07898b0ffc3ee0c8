"""What the author of a store needs, all of it imported from here.

* The contract: ``Store``, with ``StoreStats`` and ``Watermarks``; keys (``EncodedKeys``) and entries (``Entries``)
  as arrays, and the functions that read entries.
* Capabilities that a store may have beside the contract: ``SupportsHealth``, ``SupportsHome``,
  ``SupportsReadOnlyMedia``, ``SupportsPurge``, ``SupportsLives``, and a ``CapacityEstimate``.
* Helpers: URLs and their secrets, credentials, ``Retries`` of calls over a network.
* ``open_store``, which opens any store by its URL.

Errors come from ``rli`` itself (``rli.StoreUnavailableError``, …); ``rli.testing`` proves a store. docs/stores/your-own.md
is the guide. Names of modules below this one are private.
"""

from __future__ import annotations

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import (
    ABSENT,
    ENTRY_WIDTH,
    MAX_FILE_GROUP,
    MAX_SEQUENCE,
    TOMBSTONE,
    Entries,
    file_groups,
    is_live,
    is_old_tombstone,
    pack,
    sequences,
    supersedes,
)
from rli.findings import Finding, Verdict
from rli.settings import IndexSettings, StoredSettings
from rli.store.capacity import Capacity, CapacityEstimate
from rli.store.contract import APPLIED, SETTINGS, Store, StoreStats, Watermarks, keys_that_begin, sequence_in
from rli.store.credentials import Credentials, as_server, credentials_for
from rli.store.health import SupportsHealth
from rli.store.home import SupportsHome, SupportsReadOnlyMedia, home_of_file
from rli.store.lives import SupportsLives
from rli.store.purging import SupportsPurge
from rli.store.registry import StoreOpener, open_store
from rli.store.retries import DEFAULT_DEADLINE_SECONDS, Retries
from rli.urls import StoredUrl, parse_url, with_option, without_option, without_password

__all__ = [
    "ABSENT",
    "APPLIED",
    "DEFAULT_DEADLINE_SECONDS",
    "ENTRY_WIDTH",
    "MAX_FILE_GROUP",
    "MAX_SEQUENCE",
    "SETTINGS",
    "TOMBSTONE",
    "Capacity",
    "CapacityEstimate",
    "Credentials",
    "EncodedKeys",
    "Entries",
    "Finding",
    "IndexSettings",
    "Retries",
    "Store",
    "StoreOpener",
    "StoreStats",
    "StoredSettings",
    "StoredUrl",
    "SupportsHealth",
    "SupportsHome",
    "SupportsLives",
    "SupportsPurge",
    "SupportsReadOnlyMedia",
    "Verdict",
    "Watermarks",
    "as_server",
    "credentials_for",
    "file_groups",
    "home_of_file",
    "is_live",
    "is_old_tombstone",
    "keys_that_begin",
    "open_store",
    "pack",
    "parse_url",
    "sequence_in",
    "sequences",
    "supersedes",
    "with_option",
    "without_option",
    "without_password",
]
