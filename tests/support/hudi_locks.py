"""Hudi's lock providers in a JVM of their own, without Spark: it starts in two seconds, and may be paused and killed.

The client of S3 for ``StorageBasedLockProvider`` is in a module of Hudi that Hudi's bundle for Spark lacks. A class of the same name
in ``S3StorageLockClient.java`` stands in for it; Spark's own compiler compiles the class. All else is Hudi's.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

import pyspark
from py4j import java_gateway, protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from tests.support.hudi import HUDI_VERSIONS
from tests.support.java import SHORT_LIVED
from tests.support.spark_packages import HUDI_BUNDLE, jar_of

_SHORT_MILLISECONDS: Final = 20
_PATIENCE_MILLISECONDS: Final = 300_000
"""For a lock that is free, or lapses soon: on a busy machine a first connection alone may take seconds."""

_CLIENT_OF_S3: Final = Path(__file__).with_name("S3StorageLockClient.java")
_JAVA_VERSION: Final = 8

FILE_LOCK: Final = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.client.num_retries": "600",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "60",
}
"""Options of a writer of Hudi that shares a lock file with others."""


class HudiLock:
    """A lock of one writer of Hudi."""

    def __init__(self, jvm: Any, provider: Any) -> None:
        self._jvm = jvm
        self._provider = provider

    def take(self) -> None:
        """Take the lock, which is free or becomes free."""
        assert self._attempt(_PATIENCE_MILLISECONDS)

    def attempt(self) -> bool:
        """Take the lock; False if it is not free, or if the servers do not answer at once."""
        return self._attempt(_SHORT_MILLISECONDS)

    def _attempt(self, milliseconds: int) -> bool:
        try:
            return bool(self._provider.tryLock(milliseconds, self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS))
        except Py4JJavaError as error:
            # Some providers return false, others raise.
            if "HoodieLockException" not in str(error.java_exception):
                raise
            return False

    def release(self) -> None:
        """Release the lock in two steps, as Hudi's lock manager does."""
        self._provider.unlock()
        self.close()

    def close(self) -> None:
        """End the writer without the lock."""
        self._provider.close()


class HudiJvm:
    """A JVM with Hudi of the newest version."""

    def __init__(self) -> None:
        bundle = jar_of(HUDI_BUNDLE.format(version=HUDI_VERSIONS[0]))
        jars = Path(pyspark.__file__).parent / "jars"
        self._classes = TemporaryDirectory(prefix="hudi-classes-")
        port, self._process = launch_gateway(
            classpath=f"{self._classes.name}:{bundle}:{jars}/*",
            javaopts=[*SHORT_LIVED.split(), "-Dorg.apache.logging.log4j.level=WARN"],
            die_on_exit=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, enable_memory_management=False))

    def lock(self, provider: str, options: Mapping[str, str]) -> HudiLock:
        """A new instance of a provider, as each commit of a writer makes one."""
        jvm: Any = self._gateway.jvm
        properties = jvm.org.apache.hudi.common.config.TypedProperties()
        for key, value in options.items():
            properties.setProperty(key, value)
        settings = jvm.org.apache.hudi.common.config.LockConfiguration(properties)
        hadoop = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(
            jvm.org.apache.hadoop.conf.Configuration()
        )
        return HudiLock(jvm, getattr(jvm.org.apache.hudi.client.transaction.lock, provider)(settings, hadoop))

    def compile_client_of_s3(self, folder: Path | None = None) -> None:
        """Let JVMs have a client of S3 for ``StorageBasedLockProvider``.

        Args:
            folder: of their class path; by default the one of this JVM.
        """
        jvm: Any = self._gateway.jvm
        compiler = jvm.org.codehaus.janino.CompilerFactory().newCompiler()
        compiler.setSourceVersion(_JAVA_VERSION)
        compiler.setTargetVersion(_JAVA_VERSION)
        compiler.setDestinationDirectory(jvm.java.io.File(str(folder or self._classes.name)), False)  # noqa: FBT003  (of Java)
        files = self._gateway.new_array(jvm.java.io.File, 1)
        files[0] = jvm.java.io.File(str(_CLIENT_OF_S3))
        assert compiler.compile(files)

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            # A thread of py4j closes the others.
            with suppress(OSError):
                self._process.stdin.close()

    def __enter__(self) -> Self:
        # Where a Spark session has been in this process, PySpark has Py4J ask Spark's JVM about the errors of all JVMs.
        self._converting = java_gateway.get_return_value
        java_gateway.get_return_value = protocol.get_return_value
        return self

    def __exit__(self, *_: object) -> None:
        java_gateway.get_return_value = self._converting
        self._gateway.close()
        self.kill()
        self._classes.cleanup()
