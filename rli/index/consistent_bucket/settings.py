"""What the URL of a consistent bucket index says: ``consistent-bucket:?buckets=8``, and limits under Hudi's names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from rli.hudi.consistent_hashing import MOST_BUCKETS
from rli.index.hashed.settings import HashSettings, UrlForm

_MIN, _MAX, _SPLIT, _MERGE = _LIMITS = ("min.num.buckets", "max.num.buckets", "split.threshold", "merge.threshold")

_FORM: Final = UrlForm(
    "consistent-bucket",
    "consistent-bucket:?buckets=8, with &fields=a,b and &" + "=, &".join(_LIMITS) + "= if needed",
    MOST_BUCKETS,
    frozenset(_LIMITS),
)
_DECIMAL: Final = re.compile(r"\d{1,9}(\.\d{1,9})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class ConsistentBucketSettings:
    """The settings of a consistent bucket index.

    Attributes:
        hashed: how many buckets a new partition has, and what is hashed.
        min_buckets: so many buckets of a partition are not merged further.
        max_buckets: so many buckets of a partition are not split further.
        split_threshold: target sizes; a bucket of more bytes is split.
        merge_threshold: target sizes; neighbours of no more bytes each are merged.
    """

    hashed: HashSettings
    min_buckets: int
    max_buckets: int
    split_threshold: float
    merge_threshold: float

    @classmethod
    def parse(cls, url: str) -> Self:
        """The settings in a URL; raises ``SettingsError`` for one that says something else."""
        hashed, given = _FORM.parse(url)
        found = cls(
            hashed,
            _FORM.number(url, _MIN, given.get(_MIN, str(hashed.buckets))),
            _FORM.number(url, _MAX, given.get(_MAX, str(MOST_BUCKETS))),
            _threshold(url, given, _SPLIT, 2.0),
            _threshold(url, given, _MERGE, 0.2),
        )
        if not found.min_buckets <= hashed.buckets <= found.max_buckets:
            raise _FORM.refused(url, f"{_MIN} <= buckets <= {_MAX} is needed")
        # Else what was merged would be split again.
        if not found.merge_threshold < found.split_threshold or found.split_threshold < 1:
            raise _FORM.refused(url, f"{_SPLIT} must be 1 or more, and {_MERGE} less than {_SPLIT}")
        return found


def _threshold(url: str, given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name, str(default))
    if not _DECIMAL.fullmatch(text) or not math.isfinite(float(text)):
        raise _FORM.refused(url, f"a threshold is no number: {name}={text or 'none'}")
    return float(text)
