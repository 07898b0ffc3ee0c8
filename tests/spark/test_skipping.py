"""What the metadata table leaves out of a read in Spark holds no record of the filter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rli
import rli_spark
from rli import Query, Table
from rli.filters.filter import Filter
from rli.hudi.meta_columns import with_meta_columns
from rli.table.table import opened_table
from rli.view.snapshot import Snapshot
from tests.support.edge_values import table_after_all_changes
from tests.support.metadata_tables import unpack_metadata_table
from tests.support.soak import cases
from tests.table.test_skipping import conditions, ids

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.fixture(scope="module", params=["kept", "v9_gaps", "v9_logs"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    """Kept by rli; by Hudi, whose statistics lack values; by Hudi, with log files."""
    folder: Path = tmp_path_factory.mktemp(request.param) / "t"
    is_ours = request.param == "kept"
    with (
        table_after_all_changes(folder, 6, rli.TableType.COPY_ON_WRITE)
        if is_ours
        else rli.open_table(unpack_metadata_table(request.param, folder)) as opened
    ):
        yield opened


@pytest.fixture(scope="module")
def full(table: Table) -> pa.Table:
    """All records of the files in the folders."""
    return Snapshot.now(opened_table(table).definition).read()


@given(data=st.data())
@settings(max_examples=cases(3), deadline=None)
def test_reads_in_spark_lose_no_record(spark: SparkSession, table: Table, full: pa.Table, data: st.DataObject) -> None:
    filters = data.draw(conditions(full))
    passes = Filter.of(filters, with_meta_columns(full.schema))
    assert passes is not None
    found = rli_spark.read(spark, table, columns=["id"], filters=filters, query=Query.SNAPSHOT)
    assert sorted(row.id for row in found.collect()) == ids(full.filter(passes.expression)), filters
