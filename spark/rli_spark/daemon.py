"""The process that Spark forks its Python workers from, with everything loaded that a write needs.

Each worker loads pandas, pyarrow and rli otherwise: seconds for each, where a batch takes less.
"""

from __future__ import annotations

import pandas as pd
import pyarrow.dataset
import pyarrow.parquet
from pyspark import daemon, worker

import rli_spark
from rli.arrow_memory import use_fast_memory
from rli_spark.session.loaded_objects import spare_loaded_objects
from rli_spark.session.zip_directories import watch_zip_directories

LOADED = (pd, pyarrow.dataset, pyarrow.parquet, worker, rli_spark)

if __name__ == "__main__":
    watch_zip_directories()
    use_fast_memory()
    spare_loaded_objects()
    daemon.manager()  # type: ignore[no-untyped-call]
