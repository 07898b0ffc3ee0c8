"""How the JVMs of tests run: Spark, HBase."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends before better code and a garbage collector of many threads have paid off."""

SPARK_CLASSES: Final = Path(sys.prefix, "spark-classes.jsa")
"""Spark's classes as a JVM has them in memory (``tests.support.spark_classes``)."""

SHORT_LIVED_SPARK: Final = (
    f"{SHORT_LIVED} -XX:MetaspaceSize=256m -Xms512m -XX:NewRatio=1"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    f" -XX:SharedArchiveFile={SPARK_CLASSES} -Xlog:cds*=off"
)
"""The same for Spark, which makes much garbage, and whose classes are as its releases have them.

A JVM whose class path begins otherwise than that of the archive, or that finds no archive, loads its classes one by one.
"""
