"""Tables of Hudi in S3: Hadoop's connector, and the lock in the storage."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.support.at_once import Place
from tests.support.hudi_locks import HudiJvm
from tests.support.object_store import ObjectStore
from tests.support.spark_packages import S3_PACKAGES, jar_of

# Longer than any pause of Hudi: its writers do not look at the lock again before they publish.
_VALIDITY: Final = {
    "hoodie.write.lock.storage.validity.timeout.secs": "60",
    "hoodie.write.lock.storage.renew.interval.secs": "6",
}
_LONGEST_PAUSE: Final = 90.0
"""Of a process of rli: it loses the lock meanwhile."""


def place_in_s3(store: ObjectStore, folder: Path) -> Place:
    """A place for a table in a bucket of its own.

    Args:
        store: a server.
        folder: an empty one, for what Hudi needs.
    """
    with HudiJvm() as jvm:
        jvm.compile_client_of_s3(folder)
    settings = {
        "fs.s3a.endpoint": store.url,
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": store.options["access_key_id"],
        "fs.s3a.secret.key": store.options["secret_access_key"],
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (folder / "core-site.xml").write_text(f"<configuration>{properties}</configuration>")
    bucket = store.new_bucket()
    return Place(
        location=f"s3://{bucket}/trips",
        hudi_location=f"s3a://{bucket}/trips",
        storage_options=store.options,
        hudi_options={"rli.tests.endpoint": store.url},
        properties=_VALIDITY,
        class_path=(folder, *map(jar_of, S3_PACKAGES)),
        longest_pause=_LONGEST_PAUSE,
    )
