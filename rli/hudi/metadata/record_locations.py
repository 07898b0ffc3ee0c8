"""Entries of the record index as numbers: file ids in halves, instants as milliseconds.

Hudi turns an instant into milliseconds as local time of the machine's time zone, and back in the same way. rli does so,
too: the clocks of all machines that share a record index must be set to one time zone, as for Hudi alone.
"""

from __future__ import annotations

import re
import time as clock
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from rli.hudi.metadata.records import RecordLocation

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_FILE_ID: Final = re.compile(rf"(?P<uuid>{_UUID})(?:-(?P<index>0|[1-9]\d{{0,8}}))?", re.ASCII)
_NO_INDEX: Final = -1
_AS_NUMBERS, _AS_STRING = 0, 1
_SECONDS: Final = "%Y%m%d%H%M%S"
_SECONDS_DIGITS: Final = 14
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  (of local time)


def location_fields(location: RecordLocation) -> dict[str, Any]:
    """The fields of an entry.

    Raises:
        ValueError: the instant is no time.
    """
    match = _FILE_ID.fullmatch(location.file_id)
    number = UUID(match["uuid"]).int if match else None
    return {
        "partitionName": location.partition_path,
        "fileIdHighBits": -1 if number is None else _signed(number >> 64),
        "fileIdLowBits": -1 if number is None else _signed(number),
        "fileIndex": int(match["index"]) if match and match["index"] else _NO_INDEX,
        "fileId": location.file_id if match is None else "",
        "instantTime": milliseconds_of(location.instant),
        "fileIdEncoding": _AS_STRING if match is None else _AS_NUMBERS,
        "position": None,
    }


def location_of(fields: Mapping[str, Any]) -> RecordLocation:
    """The entry of these fields.

    Raises:
        LookupError: a field is missing.
        TypeError: a field that every entry has is null.
        ValueError: a field is out of range.
    """
    partition_path, instant = fields["partitionName"], instant_of(fields["instantTime"])
    if not isinstance(partition_path, str):
        raise TypeError(f"an entry of the record index names no partition: partitionName={partition_path!r}")
    return RecordLocation(partition_path, _file_id(fields), instant)


def _file_id(fields: Mapping[str, Any]) -> str:
    encoding = fields.get("fileIdEncoding", _AS_NUMBERS)
    if encoding == _AS_STRING and fields["fileId"]:
        return str(fields["fileId"])
    if encoding != _AS_NUMBERS:
        raise ValueError(f"an entry of the record index has an unknown form of file id: fileIdEncoding={encoding}")
    high, low = (fields[name] & (1 << 64) - 1 for name in ("fileIdHighBits", "fileIdLowBits"))
    index = fields["fileIndex"]
    return str(UUID(int=high << 64 | low)) + ("" if index == _NO_INDEX else f"-{index}")


def milliseconds_of(instant: str) -> int:
    """Milliseconds since 1970 of an instant, taken as local time; the last one of its second for 14 digits.

    Raises:
        ValueError: the instant is no time.
    """
    seconds = datetime.strptime(instant[:_SECONDS_DIGITS], _SECONDS)  # noqa: DTZ007  (local time)
    return int(seconds.timestamp()) * 1000 + int(instant[_SECONDS_DIGITS:][:3] or "999")


def instant_of(milliseconds: int) -> str:
    """The instant of 17 digits at so many milliseconds since 1970, as local time.

    Raises:
        ValueError: it is no time of four-digit years.
    """
    seconds, rest = divmod(milliseconds, 1000)
    try:
        offset = clock.localtime(seconds).tm_gmtoff
        local = _EPOCH + timedelta(seconds=seconds + offset)
    except (OverflowError, OSError) as error:
        raise ValueError(f"an entry of the record index has no valid time: instantTime={milliseconds}") from error
    return f"{local.year:04d}{local:%m%d%H%M%S}{rest:03d}"


def _signed(number: int) -> int:
    low = number & (1 << 64) - 1
    return low - (1 << 64) if low >> 63 else low
