"""URLs of record indexes: the URL of a store, with options of the index in its query.

``lmdb:///data/idx/trips?scope=partition`` is the index in the store ``lmdb:///data/idx/trips`` whose record keys are
unique in their partition. The stores do not know these options.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import quote, unquote

from rli.durations import duration_string, parse_duration
from rli.errors import SettingsError
from rli.model import Scope
from rli.patterns import require_pattern
from rli.urls import StoredUrl, without_password

_SCOPE: Final = "scope"
_PARTITIONS: Final = "partitions"
_TTL: Final = "ttl"
_OPTIONS: Final = frozenset({_SCOPE, _PARTITIONS, _TTL})

_SCHEMES_OF_PARTITIONS: Final = frozenset({"simple", "bloom", "bucket", "consistent-bucket"})
"""Of kinds of index that keep record keys unique in each partition alone."""

SCHEME_IN_METADATA_TABLE: Final = "record-index"
"""Of the kind of index that is a partition of the table's metadata table."""

_SCHEMES_OF_BUCKETS: Final = frozenset({"bucket", "consistent-bucket"})

_PLAIN: Final = "/:@!$'()*,;=?[]{}|^\\"
"""Characters of a pattern that a query may hold as they are."""


@dataclass(frozen=True, slots=True)
class IndexUrl:
    """The URL of a record index in parts.

    Attributes:
        store: URL of the store; a ``StoredUrl`` where the whole one is.
        scope: where a record key is unique.
        partitions: regular expression of the whole partition paths that the index knows; None for all.
        ttl: seconds for which the index knows a key after the last commit that wrote its record; None: for ever.
    """

    store: str
    scope: Scope = Scope.GLOBAL
    partitions: str | None = None
    ttl: int | None = None

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take a URL apart.

        Raises:
            SettingsError: an option of the index is given twice, or has a value that is not known.
        """
        base, question, query = url.partition("?")
        items = query.split("&") if question else []
        own = [item for item in items if _name_of(item) in _OPTIONS]
        if not own:
            return cls(url)
        others = "&".join(item for item in items if _name_of(item) not in _OPTIONS)
        store = f"{base}?{others}" if others else base
        found = cls(
            StoredUrl(store) if isinstance(url, StoredUrl) else store,
            _scope_in(own, url),
            _pattern_in(own, url),
            _ttl_in(own, url),
        )
        found._require_possible()
        return found

    def at(self, store: str) -> Self:
        """The URL of an index with the same options in another store."""
        return replace(self, store=store)

    @property
    def full(self) -> str:
        """The URL, with the password that it may hold."""
        options = [
            *([] if self.scope is Scope.GLOBAL else [f"{_SCOPE}={self.scope}"]),
            *([] if self.partitions is None else [f"{_PARTITIONS}={quote(self.partitions, safe=_PLAIN)}"]),
            *([] if self.ttl is None else [f"{_TTL}={duration_string(self.ttl)}"]),
        ]
        if not options:
            return self.store
        return f"{self.store}{'&' if '?' in self.store else '?'}{'&'.join(options)}"

    def __str__(self) -> str:
        """The URL as it may be shown."""
        return replace(self, store=without_password(self.store)).full

    def _require_possible(self) -> None:
        if self.partitions is not None and self.scope is Scope.GLOBAL:
            raise SettingsError(
                f"an index of some partitions cannot tell whether a key is in another one: url={self}",
                remedy="add scope=partition",
            )


def is_in_metadata_table(url: str) -> bool:
    """Whether the index at a URL is a partition of the table's metadata table.

    Example:
        >>> is_in_metadata_table("record-index:?scope=partition"), is_in_metadata_table("bloom:")
        (True, False)
    """
    return url.partition(":")[0] == SCHEME_IN_METADATA_TABLE


def has_unique_keys(url: str) -> bool:
    """Whether the index at a URL keeps each record key in one place of its table.

    Example:
        >>> has_unique_keys("lmdb:///data/idx/trips"), has_unique_keys("bloom:")
        (True, False)
    """
    if url.partition(":")[0] in _SCHEMES_OF_PARTITIONS:
        return False
    found = IndexUrl.parse(url)
    # A key that has expired may come again, elsewhere.
    return found.scope is Scope.GLOBAL and found.ttl is None


def _name_of(item: str) -> str:
    return item.partition("=")[0]


def _value_of(name: str, own: list[str], url: str) -> str | None:
    values = [item.partition("=")[2] for item in own if _name_of(item) == name]
    if len(values) > 1:
        raise SettingsError(
            f"an option is given more than once: {name}={','.join(values)} url={without_password(url)}",
            remedy="give it once",
        )
    return values[0] if values else None


def _scope_in(own: list[str], url: str) -> Scope:
    values = [item.partition("=")[2] for item in own if _name_of(item) == _SCOPE]
    if len(values) > 1 or not set(values) <= set(Scope):
        raise SettingsError(
            f"the scope of an index is one of {', '.join(Scope)}: scope={','.join(values)} url={without_password(url)}",
            remedy="give one of them, or leave it out",
        )
    return Scope(values[0]) if values else Scope.GLOBAL


def _pattern_in(own: list[str], url: str) -> str | None:
    stored = _value_of(_PARTITIONS, own, url)
    if stored is None:
        return None
    try:
        pattern = unquote(stored, errors="strict")
        require_pattern(pattern)
    except (UnicodeError, ValueError) as error:
        raise SettingsError(
            f"not a regular expression: partitions={stored!r} ({error}) url={without_password(url)}",
            remedy=(
                "give one of RE2, without look-around, that matches whole partition paths, such as "
                "partitions=day=2026-11-.*"
            ),
        ) from error
    return pattern


def _ttl_in(own: list[str], url: str) -> int | None:
    stored = _value_of(_TTL, own, url)
    if stored is None:
        return None
    seconds = parse_duration(stored)
    if seconds is None:
        raise SettingsError(
            f"not a time to live: ttl={stored} url={without_password(url)}",
            remedy="give a number of days, hours, minutes or seconds, such as ttl=30d, ttl=12h, ttl=90m or ttl=45s",
        )
    return seconds


def is_of_buckets(url: str) -> bool:
    """Whether hashes of the record keys tell in which file group a record is."""
    return url.partition(":")[0] in _SCHEMES_OF_BUCKETS
