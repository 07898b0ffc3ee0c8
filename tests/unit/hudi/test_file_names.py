from __future__ import annotations

import re
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rli.errors import CorruptTableError, UnsupportedTableError
from rli.hudi.file_names import HFILE, BaseFileName, LogFileName, base_file_names, data_file_name, new_file_id


def test_a_name_is_its_parts() -> None:
    text = "6db57019-98ee-480e-8eb1-fb3de48e1c24-0_1-119-167_20240418172804498.parquet"
    name = BaseFileName.parse(text)
    assert name == BaseFileName("6db57019-98ee-480e-8eb1-fb3de48e1c24-0", "1-119-167", "20240418172804498")
    assert str(name) == text


BASE = "f-0_1-0-1_20240418172804498.parquet"
LOG = ".f-0_20240418172804498.log.12_1-0-1"


def test_base_files_of_the_metadata_table() -> None:
    text = "record-index-0003-0_0-12-34_00000000000000004.hfile"
    name = BaseFileName.parse(text, HFILE)
    assert name == BaseFileName("record-index-0003-0", "0-12-34", "00000000000000004", HFILE)
    assert str(name) == text
    with pytest.raises(CorruptTableError, match=r"<instant>\.parquet"):
        BaseFileName.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        f".{BASE}.crc",
        f".{BASE}",
        LOG,
        "f-0_20240418172804498.parquet",
        "f-0_1-0-1_20240418172804498.lance",
        f"f_{BASE}",
        f"p/{BASE}",
    ],
)
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(CorruptTableError, match="does not have the name of a base file"):
        BaseFileName.parse(text)
    assert base_file_names(pa.array([text])).null_count == 1


@given(st.lists(st.one_of(st.text("ab_/.0\n", max_size=8), st.from_regex(r"[^_/]{1,3}_[^_/]+_\d{1,3}\.parquet.?"))))
def test_columns_tell_the_same_names(texts: list[str]) -> None:
    for text, found in zip(texts, base_file_names(pa.array(texts, pa.string())).to_pylist(), strict=True):
        try:
            name = BaseFileName.parse(text)
        except CorruptTableError:
            assert found is None
        else:
            assert found == {"file_id": name.file_id, "instant": name.instant}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (LOG, LogFileName("f-0", "20240418172804498", 12, "1-0-1")),
        (f"{LOG}.cdc", LogFileName("f-0", "20240418172804498", 12, "1-0-1", is_cdc=True)),
        (".files-0000-0_00000000000000.log.1_0-0-0", LogFileName("files-0000-0", "00000000000000", 1, "0-0-0")),
    ],
)
def test_a_log_name_is_its_parts(text: str, name: LogFileName) -> None:
    assert LogFileName.parse(text) == name
    assert str(name) == text


@pytest.mark.parametrize(
    "text", [BASE, LOG[1:], f"{LOG}.crc", f".{LOG}.crc", f"p/{LOG}", ".f-0_20240418172804498.log.x_1-0-1"]
)
def test_names_of_no_log(text: str) -> None:
    with pytest.raises(CorruptTableError, match="does not have the name of a log file"):
        LogFileName.parse(text)


def test_logs_sort_as_they_apply() -> None:
    texts = [
        ".f_20240101000000.log.2_1-0-1",
        ".f_20240101000000.log.10_0-0-1",
        ".f_20240101000000.log.10_1-0-1",
        ".f_20240102000000.log.1_0-0-0",
    ]
    assert [str(name) for name in sorted(map(LogFileName.parse, reversed(texts)))] == texts


@pytest.mark.parametrize("path", [BASE, f"a=1/b=2/{BASE}"])
def test_a_base_file_in_a_folder(path: str) -> None:
    assert data_file_name(path) == BaseFileName.parse(BASE)


def test_a_log_file_in_a_folder() -> None:
    assert data_file_name(f"a=1/{LOG}") == LogFileName.parse(LOG)


@pytest.mark.parametrize(
    "name",
    [f".{BASE}.crc", f".{LOG}.crc", ".hoodie_partition_metadata", ".hoodie_partition_metadata.parquet", "_SUCCESS"],
)
def test_files_without_records(name: str) -> None:
    assert data_file_name(f"a=1/{name}") is None


@pytest.mark.parametrize(
    "name",
    [
        "f-0_1-0-1_20240418172804498_1.log.parquet",
        "f-0_1-0-1_20240418172804498_1.deletes.parquet",
        "f-0_1-0-1_20240418172804498_1.delete.parquet",
        "f-0_1-0-1_20240418172804498_2.cdc.parquet",
        "files-0000-0_1-0-1_20240418172804498_1.log.hfile",
        ".f-0_20240418172804498.log.1",
    ],
)
def test_other_forms_of_logs(name: str) -> None:
    with pytest.raises(
        UnsupportedTableError, match=rf"versions up to 9 do not have: file=a=1/{re.escape(name)}; downgrade"
    ):
        data_file_name(f"a=1/{name}")


@pytest.mark.parametrize("extension", ["hfile", "orc", "lance"])
def test_other_formats_of_base_files(extension: str) -> None:
    with pytest.raises(UnsupportedTableError, match="not a Parquet base file: file=a=1/f-0"):
        data_file_name(f"a=1/f-0_1-0-1_20240418172804498.{extension}")


@pytest.mark.parametrize("name", ["f-0_1-0-1_20240418172804498_1.parquet", "f-0_1-0-1_2024x.parquet", "copy.parquet"])
def test_unknown_parquet_files_are_refused(name: str) -> None:
    with pytest.raises(CorruptTableError, match=rf"file=a=1/{re.escape(name)}"):
        data_file_name(f"a=1/{name}")


def test_new_file_ids_resemble_hudis() -> None:
    first, second = new_file_id(), new_file_id()
    assert first != second
    assert first.endswith("-0")
    assert str(UUID(first.removesuffix("-0"))) == first.removesuffix("-0")
