"""Files of a table that were damaged or forged end in a clear error, within bounded memory."""

from __future__ import annotations

import base64
import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pytest

from rli import CorruptTableError, RliError, SchemaError
from rli.hudi.avro_schema import from_avro, to_avro
from rli.hudi.bloom_filter import FILTER_KEY, BloomFilter
from rli.hudi.timeline.archive_log import completed_entries, entry, to_log_file
from rli.hudi.timeline.avro_files import write_record
from rli.hudi.timeline.clean_metadata import CleanPlan
from rli.hudi.timeline.commit_metadata import CommitMetadata
from rli.hudi.timeline.restore_metadata import RestorePlan
from rli.hudi.timeline.rollback_metadata import RollbackPlan
from rli.hudi.timeline.undone import Undone
from rli.index.record.log.record import LogRecord
from rli.model import FileGroupId
from rli.settings import IndexSettings, TableSettings
from rli.storage.publications import _Decision
from rli.store.credentials import VARIABLE as CREDENTIALS_VARIABLE
from rli.store.credentials import credentials_for
from tests.support.children import was_killed
from tests.support.damage import FUZZ_ROUNDS, damaged, limit_memory
from tests.support.log_drafts import commit_draft

Read = Callable[[bytes], object]

INSTANT = "20240531115900000"
PLAN = CleanPlan(INSTANT, "commit", INSTANT, {"p/q": ("/t/p/q/a.parquet",)}).to_avro()
SCHEMA = to_avro(pa.schema([("a", pa.list_(pa.struct([("b", pa.decimal128(9, 2))])))]), "t").encode()


def _clean_plan(content: bytes) -> object:
    return CleanPlan.from_avro(content, "f")


def _schema(content: bytes) -> object:
    return from_avro(content.decode(errors="replace"))


def _commit(content: bytes) -> object:
    return CommitMetadata.from_json(content, "f")


def _bloom_filter(content: bytes) -> object:
    found = BloomFilter.from_footer({FILTER_KEY.encode(): base64.b64encode(content)}, "f")
    return found is not None and found.might_contain(pa.array(["k"]))


def _decision(content: bytes) -> object:
    return _Decision.from_json(content, "f")


def _credentials(content: bytes) -> object:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = Path(folder, "credentials.toml")
        file.touch(mode=0o600)
        file.write_bytes(content)
        patch.setenv(CREDENTIALS_VARIABLE, str(file))
        return credentials_for(["h:1"])


_LOG_RECORD: Final = LogRecord.of(
    commit_draft(INSTANT, FileGroupId("p", "f")), sequence=1, file_group=0, introduced=(FileGroupId("p", "f"),)
)


def _number(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    digits = bytearray()
    while value >= 0x80:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*digits, value])


def _container(schema: object, body: bytes, codec: bytes = b"null", count: int = 1) -> bytes:
    sync, text = b"0" * 16, json.dumps(schema).encode()
    header = b"".join(_number(len(part)) + part for part in (b"avro.schema", text, b"avro.codec", codec))
    return b"Obj\x01" + _number(2) + header + _number(0) + sync + _number(count) + _number(len(body)) + body + sync


def _record_of(kind: object) -> dict[str, object]:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def _array_of_nothing() -> bytes:
    return _container(_record_of({"type": "array", "items": "null"}), _number(10**9) + _number(0))


def _array_of_empty_records() -> bytes:
    empty = {"type": "record", "name": "e", "fields": []}
    return _container(_record_of({"type": "array", "items": empty}), _number(10**9) + _number(0))


def _inflating_block() -> bytes:
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    zeros = bytes(1 << 24)
    parts = [deflate.compress(_number(1 << 28)), *(deflate.compress(zeros) for _ in range(16)), deflate.flush()]
    return _container(_record_of("bytes"), b"".join(parts), b"deflate")


def _record_within_itself() -> bytes:
    endless = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}
    return _container(endless, _number(1) * 1_000_000)


def _nested_schema(levels: int) -> bytes:
    return b'{"type":"record","name":"r","fields":[{"name":"a","type":%s}]}' % (
        b'{"type":"array","items":' * levels + b'"int"' + b"}" * levels
    )


