from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rli.errors import CorruptTableError
from rli.hudi.metadata.index_definitions import (
    DEFAULT_PATH,
    IndexDefinition,
    format_index_definitions,
    load_index_definitions,
)
from rli.hudi.properties import new_table_properties
from rli.storage import Storage

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
DEFINITIONS = st.builds(
    IndexDefinition,
    TEXT,
    TEXT,
    TEXT,
    st.lists(TEXT).map(tuple),
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.sampled_from(["V1", "V2"]),
)
PROPERTIES = new_table_properties("trips", record_key_fields=("id",))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(DEFINITIONS, max_size=3, unique_by=lambda definition: definition.name))
def test_definitions_survive_their_file(tmp_path: Path, definitions: list[IndexDefinition]) -> None:
    storage = _with_file(tmp_path, format_index_definitions(definitions))
    assert load_index_definitions(storage, PROPERTIES) == {definition.name: definition for definition in definitions}


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"indexDefinitions": {"a": 1}}', b'{"indexDefinitions": []}'])
def test_damaged_definitions_are_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CorruptTableError, match=DEFAULT_PATH):
        load_index_definitions(_with_file(tmp_path, content), PROPERTIES)


def test_a_table_without_definitions(tmp_path: Path) -> None:
    assert load_index_definitions(Storage(str(tmp_path)), PROPERTIES) == {}


def _with_file(folder: Path, content: bytes) -> Storage:
    path = folder / DEFAULT_PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return Storage(str(folder))
