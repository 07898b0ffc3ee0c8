from __future__ import annotations

from uuid import UUID

import pytest

from rli.errors import CorruptTableError
from rli.hudi.file_names import BaseFileName, new_file_id


def test_a_name_is_its_parts() -> None:
    text = "6db57019-98ee-480e-8eb1-fb3de48e1c24-0_1-119-167_20240418172804498.parquet"
    name = BaseFileName.parse(text)
    assert name == BaseFileName("6db57019-98ee-480e-8eb1-fb3de48e1c24-0", "1-119-167", "20240418172804498")
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        ".f-0_1-0-1_20240418172804498.parquet.crc",
        ".f-0_20240418172804498.log.1_0-1-0",
        "f-0_20240418172804498.parquet",
        "f-0_1-0-1_20240418172804498.lance",
        "f_0_1-0-1_20240418172804498.parquet",
        "p/f-0_1-0-1_20240418172804498.parquet",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(CorruptTableError, match="does not have the name of a base file"):
        BaseFileName.parse(text)


def test_new_file_ids_resemble_hudis() -> None:
    first, second = new_file_id(), new_file_id()
    assert first != second
    assert first.endswith("-0")
    assert str(UUID(first.removesuffix("-0"))) == first.removesuffix("-0")
