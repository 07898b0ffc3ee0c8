"""What commands tell of surplus records of repeated keys."""

from __future__ import annotations

from typing import Final

from rli.write.operations.deduplicate import Deduplicated
from rli.write.operations.repeated_records import RepeatedKey

_NAMED: Final = 5


def facts_of_repeats(done: Deduplicated) -> dict[str, str]:
    """How many records were removed, or would be, and some of their keys."""
    return {
        "keys in the table more than once": f"{done.keys:,}",
        f"records {'to remove' if done.dry_run else 'removed'}": f"{done.records_removed:,}",
        **{f"key {found.key}": _kept_and_removed(found) for found in done.repeated[:_NAMED]},
    }


def _kept_and_removed(found: RepeatedKey) -> str:
    gone = ", ".join(f"{path or 'the table'} at {instant}" for path, instant in found.removed)
    return f"stays in {found.kept or 'the table'}, written at {found.kept_instant}; without {gone}"
