"""The rules by which records of a merge-on-read table are merged, told by its properties; unknown rules are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rli.errors import UnsupportedTableError
from rli.hudi.properties import Key, TableProperties

_LEGACY_PAYLOAD: Final = "hoodie.table.legacy.payload.class"
_STRATEGIES: Final = ("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")
_SPECIAL: Final = ("hoodie.record.merge.property.", "hoodie.payload.delete.")
"""Prefixes of settings by which records count as deletes without the mark ``_hoodie_is_deleted``."""

_KNOWN_STRATEGIES: Final = frozenset(
    {
        "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        "ce9acb64-bde0-424c-9b91-f6ebba25356d",
        "00000000-0000-0000-0000-000000000000",
    }
)
"""Event time, commit time, and the payload's class."""

_BY_COMMIT: Final = "COMMIT_TIME_ORDERING"
_BY_EVENT: Final = "EVENT_TIME_ORDERING"
_MODES: Final = {
    "OverwriteWithLatestAvroPayload": _BY_COMMIT,
    "DefaultHoodieRecordPayload": _BY_EVENT,
    "EventTimeAvroPayload": _BY_EVENT,
}
_FIRST_VERSION_WITH_MODES: Final = 8


@dataclass(frozen=True, slots=True)
class MergeRules:
    """Which of two records of a key wins.

    Attributes:
        ordering: the column whose greater value wins; the later record wins on a tie. None if the later one always wins.
    """

    ordering: str | None

    @classmethod
    def of(cls, properties: TableProperties) -> Self:
        """The rules of a table.

        Raises:
            UnsupportedTableError: the table has rules that rli does not know; names them.
        """
        raw = properties.raw
        _require_known(properties)
        mode = raw.get(Key.MERGE_MODE) if properties.version >= _FIRST_VERSION_WITH_MODES else None
        payload = raw.get(Key.PAYLOAD_CLASS)
        if mode is None and payload is not None:
            mode = _MODES.get(payload.rpartition(".")[2])
            if mode is None:
                raise _unknown(properties, Key.PAYLOAD_CLASS)
        # Hudi, too, falls back on the ordering column.
        if mode not in {_BY_COMMIT, _BY_EVENT, None}:
            raise _unknown(properties, _LEGACY_PAYLOAD if _LEGACY_PAYLOAD in raw else Key.MERGE_MODE)
        fields = () if mode == _BY_COMMIT else properties.ordering_fields
        if len(fields) > 1 or any("." in field for field in fields):
            raise _unknown(properties, Key.ORDERING_FIELDS)
        return cls(fields[0] if fields else None)


def _require_known(properties: TableProperties) -> None:
    raw = properties.raw
    for key in _STRATEGIES:
        if raw.get(key, "").lower() not in {"", *_KNOWN_STRATEGIES}:
            raise _unknown(properties, key)
    if raw.get(Key.PARTIAL_UPDATE_MODE, "NONE") != "NONE":
        raise _unknown(properties, Key.PARTIAL_UPDATE_MODE)
    for key in raw:
        if key.startswith(_SPECIAL):
            raise _unknown(properties, key)


def _unknown(properties: TableProperties, key: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        "records of log files are merged by a rule of the table that rli does not know: "
        f"table={properties.name} {key}={properties.raw.get(key)}",
        remedy="read it with query='read_optimized' (--query read_optimized), or let Hudi compact it first",
    )
