"""Names of a table's files as Spark's own readers take them: Hadoop paths.

A Hadoop path is not percent-encoded, and Spark expands the patterns of shells in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from rli.storage import Storage
from rli_spark.session.connect import is_connect

_PATTERN_CHARACTERS: Final = re.compile(r"([\\*?\[\]{}])")

_LOCAL: Final = "file"
_HADOOP_SCHEMES: Final = {"s3": "s3a", "gcs": "gs"}
"""Schemes that Hadoop may not know, with the one under which it has the same store."""


def hadoop_paths(spark: SparkSession, storage: Storage, files: Iterable[str]) -> list[str]:
    """Paths for Spark's readers, each of which stands for exactly one file.

    Args:
        spark: the session; its Hadoop decides which schemes there are.
        storage: the table's folder.
        files: paths in it.
    """
    root = _hadoop_root(spark, storage)
    return [_PATTERN_CHARACTERS.sub(r"\\\1", f"{root}/{file}") for file in files]


def _hadoop_root(spark: SparkSession, storage: Storage) -> str:
    """The table's folder: scheme, authority and path."""
    if storage.is_local:
        # Without a scheme it would be a path of Hadoop's default file system.
        return f"{_LOCAL}://{storage.root}"
    parts = urlsplit(storage.location)
    _, _, host = parts.netloc.rpartition("@")
    if storage.root.startswith("/"):
        authority, path = parts.netloc, storage.root
    elif parts.scheme.startswith("abfs"):
        # The account is no part of the path, and the container is a part of the authority.
        authority, path = parts.netloc, storage.root.partition("/")[2]
    else:
        # The bucket. Credentials are for Hadoop's own configuration.
        authority, path = host, storage.root.removeprefix(host)
    return f"{_known_scheme(spark, parts.scheme)}://{authority}/{path.strip('/')}".rstrip("/")


def _known_scheme(spark: SparkSession, scheme: str) -> str:
    instead = _HADOOP_SCHEMES.get(scheme)
    return instead if instead is not None and not _is_known(spark, scheme) else scheme


def _is_known(spark: SparkSession, scheme: str) -> bool:
    """Whether Hadoop has a file system for a scheme; False in a session of Spark Connect, which cannot ask it."""
    if is_connect(spark):
        return False
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (a client of Spark Connect may lack it)

    gateway = spark.sparkContext
    try:
        gateway._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(  # type: ignore[union-attr]  # noqa: SLF001
            scheme,
            gateway._jsc.hadoopConfiguration(),  # noqa: SLF001
        )
    except Py4JJavaError:
        return False
    return True
