"""Record keys that are unique in their partition: the partition path and the key, as one string and as bytes.

As a string, a null character stands between both: no partition path holds one. As bytes, the encoded record key
(``rli.codec.record_keys``) follows the length of the partition path in two bytes, the path in UTF-8, and as many null
bytes as make these a multiple of four: paths of similar lengths give keys of the same width.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rli.codec import record_keys as encoding
from rli.codec.lengths import Matrix, Positions
from rli.errors import CorruptIndexError, InvalidKeyError

_SEPARATOR: Final = "\0"
_LENGTH_BYTES: Final = 2
_MULTIPLE: Final = 4


def joined(partition_paths: pa.Array, record_keys: pa.Array) -> pa.Array:
    """Both as one string: string array, shape (n,); null where a key is null."""
    return pc.binary_join_element_wise(partition_paths, record_keys, _SEPARATOR)


def split(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The partition paths and the record keys of such strings (shape (n,), no nulls); the keys may hold null characters."""
    parts = pc.split_pattern(keys, _SEPARATOR, max_splits=1).flatten()
    if len(parts) != 2 * len(keys):
        raise InvalidKeyError(
            f"record keys have no partition: keys={keys.slice(0, 5).to_pylist()}", remedy="name it for each key"
        )
    firsts = pa.array(np.arange(0, len(parts), 2))
    return parts.take(firsts), parts.take(pc.add(firsts, 1))


def encode(keys: pa.Array) -> list[tuple[Positions, NDArray[np.void]]]:
    """Encode strings of ``joined``, grouped by encoded width; as ``record_keys.encode``."""
    encoding.require_no_nulls(keys)
    if not len(keys):
        return []
    partition_paths, record_keys = split(keys)
    paths = pc.dictionary_encode(partition_paths)
    codes = paths.indices.to_numpy(zero_copy_only=False)
    heads = [_head_of(path) for path in paths.dictionary.cast(pa.binary()).to_pylist()]
    lengths = np.array([len(head) for head in heads])
    head_of = np.frombuffer(b"".join(head.ljust(lengths.max(), b"\0") for head in heads), np.uint8)
    head_of = head_of.reshape(len(heads), int(lengths.max()))
    parts: dict[int, list[tuple[Positions, Matrix]]] = defaultdict(list)
    for positions, items in encoding.encode(record_keys):
        tails = _matrix(items)
        own = codes[positions]
        for length in np.unique(lengths[own]).tolist():
            chosen = np.flatnonzero(lengths[own] == length)
            rows = np.hstack([head_of[own[chosen], :length], tails[chosen]])
            parts[rows.shape[1]].append((positions[chosen], rows))
    return [
        (np.concatenate([where for where, _ in part]), encoding.as_items(np.concatenate([rows for _, rows in part])))
        for _, part in sorted(parts.items())
    ]


def decode(keys: NDArray[np.void]) -> pa.Array:
    """The strings of encoded keys of one width, in order; raises ``CorruptIndexError`` for bytes that are none."""
    matrix = _matrix(keys)
    lengths = matrix[:, 0].astype(np.intp) << 8 | matrix[:, 1]
    paths, found = np.empty(len(keys), dtype=object), np.empty(len(keys), dtype=object)
    for length in np.unique(lengths).tolist():
        chosen, width = np.flatnonzero(lengths == length), _padded(_LENGTH_BYTES + length)
        if width >= matrix.shape[1]:
            raise CorruptIndexError(
                f"an index entry has an unknown key encoding: partition path of {length} bytes in a key of "
                f"{matrix.shape[1]}",
                remedy="the index was damaged: bootstrap it again",
            )
        paths[chosen] = [_string(bytes(row)) for row in matrix[chosen, _LENGTH_BYTES : _LENGTH_BYTES + length]]
        found[chosen] = encoding.decode(encoding.as_items(matrix[chosen, width:])).to_numpy(zero_copy_only=False)
    return joined(pa.array(paths, pa.string()), pa.array(found, pa.string()))


def _string(path: bytes) -> str:
    try:
        return path.decode()
    except UnicodeDecodeError as error:
        raise CorruptIndexError(
            f"an index entry has a partition path that is no string ({error})",
            remedy="the index was damaged: bootstrap it again",
        ) from error


def _head_of(path: bytes) -> bytes:
    if len(path) >> (8 * _LENGTH_BYTES):
        raise InvalidKeyError(f"a partition path is too long: bytes={len(path)}", remedy="partition by shorter values")
    head = len(path).to_bytes(_LENGTH_BYTES, "big") + path
    return head.ljust(_padded(len(head)), b"\0")


def _padded(length: int) -> int:
    return -(-length // _MULTIPLE) * _MULTIPLE


def _matrix(keys: NDArray[np.void]) -> Matrix:
    return np.ascontiguousarray(keys).view(np.uint8).reshape(len(keys), keys.dtype.itemsize)
