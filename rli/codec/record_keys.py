"""Record keys as bytes: lossless, and short where keys are regular.

=====================  ============================================================  ==================
record key             encoded                                                       bytes
=====================  ============================================================  ==================
canonical UUID         its 128 bits (lower case, dashes at 8-13-18-23)               16
decimal integer        kind ``0x10 + n``, magnitude in n big-endian bytes            1 + n, n = 0 … 8
negative integer       kind ``0x20 + n``, magnitude in n big-endian bytes            1 + n, n = 1 … 8
any other text         kind ``0x01``, UTF-8                                          1 + length, never 16
text of 15 bytes       kind ``0x02``, UTF-8, ``0x00``                                17
=====================  ============================================================  ==================

An integer is canonical decimal text of at most 18 digits; "007", "-0" and "+5" are text. Only a UUID takes 16
bytes, so it needs no kind. The work is done on whole batches: keys of equal length are one byte matrix.
"""

from __future__ import annotations

from binascii import Error as BinasciiError
from binascii import a2b_hex, b2a_hex
from collections import defaultdict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, TypeVar

import mmh3
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec.lengths import Matrix, Positions, by_length
from rli.errors import CorruptIndexError, InvalidKeyError

Item = TypeVar("Item", bound=np.generic)

_UUID_WIDTH: Final = 16
_UUID_LENGTH: Final = 36
_UUIDS_AT_ONCE: Final = 1 << 14
"""So many stay in the processor's cache."""

_DASHES: Final = np.array([8, 13, 18, 23])
_UUID_STRING: Final = np.dtype(
    {
        "names": ["time_low", "time_mid", "time_high", "clock", "node"],
        "formats": ["V8", "V4", "V4", "V4", "V12"],
        "offsets": [0, 9, 14, 19, 24],
    }
)
"""The groups of hexadecimal digits in a UUID's text, named as RFC 9562 does; between them are the dashes."""

_ALL_TRUE: Final = np.frombuffer(b"\x01" * 8, dtype=np.uint64)[0]
"""Eight of numpy's booleans, as one number."""

_UUID_DIGITS: Final = np.dtype([(name, _UUID_STRING[name]) for name in _UUID_STRING.names or ()])
"""The same groups without what is between them."""

_STRING: Final = 0x01
_STRING_PADDED: Final = 0x02
_INTEGER: Final = 0x10
_NEGATIVE: Final = 0x20

_MAX_DIGITS: Final = 18

_MAGNITUDE_BOUNDS: Final = np.array([256**n for n in range(8)], dtype=np.uint64)


def encode(record_keys: pa.Array) -> list[tuple[Positions, NDArray[np.void]]]:
    """Encode record keys (string array, shape (n,), no nulls), grouped by encoded width.

    Returns:
        For each width that occurs: the positions in ``record_keys``, and the encoded keys (dtype ``V<width>``).

    Raises:
        InvalidKeyError: a key is null.
    """
    require_no_nulls(record_keys)
    parts: dict[int, list[tuple[Positions, Matrix]]] = defaultdict(list)
    for positions, text in by_length(record_keys):
        for chosen, encoded in _encode_equal_length(text):
            parts[encoded.shape[1]].append((positions if chosen is None else positions[chosen], encoded))
    return [
        (_concatenate([positions for positions, _ in part]), as_items(_concatenate([matrix for _, matrix in part])))
        for _, part in sorted(parts.items())
    ]


def decode(keys: NDArray[np.void]) -> pa.StringArray:
    """The record keys of encoded keys of one width, in order; raises ``CorruptIndexError`` for unknown bytes."""
    width = keys.dtype.itemsize
    matrix = np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), width)
    if width == _UUID_WIDTH:
        return _fixed_strings(_uuid_string(matrix))
    kinds = matrix[:, 0]
    out = np.empty(len(keys), dtype=object)
    for kind in np.unique(kinds):
        chosen = np.flatnonzero(kinds == kind)
        out[chosen] = _decode_kind(int(kind), matrix[chosen])
    return pa.array(out, pa.string())


