"""What an index of files says of keys, from the locations that files hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa
import pytest

from rli.errors import CorruptTableError
from rli.index.locators import FileLocator
from rli.locations import LOCATION_SCHEMA
from rli.model import FileGroupId, Scope
from rli.view.file_slices import FileSlice

Where = tuple[str | None, str | None]


class KnownFiles(FileLocator):
    """Files of which the keys are given: partition path and file id → keys."""

    def __init__(self, files: Mapping[tuple[str, str], Sequence[str]], scope: Scope) -> None:
        self.scope = scope
        self._files = files

    def candidates(self, partition_paths: Collection[str] | None) -> Sequence[FileSlice]:
        asked = None if self.scope is Scope.GLOBAL else partition_paths
        groups = (FileGroupId(*name) for name in self._files)
        return [slice_of(group) for group in groups if asked is None or group.partition_path in asked]

    def stored(self, file_slices: Sequence[FileSlice]) -> Iterator[pa.Table]:
        for group in (file_slice.group for file_slice in file_slices):
            rows = [(key, *group, "1") for key in self._files[group]]
            columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
            yield pa.table(columns, schema=LOCATION_SCHEMA)


def slice_of(group: FileGroupId) -> FileSlice:
    return FileSlice(group, "1", None)


FILES = {("x", "f1"): ["a", "b"], ("x", "f2"): ["c"], ("y", "f3"): ["a", "d"]}


def located(table: pa.Table) -> list[Where]:
    return list(zip(table["partition_path"].to_pylist(), table["file_id"].to_pylist(), strict=True))


def test_records_get_locations_in_order() -> None:
    locator = KnownFiles(FILES, Scope.GLOBAL)
    found = locator.locate(pa.array(["d", "nobody", "c", "b"]), pa.array(["x", "x", "x", "elsewhere"]))
    assert found.schema == LOCATION_SCHEMA
    assert found["record_key"].to_pylist() == ["d", "nobody", "c", "b"]
    assert located(found) == [("y", "f3"), (None, None), ("x", "f2"), ("x", "f1")]


def test_same_key_elsewhere_is_another_record() -> None:
    locator = KnownFiles(FILES, Scope.PARTITION)
    found = locator.locate(pa.array(["a", "a", "d", "b"]), pa.array(["x", "y", "x", "z"]))
    assert located(found) == [("x", "f1"), ("y", "f3"), (None, None), (None, None)]


def test_path_and_key_are_not_confused() -> None:
    locator = KnownFiles({("p", "f1"): ["a\0b"], ("pa", "f2"): ["b"]}, Scope.PARTITION)
    found = locator.locate(pa.array(["b", "a\0b", "b"]), pa.array(["p", "p", "pa"]))
    assert located(found) == [(None, None), ("p", "f1"), ("pa", "f2")]


def test_repeated_key_in_table_is_error() -> None:
    locator = KnownFiles({**FILES, ("y", "f4"): ["d"]}, Scope.PARTITION)
    assert located(locator.locate(pa.array(["a", "c"]), pa.array(["y", "x"]))) == [("y", "f3"), ("x", "f2")]
    with pytest.raises(CorruptTableError, match=r"more than once.*'d'"):
        locator.locate(pa.array(["c", "d"]), pa.array(["x", "y"]))


@pytest.mark.parametrize("scope", Scope)
def test_all_records_with_key_are_found(scope: Scope) -> None:
    found = KnownFiles(FILES, scope).locate_all(pa.array(["a", "nobody", "c"]))
    assert sorted(zip(found["record_key"].to_pylist(), located(found), strict=True)) == [
        ("a", ("x", "f1")),
        ("a", ("y", "f3")),
        ("c", ("x", "f2")),
    ]


@pytest.mark.parametrize("scope", Scope)
def test_a_table_without_files_holds_nothing(scope: Scope) -> None:
    locator = KnownFiles({}, scope)
    assert located(locator.locate(pa.array(["a"]), pa.array(["x"]))) == [(None, None)]
    assert locator.locate_all(pa.array(["a"])).num_rows == 0
    assert locator.locate(pa.array([], pa.string()), pa.array([], pa.string())).num_rows == 0
