"""Settings that are stored with an index or a table, validated wherever they come from."""

from __future__ import annotations

import re
from secrets import token_hex
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    FieldSerializationInfo,
    SecretStr,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from rli.errors import SettingsError
from rli.model import Durability, KeyMode, LeasePlace, OnPartitionChange, Scope
from rli.urls import has_secrets, without_password, without_secrets

MAX_SHARDS: Final = 65_536

MEBIBYTE: Final = 1024 * 1024

DEFAULT_LEASE_SECONDS: Final = 30.0
MOST_LEASE_SECONDS: Final = 24 * 3600.0

DEFAULT_WRITE_ATTEMPTS: Final = 8

DEFAULT_TOMBSTONES: Final = 7 * 24 * 3600

_DELTA_COMMITS: Final = 15
_LOG_FILES: Final = 100

_DIGEST_KEY_BYTES: Final = 32
_DIGEST_KEY: Final = re.compile(r"[0-9a-f]{64}")
_STORED: Final = "stored"
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class StoredSettings(BaseModel):
    """Base of settings: immutable, nothing unknown accepted, JSON on disk."""

    # What is wrong may be a password.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Validate values that a user gave; raises ``SettingsError`` naming the wrong one."""
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(_describe(error), remedy="give other values (docs/reference/python.md)") from error

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """Read what ``to_json`` wrote; raises ``SettingsError`` for anything else."""
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            # No version takes fields of later ones: what it does not know, it would not heed.
            raise SettingsError(
                _describe(error), remedy="if a newer version of rli has written them, use that version"
            ) from error

    def to_json(self) -> bytes:
        return self.model_dump_json(indent=1).encode()


class IndexSettings(StoredSettings):
    """Fixed when an index is created, because every entry depends on them.

    Attributes:
        format_version: of the control records.
        codec_version: of the key encoding and the entries.
        hash: the function that spreads keys over shards.
        hash_seed: its seed.
        shard_count: how many shards the key space is cut into.
        key_mode: how record keys are kept.
        digest: the function whose digests stand for keys, where they do; earlier versions made indexes with mmh3.
        digest_key: of that function, random: 64 hexadecimal digits. It is in the index and nowhere else.
        key_fields: the record-key columns of the table; empty for an index that is used on its own.
        table_id: identity of the table that the index belongs to; None for an index that is used on its own.
        scope: where a record key is unique; with partition scope, the partition path is a part of each stored key.
        partitions: regular expression of the partition paths that the index knows; None for all.
        ttl: seconds for which a key is known after the last commit that wrote its record; None: for ever.
    """

    format_version: Literal[1] = 1
    codec_version: Literal[1] = 1
    hash: Literal["mmh3_32"] = "mmh3_32"
    hash_seed: Annotated[int, Field(ge=0, lt=2**32)] = 0x726C69
    shard_count: Annotated[int, Field(ge=1, le=MAX_SHARDS)] = 1
    key_mode: KeyMode = KeyMode.EXACT
    digest: Literal["mmh3_128", "blake2b_128"] = "mmh3_128"
    digest_key: SecretStr | None = None
    key_fields: tuple[str, ...] = ()
    table_id: str | None = None
    scope: Scope = Scope.GLOBAL
    partitions: str | None = None
    ttl: Annotated[int, Field(ge=1)] | None = None

    @classmethod
    def new(cls, *, key_mode: KeyMode | str, **values: Any) -> Self:
        """Settings of a new index; raises ``SettingsError`` for a wrong value."""
        digest = (
            {"digest": "blake2b_128", "digest_key": token_hex(_DIGEST_KEY_BYTES)} if key_mode == KeyMode.DIGEST else {}
        )
        return cls.of(key_mode=key_mode, **digest, **values)

    def to_json(self) -> bytes:
        """As an index stores it: the only place that has the digests' key in the clear."""
        # Versions that know no keyed digests, or none of the options, read all other indexes.
        unused = {"digest", "digest_key"} if self.digest_key is None else set()
        unused |= {"scope"} if self.scope is Scope.GLOBAL else set()
        unused |= {name for name in ("partitions", "ttl") if getattr(self, name) is None}
        return self.model_dump_json(indent=1, exclude=unused, context=_STORED).encode()

    @field_serializer("digest_key")
    def _show_digest_key(self, key: SecretStr | None, info: FieldSerializationInfo) -> str | None:
        return key.get_secret_value() if key is not None and info.context == _STORED else None

    @model_validator(mode="after")
    def _require_digest_key(self) -> Self:
        key = None if self.digest_key is None else self.digest_key.get_secret_value()
        is_keyed = self.digest == "blake2b_128"
        if is_keyed != (key is not None) or (is_keyed and self.key_mode is not KeyMode.DIGEST):
            raise ValueError("blake2b_128 needs digest_key and key_mode=digest")
        if key is not None and not _DIGEST_KEY.fullmatch(key):
            raise ValueError("digest_key is not 64 hexadecimal digits")
        return self


