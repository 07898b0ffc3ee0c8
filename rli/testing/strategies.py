"""Generated data: record keys of every awkward kind, batches of encoded keys, entries."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import numpy as np
from hypothesis import strategies as st

from rli.codec.encoded_keys import EncodedKeys
from rli.codec.entries import MAX_FILE_GROUP, MAX_SEQUENCE, TOMBSTONE, Entries
from rli.testing.batches import key_batch

_WIDTHS: Final = (1, 2, 8, 16, 503, 504, 700)


def record_keys() -> st.SearchStrategy[str]:
    """Record keys as users have them: UUIDs in any spelling, integers in any, composite keys, any text at all."""
    return st.one_of(
        st.uuids().flatmap(_spellings_of_uuid),
        st.integers(-(1 << 200), 1 << 200).flatmap(_spellings_of_integer),
        st.sampled_from([0, 1, -1, 127, 128, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, -(1 << 63), 1 << 64]).map(str),
        st.lists(_strings(), min_size=2, max_size=3).map(_composite),
        _strings(),
        st.sampled_from(["", "\0", "a\0", "a\0b", "\U0001f600", "\U0010ffff", ":", ",", "id:", "null", "__null__"]),
        st.text("ab\0\U0001f600", min_size=1, max_size=4).map(lambda text: text * 16_384),
    )


def key_batches(shards: int = 3) -> st.SearchStrategy[EncodedKeys]:
    """Distinct encoded keys of one width, in shards below ``shards``; few enough keys that batches share some."""

    def of_width(width: int) -> st.SearchStrategy[EncodedKeys]:
        key = st.binary(min_size=1, max_size=1).map(lambda byte: byte.rjust(width, b"\x7f")) | st.sampled_from(
            [bytes(width), b"\xff" * width, b"\x01" + bytes(width - 1)]
        )
        pairs = st.lists(st.tuples(st.integers(0, shards - 1), key), unique=True, max_size=12)
        return pairs.map(lambda found: _batch(found, width))

    return st.sampled_from(_WIDTHS).flatmap(of_width)


def entry_arrays(count: int) -> st.SearchStrategy[Entries]:
    """Entries of a few sequences, tombstones among them."""
    sequence = st.integers(1, 6) | st.just(MAX_SEQUENCE)
    file_group = st.integers(0, 3) | st.sampled_from([MAX_FILE_GROUP, TOMBSTONE])
    number = st.tuples(sequence, file_group).map(lambda pair: pair[0] << 32 | pair[1])
    return st.lists(number, min_size=count, max_size=count).map(lambda numbers: np.array(numbers, dtype=np.uint64))


def written_batches(shards: int = 3) -> st.SearchStrategy[tuple[EncodedKeys, Entries]]:
    """What one ``put`` takes."""
    return key_batches(shards).flatmap(lambda keys: st.tuples(st.just(keys), entry_arrays(len(keys))))


def control_names() -> st.SearchStrategy[str]:
    """A few names of control records that are prefixes of each other or nearly so."""
    return st.text("a/0", min_size=1, max_size=3)


def control_values() -> st.SearchStrategy[bytes | None]:
    """A few values of control records, absence among them."""
    return st.sampled_from([None, b"", b"\0", b"one", b"two" * 2000])


def _batch(pairs: list[tuple[int, bytes]], width: int) -> EncodedKeys:
    if not pairs:
        return EncodedKeys(np.empty(0, dtype=f"V{width}"), np.empty(0, dtype=np.uint16))
    return key_batch([key for _, key in pairs], [shard for shard, _ in pairs])


def _strings() -> st.SearchStrategy[str]:
    return st.text(st.characters(codec="utf-8"), max_size=30)


def _spellings_of_uuid(uuid: UUID) -> st.SearchStrategy[str]:
    text = str(uuid)
    return st.sampled_from(
        [text, text.upper(), text.title(), uuid.hex, f"{{{text}}}", uuid.urn, f" {text}", f"{text}\n", text[:-1]]
    )


def _spellings_of_integer(number: int) -> st.SearchStrategy[str]:
    return st.sampled_from([str(number), f"+{number}", f"0{number}", f"{number:,}", f" {number}", f"{number}.0", "-0"])


def _composite(values: list[str]) -> str:
    return ",".join(f"field{number}:{value}" for number, value in enumerate(values))
