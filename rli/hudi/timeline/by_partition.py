"""How metadata on the timeline lists files and file groups: by the partition that they are in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


def by_partition(named: Iterable[tuple[str, Iterable[str]]]) -> dict[str, tuple[str, ...]]:
    """Partition path → all names that come with it, in their order.

    Args:
        named: partition paths, each with some names; a path may come again with others.
    """
    found = defaultdict[str, list[str]](list)
    for partition_path, names in named:
        found[partition_path].extend(names)
    return {partition_path: tuple(names) for partition_path, names in found.items()}
