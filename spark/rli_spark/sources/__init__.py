"""The format ``rli`` of ``spark.read`` and ``spark.readStream``: PySpark 4's Python data source."""
