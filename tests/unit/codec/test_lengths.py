"""Strings as matrices: a single one tells the same bytes as among others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rli.codec.lengths import by_length
from rli.codec.string_fingerprints import string_fingerprints

TYPES = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.dictionary(pa.int8(), pa.string()))


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("text", ["a", "ä日", "\0", "", None])
def test_single_string_equals_among_others(kind: pa.DataType, text: str | None) -> None:
    among = pa.array(["first", text, "last"], pa.string())
    alone = among.slice(1, 1).cast(kind)
    told = [(positions.tolist(), matrix.tobytes()) for positions, matrix in by_length(alone)]
    assert told == ([] if text is None else [([0], text.encode())])
    assert string_fingerprints(alone).tolist() == string_fingerprints(among).tolist()[1:2]


def test_single_null_has_no_bytes() -> None:
    assert list(by_length(pa.nulls(1))) == []
