"""What the URL of an index by hashes says: ``bucket:?buckets=8&fields=a,b``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from rli.errors import SettingsError
from rli.urls import without_password
from rli.view.definition import TableDefinition

_NUMBER: Final = re.compile(r"[1-9]\d{0,8}", re.ASCII)


@dataclass(frozen=True, slots=True)
class UrlForm:
    """The URLs of one kind.

    Attributes:
        scheme: before the colon.
        example: of a whole URL, for messages.
        most_buckets: of a partition.
        further: the names of its settings beside ``buckets`` and ``fields``.
    """

    scheme: str
    example: str
    most_buckets: int
    further: frozenset[str] = frozenset()

    def parse(self, url: str) -> tuple[HashSettings, Mapping[str, str]]:
        """The settings in a URL, and the further ones as they stand there; raises ``SettingsError`` for other URLs."""
        scheme, _, rest = url.partition(":")
        try:
            options = parse_qsl(rest.removeprefix("?"), keep_blank_values=True, strict_parsing=True)
        except ValueError:
            options = []
        names = [name for name, _ in options]
        if scheme != self.scheme or not rest.startswith("?") or "#" in rest or len(set(names)) < len(names):
            raise self.refused(url, "not the URL of a bucket index")
        unknown = sorted(set(names) - self.further - {"buckets", "fields"})
        if unknown:
            raise self.refused(url, f"a bucket index has no such setting: setting={unknown[0]}")
        given = dict(options)
        settings = HashSettings(
            self.number(url, "buckets", given.pop("buckets", "")), self._fields(url, given.pop("fields", None))
        )
        return settings, given

    def number(self, url: str, name: str, text: str) -> int:
        """A number of buckets; raises ``SettingsError`` for another text."""
        if not _NUMBER.fullmatch(text) or int(text) > self.most_buckets:
            problem = f"a bucket index needs a number of buckets, from 1 to {self.most_buckets}"
            raise self.refused(url, f"{problem}: {name}={text or 'none'}")
        return int(text)

    def refused(self, url: str, problem: str) -> SettingsError:
        return SettingsError(f"{problem}: index={without_password(url)}", remedy=f"write {self.example}")

    def _fields(self, url: str, text: str | None) -> tuple[str, ...]:
        names = () if text is None else tuple(text.split(","))
        if len(set(names)) < len(names) or not all(names):
            raise self.refused(url, f"columns are empty or repeated: fields={text}")
        return names


@dataclass(frozen=True, slots=True)
class HashSettings:
    """The settings of an index by hashes.

    Attributes:
        buckets: of each partition.
        fields: the key columns whose values are hashed; empty for all of them.
    """

    buckets: int
    fields: tuple[str, ...] = ()

    def hashed_fields(self, key_fields: Sequence[str]) -> tuple[str, ...]:
        """The columns that are hashed, in the order of the record key; raises ``SettingsError`` for others."""
        if not key_fields:
            raise SettingsError(
                "a bucket index hashes record-key columns, and the table names none", remedy="choose another index"
            )
        others = [name for name in self.fields if name not in key_fields]
        if others:
            raise SettingsError(
                f"a bucket index hashes columns of the record key: fields={','.join(self.fields)} record "
                f"key={','.join(key_fields)}",
                remedy=f"leave {others[0]} out, or leave fields out to hash the whole key",
            )
        return tuple(name for name in key_fields if not self.fields or name in self.fields)

    def columns_of(self, table: TableDefinition) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns that are hashed, and those of the record key; raises ``SettingsError`` as ``hashed_fields``."""
        key_fields = table.properties.record_key_fields
        return self.hashed_fields(key_fields), key_fields
