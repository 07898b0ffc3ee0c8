"""How the JVMs of tests run: Spark, HBase."""

from __future__ import annotations

from typing import Final

SHORT_LIVED: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends before better code and a garbage collector of many threads have paid off."""