def digest(record_keys: pa.Array) -> NDArray[np.void]:
    """The 128-bit MurmurHash3 (x64) of each record key (string array, shape (n,)), dtype ``V16``."""
    require_no_nulls(record_keys)
    utf8 = record_keys.cast(pa.binary()).to_pylist()
    joined = b"".join(map(mmh3.mmh3_x64_128_digest, utf8))
    return np.frombuffer(joined, dtype=f"V{_UUID_WIDTH}")


def keyed_digest(record_keys: pa.Array, key: bytes) -> NDArray[np.void]:
    """The 128-bit BLAKE2b of each record key (string array, shape (n,)) under a key of 32 bytes, dtype ``V16``."""
    require_no_nulls(record_keys)
    # Copying a state that has taken the key in costs half as much as beginning with the key each time.
    begin = blake2b(digest_size=_UUID_WIDTH, key=key).copy
    joined = b"".join([_digest_of(begin(), text) for text in record_keys.cast(pa.binary()).to_pylist()])
    return np.frombuffer(joined, dtype=f"V{_UUID_WIDTH}")


def _digest_of(state: blake2b, text: bytes) -> bytes:
    state.update(text)
    return state.digest()


def as_items(matrix: Matrix) -> NDArray[np.void]:
    """A byte matrix of shape (n, width) as n items of dtype ``V<width>``."""
    return np.ascontiguousarray(matrix).view(f"V{matrix.shape[1]}").reshape(len(matrix))


def _encode_equal_length(text: Matrix) -> Iterator[tuple[Positions | None, Matrix]]:
    """Encoded forms of texts of one length, each with the rows it is of (None: all of them)."""
    count, length = text.shape
    if length == _UUID_LENGTH:
        regular, encoded = _encode_uuids(text)
    elif 1 <= length <= _MAX_DIGITS + 1:
        regular, encoded = _integer_rows(text), None
    else:
        yield None, _encode_string(text)
        return
    if regular.all():
        yield from ((None, encoded),) if encoded is not None else _encode_integers(text, np.arange(count))
        return
    rows = np.flatnonzero(regular)
    if len(rows):
        yield from ((rows, encoded),) if encoded is not None else _encode_integers(text[rows], rows)
    irregular = np.flatnonzero(~regular)
    yield irregular, _encode_string(text[irregular])


def _encode_uuids(text: Matrix) -> tuple[NDArray[np.bool_], Matrix]:
    """Which rows are canonical UUIDs, and the 128 bits of these."""
    parts = [_encode_few_uuids(text[start : start + _UUIDS_AT_ONCE]) for start in range(0, len(text), _UUIDS_AT_ONCE)]
    return _concatenate([canonical for canonical, _ in parts]), _concatenate([bits for _, bits in parts])


def _encode_few_uuids(text: Matrix) -> tuple[NDArray[np.bool_], Matrix]:
    groups = text.view(_UUID_STRING).reshape(len(text))
    digits = np.empty((len(text), 2 * _UUID_WIDTH), dtype=np.uint8)
    np.copyto(digits.view(_UUID_DIGITS).reshape(len(text)), groups)
    canonical: NDArray[np.bool_] = (text[:, _DASHES] == ord("-")).all(axis=1)
    bits = _bits_of(digits)
    if bits is None:
        hexadecimal = (digits - np.uint8(ord("0")) <= 9) | (digits - np.uint8(ord("a")) <= 5)
        canonical &= (hexadecimal.view(np.uint64) == _ALL_TRUE).all(axis=1)
    if bits is None or not canonical.all():
        bits = a2b_hex(digits[canonical].data)
    return canonical, np.frombuffer(bits, dtype=np.uint8).reshape(-1, _UUID_WIDTH)


def _bits_of(digits: Matrix) -> bytes | None:
    """The bits of lower-case hexadecimal digits; None if any of them is something else."""
    try:
        bits = a2b_hex(digits.data)
    except BinasciiError:
        return None
    # Digits in upper case come back in lower case.
    again = np.frombuffer(b2a_hex(bits), np.uint64)
    return bits if np.array_equal(again, digits.view(np.uint64).reshape(-1)) else None


