"""Hudi's hashing config: numbers of buckets that differ from partition to partition.

Hudi's services for tables write one (``CALL partition_bucket_index_manager``, Flink's catalog), and another when it changes.
The newest one counts whose replacement, if it is part of one, has completed. Source: ``PartitionBucketIndexHashingConfig``
and ``RegexRuleEngine`` of Hudi 1.2.0.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.bucket_index import MOST_BUCKETS
from rli.patterns import finds, require_pattern
from rli.storage import Storage

FOLDER: Final = ".hoodie/.bucket_index/partition_bucket_index_meta/configs"

_SUFFIX: Final = ".hashing_config"
_VERSION: Final = 1
_REGEX: Final = "REGEX"
_MOST_DIGITS: Final = 20
_JAVA_ALONE: Final = re.compile(r"\\[pPQEzZhHRXGvVN]|&&|\(\?<[A-Za-z]|\[[^]]*\[")
"""What Java and Python take for different things, or what Python does not know."""


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How many buckets some partitions have.

    Attributes:
        pattern: found in the partition paths.
        buckets: of each.
    """

    pattern: str
    buckets: int


@dataclass(frozen=True, slots=True)
class HashingConfig:
    """How many buckets each partition has.

    Attributes:
        default_buckets: of partitions without a rule.
        rules: the first one that fits a partition counts.
    """

    default_buckets: int
    rules: tuple[BucketRule, ...] = ()

    def buckets_of(self, partition_path: str) -> int:
        """How many buckets a partition has."""
        fitting = (rule.buckets for rule in self.rules if finds(rule.pattern, partition_path))
        return next(fitting, self.default_buckets)


class _Stored(BaseModel):
    """A hashing config as Hudi stores it."""

    model_config = ConfigDict(strict=True)

    expressions: str
    defaultBucketNumber: Annotated[int, Field(ge=1)]  # noqa: N815  (Hudi's names)
    rule: str
    version: int


def load_hashing_config(storage: Storage, pending: Collection[str], latest: str | None) -> HashingConfig | None:
    """The hashing config of a table; None if it has none.

    Args:
        storage: the table.
        pending: the instants that have not completed, as of a state of the table.
        latest: the greatest time in use then; later configs are of replacements that had not begun. None for all.

    Raises:
        CorruptTableError: it is damaged.
        UnsupportedTableError: it has rules of a kind that rli does not follow.
    """
    found = {file.path: file.path.rpartition("/")[2] for file in storage.list_files(FOLDER)}
    instants = {path: name.removesuffix(_SUFFIX) for path, name in found.items() if name.endswith(_SUFFIX)}
    counting = [
        path
        for path, instant in instants.items()
        if instant not in pending and not instant.startswith(".") and (latest is None or instant <= latest)
    ]
    newest = max(counting, key=instants.__getitem__, default=None)
    content = None if newest is None else storage.read_bytes(newest)
    return None if newest is None or content is None else _parsed(content, newest)


def _parsed(content: bytes, path: str) -> HashingConfig:
    try:
        stored = _Stored.model_validate_json(content)
    except ValidationError as error:
        raise CorruptTableError(
            f"a hashing config of Hudi is damaged: file={path}", remedy="write it again with Hudi, or bring back a copy"
        ) from error
    if stored.version != _VERSION or stored.rule.upper() != _REGEX:
        raise UnsupportedTableError(
            f"a hashing config has rules that rli does not know: file={path} version={stored.version} "
            f"rule={stored.rule}",
            remedy="write the table with Hudi alone",
        )
    _require_few(stored.defaultBucketNumber, path)
    rules = (_rule(expression, path) for expression in stored.expressions.split(";") if expression.strip())
    return HashingConfig(stored.defaultBucketNumber, tuple(rules))


def _require_few(buckets: int, path: str) -> None:
    if buckets > MOST_BUCKETS:
        raise UnsupportedTableError(
            f"a hashing config names more buckets than rli writes: file={path} buckets={buckets} most={MOST_BUCKETS}",
            remedy="write the table with Hudi alone, or write the config again with fewer buckets",
        )


def _rule(expression: str, path: str) -> BucketRule:
    """A rule as Hudi writes it: a pattern, a comma, and a number."""
    pattern, _, buckets = (part.strip() for part in expression.strip().partition(","))
    if not re.fullmatch(r"[1-9]\d*", buckets, re.ASCII):
        raise CorruptTableError(
            f"a hashing config has a rule without a number: file={path} rule={expression!r}",
            remedy="write it again with Hudi",
        )
    # Python converts numbers of a few thousand digits alone.
    _require_few(int(buckets[:_MOST_DIGITS]), path)
    _require_same_meaning(pattern, path)
    return BucketRule(pattern, int(buckets))


def _require_same_meaning(pattern: str, path: str) -> None:
    """Pass a pattern of Java; raises ``UnsupportedTableError`` for one that RE2 or Python takes for something else."""
    cause: Exception | None = None
    if not _JAVA_ALONE.search(pattern):
        try:
            with warnings.catch_warnings():
                # Python warns of what it may take for something else one day.
                warnings.simplefilter("error")
                re.compile(pattern, re.ASCII)
            require_pattern(pattern)
        except (re.error, OverflowError, RecursionError, ValueError, Warning) as error:
            cause = error
        else:
            return
    raise UnsupportedTableError(
        f"a hashing config has a pattern of Java that rli does not follow: file={path} pattern={pattern!r}",
        remedy=(
            "write the table with Hudi alone, or give the partitions a pattern of letters, digits, '.', '*', '^' and "
            "'$'"
        ),
    ) from cause
