"""The archive of a timeline in layout 1: Hudi log files, each with one block of Avro records (``HoodieArchivedMetaEntry``).

A log file is a sequence of blocks, numbers big-endian. A block is: the magic ``#HUDI#``; its length from here on less
these 8 bytes (int64); version of the format (int32); kind of block (int32); the header: how many texts, and of each its
key, its length in bytes and its UTF-8 (int32 each); length of the content (int64) and the content; a footer like the
header; the length of the block from its magic up to here (int64). The content of a block of Avro records is: its version
and the number of records (int32), and each record in Avro's binary form after its length (int32).
"""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import fastavro

from rli.errors import CorruptTableError
from rli.hudi.timeline.avro_files import MALFORMED, decode, parsed_schema
from rli.hudi.timeline.clean_schemas import CLEAN_METADATA
from rli.hudi.timeline.commit_schemas import ARCHIVED_REPLACE_METADATA, COMMIT_METADATA
from rli.hudi.timeline.instant import InstantState
from rli.hudi.timeline.rollback_schemas import ROLLBACK_METADATA
from rli.hudi.timeline.schema_parts import STRING, VERSION, Schema, optional, record

_MAGIC: Final = b"#HUDI#"
_FORMAT_VERSION: Final = 1
_AVRO_BLOCK: Final = 3
_SCHEMA_KEY: Final = 2
_CONTENT_VERSION: Final = 3
_HEAD: Final = struct.Struct(">qii")
"""Of a block, behind its magic: its length from here on, the version of the format, and the kind of the block."""
_COMPLETED: Final = InstantState.COMPLETED.name
_FILE_NAME: Final = re.compile(r"\.commits_\.archive\.(?P<version>\d+)_.*", re.ASCII)

_ENTRY: Final = record(
    "HoodieArchivedMetaEntry",
    optional("hoodieCommitMetadata", COMMIT_METADATA),
    optional("hoodieCleanMetadata", CLEAN_METADATA),
    optional("hoodieRollbackMetadata", ROLLBACK_METADATA),
    optional("commitTime", STRING),
    optional("actionType", STRING),
    VERSION,
    optional("actionState", STRING),
    optional("hoodieReplaceCommitMetadata", ARCHIVED_REPLACE_METADATA),
    optional("stateTransitionTime", STRING),
)


def newest_files(file_names: Iterable[str]) -> list[str]:
    """Those of some files that are part of the archive, the newest first."""
    return sorted((name for name in file_names if _FILE_NAME.fullmatch(name)), key=_version, reverse=True)


def next_file_name(newest: str | None) -> str:
    """Name of the file that comes after the newest one."""
    return f".commits_.archive.{1 if newest is None else _version(newest) + 1}_1-0-1"


def entry(time: str, action: str, state: str, metadata: tuple[str, dict[str, Any]] | None) -> dict[str, Any]:
    """One state of an instant.

    Args:
        time: of the instant.
        action: of the instant, in this state.
        state: its name, in capitals.
        metadata: the field that keeps the content, and the content.
    """
    # Files of this layout keep no time of completion. The instant's own keeps archived instants in their order.
    fields = {"commitTime": time, "actionType": action, "version": 1, "actionState": state, "stateTransitionTime": time}
    return fields if metadata is None else {**fields, metadata[0]: metadata[1]}


def completed_entries(content: bytes, path: str) -> set[tuple[str, str]]:
    """Times and actions of the completed instants in a log file, of any writer.

    A last block that is cut short is passed over: instants stay on the timeline until the block with them is whole.

    Raises:
        CorruptTableError: the file is damaged; names it.
    """
    stream = io.BytesIO(content)
    found: set[tuple[str, str]] = set()
    try:
        while stream.read(len(_MAGIC)) == _MAGIC:
            head = stream.read(_HEAD.size)
            if len(head) < _HEAD.size:
                break
            length, _, kind = _HEAD.unpack(head)
            end = stream.tell() + length - 8
            if end > len(content):
                break
            header = _read_header(stream)
            if kind == _AVRO_BLOCK:
                entries = _read_entries(stream, header[_SCHEMA_KEY])
                found |= {(one["commitTime"], one["actionType"]) for one in entries if one["actionState"] == _COMPLETED}
            stream.seek(end)
    except (struct.error, *MALFORMED) as error:
        raise CorruptTableError(
            f"a file of the timeline's archive is damaged: file={path} ({type(error).__name__}: {error})",
            remedy="restore it from a backup, or move it away",
        ) from error
    return found


def to_log_file(entries: Sequence[dict[str, Any]]) -> bytes:
    """Content of a log file with these entries."""
    parsed = fastavro.parse_schema(_ENTRY)
    content = io.BytesIO()
    content.write(struct.pack(">ii", _CONTENT_VERSION, len(entries)))
    for one in entries:
        binary = _binary(parsed, one)
        content.write(struct.pack(">i", len(binary)) + binary)
    schema = json.dumps(_ENTRY, separators=(",", ":")).encode()
    header = struct.pack(">iii", 1, _SCHEMA_KEY, len(schema)) + schema
    no_footer = struct.pack(">i", 0)
    body = b"".join(
        (
            struct.pack(">ii", _FORMAT_VERSION, _AVRO_BLOCK),
            header,
            struct.pack(">q", len(content.getvalue())),
            content.getvalue(),
            no_footer,
        )
    )
    length_at_end = 8
    before_end = len(_MAGIC) + length_at_end + len(body)
    return _MAGIC + struct.pack(">q", len(body) + length_at_end) + body + struct.pack(">q", before_end)


def _version(file_name: str) -> int:
    match = _FILE_NAME.fullmatch(file_name)
    return int(match["version"]) if match else 0


def _read_header(stream: io.BytesIO) -> dict[int, bytes]:
    texts = {}
    (count,) = struct.unpack(">i", stream.read(4))
    for _ in range(count):
        key, size = struct.unpack(">ii", stream.read(8))
        texts[key] = stream.read(size)
    return texts


def _read_entries(stream: io.BytesIO, schema: bytes) -> Iterator[dict[str, Any]]:
    _, _, count = struct.unpack(">qii", stream.read(16))
    parsed = parsed_schema(schema)
    for _ in range(count):
        (size,) = struct.unpack(">i", stream.read(4))
        found = decode(stream.read(size), parsed)
        yield found if isinstance(found, dict) else {}


def _binary(schema: Schema | Any, one: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, one)
    return buffer.getvalue()