def _integer_rows(text: Matrix) -> NDArray[np.bool_]:
    length = text.shape[1]
    digits = (text - np.uint8(ord("0"))) <= 9
    tail = digits[:, 1:].all(axis=1)
    first_nonzero = text[:, 0] != ord("0")
    unsigned = digits[:, 0] & tail & (first_nonzero | (length == 1)) & (length <= _MAX_DIGITS)
    if length == 1:
        return unsigned
    return unsigned | ((text[:, 0] == ord("-")) & tail & (text[:, 1] != ord("0")))


def _encode_integers(text: Matrix, rows: Positions) -> Iterator[tuple[Positions, Matrix]]:
    """Encode canonical integers of one text length; ``rows`` are their positions."""
    negative = text[:, 0] == ord("-")
    values = np.where(text == ord("-"), 0, text - np.uint8(ord("0"))).astype(np.uint64)
    powers = np.uint64(10) ** np.arange(text.shape[1] - 1, -1, -1, dtype=np.uint64)
    magnitudes = values @ powers
    widths = np.searchsorted(_MAGNITUDE_BOUNDS, magnitudes, side="right")
    widths[magnitudes == 0] = 0
    big_endian = magnitudes.astype(">u8").view(np.uint8).reshape(len(text), 8)
    kinds = (np.where(negative, _NEGATIVE, _INTEGER) + widths).astype(np.uint8)
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        yield rows[chosen], np.column_stack([kinds[chosen], big_endian[chosen, 8 - width :]])


def _encode_string(text: Matrix) -> Matrix:
    count, length = text.shape
    padded = length + 1 == _UUID_WIDTH
    encoded = np.zeros((count, length + (2 if padded else 1)), dtype=np.uint8)
    encoded[:, 0] = _STRING_PADDED if padded else _STRING
    encoded[:, 1 : length + 1] = text
    return encoded


def _uuid_string(matrix: Matrix) -> Matrix:
    text = np.full((len(matrix), _UUID_LENGTH), ord("-"), dtype=np.uint8)
    digits = np.frombuffer(b2a_hex(matrix.data), dtype=_UUID_DIGITS)
    np.copyto(text.view(_UUID_STRING).reshape(len(text)), digits)
    return text


def _decode_kind(kind: int, matrix: Matrix) -> list[str]:
    width = matrix.shape[1]
    if kind == _STRING:
        return _decode_strings(matrix[:, 1:])
    if kind == _STRING_PADDED and width == _UUID_WIDTH + 1:
        return _decode_strings(matrix[:, 1:-1])
    if kind == _INTEGER + width - 1:
        return [str(int.from_bytes(row, "big")) for row in _rows(matrix[:, 1:])]
    if kind == _NEGATIVE + width - 1 and width > 1:
        return [str(-int.from_bytes(row, "big")) for row in _rows(matrix[:, 1:])]
    raise CorruptIndexError(
        f"an index entry has an unknown key encoding: kind={kind:#04x} width={width}",
        remedy="the index was damaged, or written by a newer version of rli",
    )


def _decode_strings(matrix: Matrix) -> list[str]:
    try:
        return [row.decode() for row in _rows(matrix)]
    except UnicodeDecodeError as error:
        raise CorruptIndexError(
            f"an index entry has a key that is no string ({error})", remedy="the index was damaged: bootstrap it again"
        ) from error


def _rows(matrix: Matrix) -> list[bytes]:
    if matrix.shape[1] == 0:
        return [b""] * len(matrix)
    rows: list[bytes] = as_items(matrix).tolist()
    return rows


def _fixed_strings(text: Matrix) -> pa.StringArray:
    count, length = text.shape
    offsets = np.arange(0, (count + 1) * length, length, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text)))


def _concatenate(arrays: list[NDArray[Item]]) -> NDArray[Item]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def require_no_nulls(record_keys: pa.Array) -> None:
    """Raise ``InvalidKeyError`` for a key that is null."""
    if record_keys.null_count:
        position = pc.index(pc.is_null(record_keys), True).as_py()
        raise InvalidKeyError(f"a record key is null: row={position}", row=position, remedy="every record needs a key")