def _schema_that_doubles() -> bytes:
    fields: list[dict[str, object]] = [{"name": "f0", "type": {"type": "record", "name": "r0", "fields": [_int("a")]}}]
    for level in range(1, 60):
        twice = [{"name": name, "type": f"r{level - 1}"} for name in "ab"]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"r{level}", "fields": twice}})
    return json.dumps({"type": "record", "name": "r", "fields": fields}).encode()


def _int(name: str) -> dict[str, object]:
    return {"name": name, "type": "int"}


def _filter_of_many_hashes() -> bytes:
    return struct.pack(">iibi", -1, 2**31 - 1, 1, 8) + b"\xff"


@pytest.mark.parametrize(
    ("read", "forge"),
    [
        (_clean_plan, _array_of_nothing),
        (_clean_plan, _array_of_empty_records),
        (_clean_plan, _inflating_block),
        (_clean_plan, _record_within_itself),
        (_clean_plan, lambda: _container(json.loads(_nested_schema(300)), b"\0")),
        (_clean_plan, lambda: _container(_record_of("int"), b"\0", b"nope")),
        (_clean_plan, lambda: _container(_record_of("int"), b"\0\0", count=2)),
        (_schema, lambda: _nested_schema(400)),
        (_schema, lambda: _nested_schema(20_000)),
        (_schema, _schema_that_doubles),
        (_commit, lambda: b"[" * 200_000 + b"]" * 200_000),
        (_bloom_filter, _filter_of_many_hashes),
    ],
)
def test_memory_exhausting_file_is_refused(read: Read, forge: Callable[[], bytes]) -> None:
    assert not was_killed(_read_forged, read, forge()), "the reader was killed"


def _read_forged(read: Read, content: bytes) -> None:
    limit_memory()
    with pytest.raises((CorruptTableError, SchemaError)):
        read(content)


def test_damaged_files_are_clear_errors() -> None:
    """Every reader of the timeline and of footers meets bytes that were changed, cut, repeated or inserted."""
    assert not was_killed(_read_damaged), "a reader was killed"


def _read_damaged() -> None:
    limit_memory()
    readers: list[tuple[Read, bytes]] = [
        (_clean_plan, PLAN),
        (
            lambda content: RollbackPlan.from_avro(content, "f"),
            RollbackPlan(INSTANT, "commit", {"p": ("a",)}).to_avro(),
        ),
        (lambda content: RestorePlan.from_avro(content, "f"), RestorePlan(INSTANT, ((INSTANT, "commit"),)).to_avro()),
        (lambda content: Undone.from_avro("rollback", content, "f"), PLAN),
        (lambda content: completed_entries(content, "f"), to_log_file([entry(INSTANT, "commit", "COMPLETED", None)])),
        (_commit, b'{"partitionToWriteStats":{"p":[{"fileId":"f","path":"p/f"}]},"extraMetadata":{"a":"b"}}'),
        (lambda content: CommitMetadata.from_avro(content, "f"), write_record(_record_of("string"), {"a": "b"})),
        (_schema, SCHEMA),
        (_bloom_filter, struct.pack(">iibi", -1, 3, 1, 64) + bytes(8)),
        (TableSettings.from_json, TableSettings(table_id="0", index_url="redis://h/0").to_json()),
        (IndexSettings.from_json, IndexSettings.new(key_mode="digest").to_json()),
        (lambda content: LogRecord.from_json(1, content), _LOG_RECORD.to_json()),
        (_decision, b'{"token":"%s","target":"t/1.commit","is_retracted":false}' % (b"0" * 32)),
        (_credentials, b'["h:1"]\nusername = "u"\npassword = "p"\ntls = true\n'),
    ]
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    for read, intact in readers:
        for _ in range(FUZZ_ROUNDS):
            content = damaged(intact, rng)
            try:
                read(content)
            except RliError:
                continue
            except Exception as error:
                raise AssertionError(f"{type(error).__name__}: {error}: seed={seed} content={content!r}") from error
