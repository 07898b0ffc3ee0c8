"""Builds the images of the tests' servers and fetches Spark packages, all side by side: ``python -m tests.support.prepared``.

Tests do the same where it is not done yet, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.support.docker import DOCKERFILES, image_of
from tests.support.hudi import HUDI_VERSIONS
from tests.support.spark_packages import HUDI_BUNDLE, S3_PACKAGES, jar_of


def prepare() -> None:
    """Do all of it; raises the first error."""
    images = sorted(path.parent.name for path in DOCKERFILES.glob("*/Dockerfile"))
    jobs: list[Callable[[], object]] = [
        *(partial(image_of, name) for name in images),
        *(partial(jar_of, HUDI_BUNDLE.format(version=version)) for version in HUDI_VERSIONS),
        *(partial(jar_of, package) for package in S3_PACKAGES),
    ]
    with ThreadPoolExecutor(len(jobs)) as threads:
        for done in [threads.submit(job) for job in jobs]:
            done.result()


if __name__ == "__main__":
    prepare()
