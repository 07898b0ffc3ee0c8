"""The lock that commits share with writers of Hudi, on the command line."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Rli

pytestmark = pytest.mark.invariant("P55")

PROVIDER = "hoodie.write.lock.provider"
OF_ZOOKEEPER = "zookeeper://zk1:2181,zk2:2181/hudi/locks?key=trips"


def test_lock_is_shown_and_changed(rli: Rli) -> None:
    rli("create", "t", "--record-key", "id", "--json")
    assert rli("lock", "t", "--json").json == {"lock": "lease", "properties": {}}
    changed = rli("lock", "t", "--set", "filesystem", "--json").json
    assert changed["lock"] == "filesystem"
    assert changed["properties"][PROVIDER].endswith("FileSystemBasedLockProvider")
    assert changed["properties"]["hoodie.clean.failed.writes.policy"] == "LAZY"
    assert "no such choice" in rli("lock", "t", "--set", "dynamodb", status=2).err
    assert "take the lock filesystem" in rli("lock", "t", "--set", "storage", status=2).err
    assert rli("lock", "t", "--set", "lease", "--json").json == {"lock": "lease", "properties": {}}


def test_lock_in_zookeeper_is_kept(rli: Rli) -> None:
    created = rli("create", "t", "--record-key", "id", "--lock", OF_ZOOKEEPER, "--json")
    assert created.status == 0
    found = rli("lock", "t", "--json").json
    assert found["lock"] == OF_ZOOKEEPER
    assert found["properties"]["hoodie.write.lock.zookeeper.url"] == "zk1:2181,zk2:2181"
    assert found["properties"]["hoodie.write.lock.zookeeper.base_path"] == "/hudi/locks"
    assert found["properties"]["hoodie.write.lock.zookeeper.lock_key"] == "trips"
    again = ("create", "t", "--record-key", "id", "--if-exists", "open", "--lock")
    rli(*again, f"{OF_ZOOKEEPER.replace('?', '/?')}", "--json")
    assert "zookeeper" in rli(*again, "filesystem", status=2).err
    assert "write it as" in rli("create", "u", "--record-key", "id", "--lock", "zookeeper://zk1", status=2).err
