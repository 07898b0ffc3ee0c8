"""The kinds of index, by the scheme of a URL: the only module that knows them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rli.errors import SettingsError
from rli.index.bloom.table_index import BloomIndex
from rli.index.bucket.kind import BucketKind
from rli.index.consistent_bucket.kind import ConsistentBucketKind
from rli.index.contract import TableIndex
from rli.index.kinds import IndexKind, InMetadataTable, KeptKind
from rli.index.metadata_record.kind import MetadataRecordKind
from rli.index.record.in_process import URL as IN_PROCESS
from rli.index.record.in_process import InProcessKind
from rli.index.record.kind import RecordKind
from rli.index.simple.stand_in import StandIn
from rli.index.simple.table_index import SimpleIndex
from rli.index.table_files.kind import BareKind
from rli.index_urls import SCHEME_IN_METADATA_TABLE, IndexUrl
from rli.model import LeasePlace, Scope
from rli.store.registry import is_store_scheme
from rli.urls import without_password
from rli.view.definition import TableDefinition

_RECORD: Final = RecordKind()

_IN_PROCESS: Final = InProcessKind()

_KINDS: Final[Mapping[str, IndexKind]] = {
    "simple": BareKind("simple", Scope.PARTITION, SimpleIndex),
    "global-simple": BareKind("global-simple", Scope.GLOBAL, SimpleIndex),
    "bucket": BucketKind(),
    "bloom": BareKind("bloom", Scope.PARTITION, BloomIndex),
    "global-bloom": BareKind("global-bloom", Scope.GLOBAL, BloomIndex),
    "consistent-bucket": ConsistentBucketKind(),
    SCHEME_IN_METADATA_TABLE: MetadataRecordKind(),
}
"""The kinds whose URLs do not name a store, by scheme."""


def index_kind(url: str) -> IndexKind:
    """The kind of index that a URL names; every store's URL names the record index in that store.

    Raises:
        SettingsError: it is not text, or names neither a kind nor a place.
    """
    scheme = url.partition(":")[0]
    try:
        url.encode()
    except UnicodeEncodeError:
        raise SettingsError(f"the URL is not a Unicode string: index={url!r}", remedy="give another one") from None
    if scheme == "memory" and IndexUrl.parse(url).store == IN_PROCESS:
        return _IN_PROCESS
    if scheme not in _KINDS and "/" not in url and not is_store_scheme(scheme):
        kinds = ", ".join(f"{kind}:" for kind in (*_KINDS, "memory"))
        raise SettingsError(
            f"no such kind of index: index={without_password(url)}",
            remedy=f"choose one of {kinds}, or the URL of a store such as lmdb:///path",
        )
    return _KINDS.get(scheme, _RECORD)


def opened_in_files(table: TableDefinition) -> TableIndex:
    """The index of a table as one that finds records in the files: what the index keeps itself may not be built yet.

    Raises:
        IndexNotFoundError: it is to be in a store, and is not there.
        StoreUnavailableError: its store does not answer.
    """
    kind = index_kind(table.index_url)
    if isinstance(kind, KeptKind):
        return StandIn(table, kind.open_to_relocate(table))
    if isinstance(kind, InMetadataTable):
        return SimpleIndex(table, kind.scope_of(table.index_url))
    return kind.open(table)


def drop_unfinished(url: str, table_id: str) -> None:
    """Drop the index of a table that was never completed, if there is one; see ``KeptKind.drop_unfinished``."""
    kind = index_kind(url)
    if isinstance(kind, KeptKind):
        kind.drop_unfinished(url, table_id)


def is_kind(url: str) -> bool:
    """Whether a URL names a kind of index that needs no store."""
    return url.partition(":")[0] in _KINDS


def keeps_entries(url: str) -> bool:
    """Whether indexes of the kind that a URL names are built, and repaired; the others read the table's own files."""
    return isinstance(index_kind(url), KeptKind | InMetadataTable)


def default_lease(url: str) -> LeasePlace:
    """Where writers agree by default: in the store of the index, or in the table where the index has none."""
    return LeasePlace.INDEX if index_kind(url).has_store else LeasePlace.TABLE