class Maintenance(StoredSettings):
    """What writers do for the table after their commits; the names are Hudi's, the numbers three times Hudi's.

    Attributes:
        clean_automatic: whether old base files are removed.
        clean_max_commits: after how many commits.
        cleaner_commits_retained: as of how many commits the table can still be read, at least.
        archive_automatic: whether old instants leave the active timeline.
        keep_min_commits: how many commits stay on it, at least.
        keep_max_commits: how many commits may be on it before others leave.
        clustering_inline: whether small base files are put together.
        clustering_inline_max_commits: after how many commits.
        compaction_inline_max_delta_commits: after how many deltacommits the log files of a merge-on-read table are merged into base
            files; None: not at all. Nothing is merged either where all other services are off.
        compaction_inline_max_log_files: a write to a file group with so many log files merges them into its next base file, unless a
            compaction of the file group is pending. None: any number, as where all other services are off.
    """

    clean_automatic: bool = True
    clean_max_commits: Annotated[int, Field(ge=1)] = 20
    cleaner_commits_retained: Annotated[int, Field(ge=1)] = 30
    archive_automatic: bool = True
    keep_min_commits: Annotated[int, Field(ge=2)] = 60
    keep_max_commits: Annotated[int, Field(ge=3)] = 90
    clustering_inline: bool = True
    clustering_inline_max_commits: Annotated[int, Field(ge=1)] = 30
    compaction_inline_max_delta_commits: Annotated[int, Field(ge=1)] | None = _DELTA_COMMITS
    compaction_inline_max_log_files: Annotated[int, Field(ge=1)] | None = _LOG_FILES

    @classmethod
    def off(cls) -> Self:
        """Nothing happens by itself."""
        return cls(clean_automatic=False, archive_automatic=False, clustering_inline=False)

    @property
    def is_off(self) -> bool:
        return not (self.clean_automatic or self.archive_automatic or self.clustering_inline)

    @model_validator(mode="after")
    def _require_order(self) -> Self:
        if not self.cleaner_commits_retained < self.keep_min_commits < self.keep_max_commits:
            raise ValueError(
                "cleaner_commits_retained < keep_min_commits < keep_max_commits is needed: "
                f"{self.cleaner_commits_retained}, {self.keep_min_commits}, {self.keep_max_commits}"
            )
        return self


class TableSettings(StoredSettings):
    """What rli keeps with a table beside Hudi's own properties.

    Attributes:
        format_version: of this record.
        table_id: identity of the table, so that an index of another table is recognised.
        index_url: where the table's index is; passwords in it are left out.
        index_generation: how often the table has been given another index. Who opened it with one of another generation
            does not write with that, even if the table has come back to the same index.
        on_partition_change: what an upsert does when a key comes with another partition value.
        target_file_size: bytes up to which inserts fill a base file.
        small_file_size: base files below it (bytes) are filled before new file groups are opened.
        compression: Parquet codec of base files, and of records in log files.
        log_format: of records in log files.
        log_inserts: whether new records may go to log files; see ``rli.view.log_inserts``.
        write_attempts: how often a write is tried before its conflicts with other writers are given up.
        lease_seconds: for how long a writer that shows no life keeps what it holds.
        lease: where the writers agree on which of them commits: a place, or the URL of a store.
        durability: what an acknowledged commit survives.
        maintenance: what writers do for the table after their commits; nothing where an earlier version made the table.
        tombstones: seconds for which deleted keys keep the ordering values of their deletes; None: not at all, as in a table that an
            earlier version made.
    """

    format_version: Literal[1] = 1
    table_id: str
    index_url: str
    index_generation: Annotated[int, Field(ge=0)] = 0
    on_partition_change: OnPartitionChange = OnPartitionChange.MOVE
    target_file_size: Annotated[int, Field(ge=1024)] = 120 * MEBIBYTE
    small_file_size: Annotated[int, Field(ge=0)] = 100 * MEBIBYTE
    compression: Literal["zstd", "snappy", "gzip", "none"] = "zstd"
    log_format: Literal["parquet", "avro"] = "parquet"
    log_inserts: bool = False
    write_attempts: Annotated[int, Field(ge=1)] = DEFAULT_WRITE_ATTEMPTS
    lease_seconds: Annotated[float, Field(gt=0, le=MOST_LEASE_SECONDS, allow_inf_nan=False)] = DEFAULT_LEASE_SECONDS
    lease: LeasePlace | str = LeasePlace.INDEX
    durability: Durability = Durability.DISK
    maintenance: Maintenance = Maintenance.off()
    tombstones: Annotated[int, Field(ge=1)] | None = None

    def to_json(self) -> bytes:
        # Versions that know no other format read the settings of all other tables.
        unused: dict[str, Any] = {"log_format": True} if self.log_format == "parquet" else {}
        unused |= {} if self.log_inserts else {"log_inserts": True}
        defaults = {
            "compaction_inline_max_delta_commits": _DELTA_COMMITS,
            "compaction_inline_max_log_files": _LOG_FILES,
        }
        unused["maintenance"] = {name for name, value in defaults.items() if getattr(self.maintenance, name) == value}
        return self.model_dump_json(indent=1, exclude=unused).encode()

    @field_validator("lease", mode="before")
    @classmethod
    def _require_place_or_url(cls, lease: object) -> LeasePlace | str:
        try:
            return LeasePlace(lease)  # type: ignore[arg-type]  # what is no place is refused
        except ValueError:
            if not isinstance(lease, str) or not _URL.match(lease):
                raise ValueError(
                    f'{without_password(str(lease))!r} is no place; give "index", "table" or the URL of a store, such as '
                    "redis://host:6379/0"
                ) from None
        if has_secrets(lease):
            raise ValueError(
                "the URL of the lease's store may hold no password; write it into ~/.config/rli/credentials.toml "
                "(docs/security.md)"
            )
        return lease

    @field_validator("index_url")
    @classmethod
    def _keep_no_secret(cls, url: str) -> str:
        return without_secrets(url)


def _describe(error: ValidationError) -> str:
    problems = "; ".join(
        f"{'.'.join(map(str, problem['loc'])) or 'settings'}: {problem['msg'].lower()}" for problem in error.errors()
    )
    return f"settings are not valid: {problems}"
