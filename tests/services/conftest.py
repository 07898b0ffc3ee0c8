"""What tests on real servers share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.docker import Service
from tests.support.redis_cluster import Cluster


@pytest.fixture
def cluster(redis_cluster: Service) -> Iterator[Cluster]:
    """A cluster in order, and in order again afterwards."""
    cluster = Cluster(redis_cluster)
    cluster.mend()
    yield cluster
    cluster.mend()
