"""May the executors of a Spark session use an index? Refused at once where they surely cannot."""

from __future__ import annotations

import re
import socket
from contextlib import closing
from typing import Final, Protocol, runtime_checkable

from pyspark.sql import SparkSession

from rli import SettingsError
from rli_spark.session.workers import require_same_python

_IN_THIS_MACHINE: Final = re.compile(r"local(-cluster)?(\[.*\])?")
_STANDALONE: Final = "spark://"
_OF_THE_DRIVER: Final = "memory:"


class Named(Protocol):
    """An index of any kind."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...


@runtime_checkable
class Homed(Protocol):
    """An index in a store."""

    @property
    def home(self) -> str | None:
        """Names its data where they are on one machine; None where others reach them too."""
        ...


def require_reachable(spark: SparkSession, index: Named) -> None:
    """Refuse an index that lies on this machine where Spark's executors run on others.

    Executors that may be here are let pass: each proves for itself that it reads this very index (P20).

    Raises:
        SettingsError: the index is in the memory of this process. Or its store lies on one machine, and the master is another
            one; or the executors' Python is another one than the driver's.
    """
    require_same_python(spark)
    if index.url.startswith(_OF_THE_DRIVER):
        raise SettingsError(
            f"no executor reaches an index in the memory of the driver: index={index.url}",
            remedy=(
                "bootstrap one in a store, such as lmdb:///path on a single machine, or redis: rli index bootstrap "
                "TABLE --index URL"
            ),
        )
    master = spark.conf.get("spark.master")
    home = index.home if isinstance(index, Homed) else None
    if home is not None and not (master and may_run_here(master)):
        raise SettingsError(
            f"the executors cannot reach an index on a single machine: index={index.url} host={socket.gethostname()} "
            f"master={master}",
            remedy=(
                "bootstrap an index in a store that all hosts reach, such as redis or hbase: rli index bootstrap TABLE "
                "--index URL"
            ),
        )


def may_run_here(master: str) -> bool:
    """Whether executors of a Spark master may all be on this machine."""
    if _IN_THIS_MACHINE.fullmatch(master):
        return True
    if not master.startswith(_STANDALONE):
        return False
    addresses = master.removeprefix(_STANDALONE).split(",")
    return all(_is_this_machine(address.rpartition(":")[0].strip("[]")) for address in addresses)


def _is_this_machine(host: str) -> bool:
    """Whether a name leads to an address of this machine: only to those can a socket be bound."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with closing(socket.socket(family, kind, protocol)) as bound:
                bound.bind(address)
    except OSError:
        return False
    return True
