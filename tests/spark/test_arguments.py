"""What a function of rli_spark says of a path, a frame of pandas or swapped arguments. Needs no session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import rli
import rli_spark
from rli.errors import InvalidInputError

WRITERS: tuple[Callable[..., Any], ...] = (rli_spark.upsert, rli_spark.insert, rli_spark.delete, rli_spark.tag)
READERS: tuple[Callable[..., Any], ...] = (
    rli_spark.read,
    rli_spark.cluster,
    rli_spark.bootstrap_index,
    rli_spark.verify_index,
    rli_spark.enable_metadata,
)


def refusal(function: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(InvalidInputError) as refused:
        function(*arguments)
    return str(refused.value)


@pytest.mark.parametrize("function", [*WRITERS, *READERS], ids=lambda function: function.__name__)
def test_wrong_argument_types_are_named(function: Callable[..., Any], tmp_path: Path) -> None:
    with rli.create_table(tmp_path / "t", record_key="id", index="memory:arguments") as table:
        frame = pd.DataFrame({"id": ["a"]})
        path = str(tmp_path / "t")
        assert f"the table is a path: table={path!r}; open it first: rli.open_table({path!r})" in refusal(
            function, frame, path
        )
        assert refusal(function, frame, Path(path)).startswith("the table is a path: ")
        assert "wrong order: first=rli.Table second=pandas.DataFrame" in refusal(function, table, frame)
        assert refusal(function, frame, None).startswith("not a table: type=NoneType; give what rli.open_table")
        needed = "not a Spark data frame" if function in WRITERS else "not a Spark session"
        assert f"{needed}: type=pandas.DataFrame; " in refusal(function, frame, table)
        assert f"{needed}: type=pyarrow.Table; " in refusal(function, pa.table({"id": ["a"]}), table)
        table.drop_index()
