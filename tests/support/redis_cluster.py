"""A Redis Cluster for tests that kill its nodes and move its slots."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import redis

from tests.support.docker import Service
from tests.support.waiting import eventually

_SECONDS_OF_A_CALL: Final = 10
_SECONDS_OF_A_FAILOVER: Final = 6
"""After five, a node drops one that was ordered."""

_PATIENT: Final = 15_000
_IMPATIENT: Final = 1500


@dataclass(frozen=True, slots=True)
class Node:
    """What one node says of another one, or of itself.

    Attributes:
        node_id: its name in the cluster.
        port: where it is reached.
        is_master: whether it is one that has slots.
        is_replica: whether it follows a master.
        is_dead: whether the nodes have agreed that it is.
        master_id: of the master that it follows; "-" of a master.
        slots: the slots that a master has.
    """

    node_id: str
    port: int
    is_master: bool
    is_replica: bool
    is_dead: bool
    master_id: str
    slots: tuple[range, ...]

    @classmethod
    def parsed(cls, address: str, said: dict[str, Any]) -> Node:
        """A line of CLUSTER NODES, as the client library reads it."""
        flags = said["flags"].split(",")
        return cls(
            node_id=said["node_id"],
            port=int(address.rpartition(":")[2]),
            is_master="master" in flags and bool(said["slots"]),
            is_replica="slave" in flags,
            is_dead="fail" in flags,
            master_id=said["master_id"],
            slots=tuple(range(int(item[0]), int(item[-1]) + 1) for item in said["slots"]),
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """The nodes of a Redis Cluster, each a process in one container.

    A node that this machine keeps waiting must not lose its slots to its replica, with what it has acknowledged: only
    a master that a test kills may be followed by another one, unless the test orders it.
    """

    service: Service

    def tell(self, port: int, *command: str | int) -> Any:
        """The answer of a node; raises the error that it answers with."""
        with redis.Redis(self.service.host, port, socket_timeout=_SECONDS_OF_A_CALL) as client:
            return client.execute_command(*command)

    def nodes(self) -> frozenset[Node]:
        """What the first node that answers says of all of them."""
        return self._views()[0]

    def masters(self) -> dict[int, str]:
        """Port and id of each master that is alive and has slots."""
        return {node.port: node.node_id for node in self.nodes() if node.is_master and not node.is_dead}

    def node_of_slot(self, slot: int) -> int:
        """The port of the master that has a slot."""
        return next(node.port for node in self.nodes() for slots in node.slots if slot in slots)

    def fail_over_to(self, port: int) -> None:
        """Order a replica to take the place of its master, and wait until it has.

        Where a busy machine takes longer than the nodes have patience for, they stay as they were: they are told again.
        """
        told_at = float("-inf")

        def has_taken_over() -> bool:
            nonlocal told_at
            if self.tell(port, "ROLE")[0] == b"master":
                return True
            if time.monotonic() - told_at > _SECONDS_OF_A_FAILOVER:
                told_at = time.monotonic()
                with suppress(redis.ResponseError):  # it has become master just now
                    self.tell(port, "CLUSTER FAILOVER")
            return False

        eventually(has_taken_over, "the replica has taken over")

    def kill(self, port: int) -> None:
        """Kill a node; if it is a master, its replica will soon take over."""
        self._let_replica_take_over(port)
        self._signal("KILL", self._process(port))

    @contextmanager
    def losing_what_is_written_to(self, port: int) -> Iterator[None]:
        """Let a master's replica lack what is written in the context, and take over from the master afterwards."""
        own_id = next(node.node_id for node in self.nodes() if node.port == port)
        replica = next(node.port for node in self.nodes() if node.master_id == own_id)
        process, replica_process = self._process(port), self._process(replica)
        eventually(lambda: self._offset(replica) == self._offset(port), "the replica has all")
        self._let_replica_take_over(port)
        self._signal("STOP", replica_process)
        # What has been sent to it already, it would still read.
        self.tell(port, "CLIENT", "KILL", "TYPE", "replica")
        try:
            yield
        finally:
            self._signal("KILL", process)
            self._signal("CONT", replica_process)
        eventually(lambda: self.tell(replica, "ROLE")[0] == b"master", "the replica has taken over")

    def _let_replica_take_over(self, port: int) -> None:
        own_id = next(node.node_id for node in self.nodes() if node.port == port)
        for node in self.nodes():
            may_take_over = "no" if node.master_id == own_id else "yes"
            self.tell(node.port, "CONFIG SET", "cluster-replica-no-failover", may_take_over)
            self.tell(node.port, "CONFIG SET", "cluster-node-timeout", _IMPATIENT)

    def _process(self, port: int) -> int:
        return int(self.tell(port, "INFO", "server")["process_id"])

    def _offset(self, port: int) -> int:
        return int(self.tell(port, "INFO", "replication")["master_repl_offset"])

    def _signal(self, name: str, process: int) -> None:
        self.service.run("sh", "-c", f"kill -{name} {process}")

    def start(self, port: int) -> None:
        """Start a node that was killed; it finds its place in the cluster by itself."""
        options = "--bind 0.0.0.0 --protected-mode no --appendonly yes --save '' --cluster-enabled yes"
        self.service.start(
            "sh",
            "-c",
            f"cd {port} && exec redis-7.0 --port {port} {options} --cluster-node-timeout {_IMPATIENT} "
            "--cluster-replica-no-failover yes --cluster-announce-ip 127.0.0.1",
        )

    def mend(self) -> None:
        """Bring the cluster into order, whatever a test has done to it, and wait until all nodes see it."""
        for port in self.service.ports:
            if not self._answers(port):
                self.start(port)
        eventually(lambda: all(map(self._answers, self.service.ports)), "all nodes answer")
        for port in self.service.ports:
            self.tell(port, "CONFIG SET", "cluster-replica-no-failover", "yes")
            self.tell(port, "CONFIG SET", "cluster-node-timeout", _PATIENT)
        if self._has_open_slots():
            self.service.run(
                "redis-cli", "--cluster-yes", "--cluster", "fix", f"127.0.0.1:{next(iter(self.masters()))}"
            )
        self.await_order()

    def await_order(self) -> None:
        """Wait until every node finds the cluster whole, and all say the same of it."""
        eventually(self._is_in_order, "the cluster is whole")

    def _is_in_order(self) -> bool:
        code, _ = self.service.container.exec(["is-ready"])
        if code != 0:
            return False
        views = self._views()
        return len(views) == len(self.service.ports) and len(set(views)) == 1 and not self._has_open_slots()

    def _views(self) -> list[frozenset[Node]]:
        """What each node that answers says."""
        return [
            frozenset(Node.parsed(address, said) for address, said in self.tell(port, "CLUSTER NODES").items())
            for port in self.service.ports
            if self._answers(port)
        ]

    def _has_open_slots(self) -> bool:
        """Whether a slot is on its way; only the two nodes that it is between know."""
        return any(
            said["migrations"] for port in self.service.ports for said in self.tell(port, "CLUSTER NODES").values()
        )

    def _answers(self, port: int) -> bool:
        try:
            return bool(self.tell(port, "PING"))
        except redis.RedisError:
            return False
