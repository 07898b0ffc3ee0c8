"""Watermarks of shards, of every layout, read many at a time."""

from __future__ import annotations

import pytest

from rli.errors import CorruptIndexError
from rli_redis.watermarks import Watermark, watermarks_in

OLD = bytes.fromhex("00000102 00000304")
NEW = OLD + b"epoch..."
PURGED = NEW + bytes.fromhex("00000101")


def test_watermarks_of_every_layout() -> None:
    found = watermarks_in([OLD, None, NEW, PURGED])
    assert found["applied"].tolist() == [0x102, 0, 0x102, 0x102]
    assert found["floor"].tolist() == [0, 0, 0, 0x101]
    assert found["is_there"].tolist() == [True, False, True, True]
    for stored, floor in ((OLD, 0), (NEW, 0), (PURGED, 0x101)):
        assert Watermark.from_bytes(stored).floor == floor


@pytest.mark.parametrize("stored", [b"", bytes(7), bytes(17), bytes(21)])
def test_no_watermark(stored: bytes) -> None:
    with pytest.raises(CorruptIndexError, match="wrong length"):
        watermarks_in([OLD, stored])
    with pytest.raises(CorruptIndexError, match="wrong length"):
        Watermark.from_bytes(stored)
