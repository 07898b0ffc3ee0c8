"""rli for PySpark: tagging, upserts, inserts, deletes, clustering and reads of tables with a record-level index."""

from importlib.util import find_spec

if find_spec("pyspark") is None:
    raise ModuleNotFoundError(
        'rli_spark needs PySpark, which is not installed; install it: pip install "record-level-index[spark]"',
        name="pyspark",
    )

from rli_spark.reads.changes import changes
from rli_spark.reads.read import read
from rli_spark.sources.functions import register_functions
from rli_spark.sources.registration import register
from rli_spark.streams.batch_writer import StreamMode
from rli_spark.streams.write_stream import TagBy, write_stream
from rli_spark.tasks import SparkTasks
from rli_spark.verbs.by_condition import delete_where, update_where
from rli_spark.verbs.cluster import cluster
from rli_spark.verbs.compact import compact
from rli_spark.verbs.delete import delete
from rli_spark.verbs.indexes import bootstrap_index, create_index, migrate_index, verify_index
from rli_spark.verbs.insert import insert
from rli_spark.verbs.merge import merge
from rli_spark.verbs.metadata import enable_metadata
from rli_spark.verbs.overwrite import drop_partitions, overwrite_partitions
from rli_spark.verbs.stage import stage, stage_deletes
from rli_spark.verbs.tag import tag
from rli_spark.verbs.upsert import upsert

__all__ = [
    "SparkTasks",
    "StreamMode",
    "TagBy",
    "bootstrap_index",
    "changes",
    "cluster",
    "compact",
    "create_index",
    "delete",
    "delete_where",
    "drop_partitions",
    "enable_metadata",
    "insert",
    "merge",
    "migrate_index",
    "overwrite_partitions",
    "read",
    "register",
    "register_functions",
    "stage",
    "stage_deletes",
    "tag",
    "update_where",
    "upsert",
    "verify_index",
    "write_stream",
]
