"""Sizes as people read them."""

from __future__ import annotations

from typing import Final

_BINARY_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT: Final = 1024
_MOST_PER_ENTRY: Final = 512


def entry_size(bytes_per_entry: float | None) -> str | None:
    """Bytes per entry of an index; in a small one nearly all of them are of the store's fixed part."""
    if bytes_per_entry is None:
        return None
    if bytes_per_entry > _MOST_PER_ENTRY:
        return "fixed part of the store: too few entries to tell"
    return f"{bytes_per_entry:.1f}"


def human_bytes(count: int | None) -> str | None:
    """A number of bytes in the unit that suits it; None for None."""
    if count is None:
        return None
    size = float(count)
    for unit in _BINARY_UNITS:
        if size < _UNIT or unit == _BINARY_UNITS[-1]:
            return f"{size:,.1f} {unit}" if unit != "B" else f"{count:,} B"
        size /= _UNIT
    raise AssertionError(count)
