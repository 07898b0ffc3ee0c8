"""One engine with its table, as the benchmark sees it: what it took for each operation, and whether it was right."""

from __future__ import annotations

import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.workload import Batch, State, Workload
from tests.support.orders import OrderedProcess

LOAD, TAG, UPSERT, DELETE, LOOK_UP = OPERATIONS = ("load", "tag", "upsert", "delete", "look up")


@dataclass(slots=True)
class Competitor:
    """An engine in its process.

    Attributes:
        product, engine: its name.
        process: runs it.
        options: of the engine, on top of its own.
        table: the name of its table.
        seconds: of each operation, by number of the batch; of loads, by their own number.
        missed: how many keys that are there look-ups did not find.
        expected: what its table holds if it is right, after the whole of the last batch.
        has_failed: whether an operation failed; nothing more is asked of it then.
    """

    product: str
    engine: str
    process: OrderedProcess
    options: Mapping[str, str]
    table: str
    seconds: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    missed: int = 0
    expected: State | None = None
    has_failed: bool = False

    @property
    def name(self) -> str:
        return f"{self.product}, {self.engine}"

    def load(self, workload: Workload, number: int = 0) -> None:
        """Make the table; after the first time, in the place of the one before."""
        if number:
            self._order("drop")
        arguments = {"engine": self.engine, "options": dict(self.options), "source": str(workload.load)}
        self.seconds[LOAD][number] = self._order("load", **arguments)

    def upsert(self, number: int, batch: Batch) -> None:
        """Upsert a batch; tagging is the part of it that comes first."""
        self.seconds[UPSERT][number], tagged_after = self._order("upsert", source=str(batch.upserts))
        if tagged_after is not None:
            self.seconds[TAG][number] = tagged_after
        self.expected = batch.after

    def delete(self, number: int, batch: Batch) -> None:
        """Delete the records that a batch deletes behind its upserts."""
        self.seconds[DELETE][number] = self._order("delete", source=str(batch.deletes))

    def play(self, number: int, batch: Batch) -> None:
        """Upsert, delete from and look up in the table."""
        self.upsert(number, batch)
        self.delete(number, batch)
        self.seconds[LOOK_UP][number], found = self._order("look_up", keys=list(batch.looked_up))
        self.missed += max(0, batch.known - found)

    def times_as_fast_as(self, other: Competitor, operation: str, numbers: Collection[int] | None = None) -> float:
        """The seconds of the other over its own: the median of what the other has played.

        Args:
            other: who has played the same batches, or some of them.
            operation: what is compared.
            numbers: the batches that count; all by default.
        """
        ours, theirs = self.seconds[operation], other.seconds[operation]
        return statistics.median(
            taken / ours[number] for number, taken in theirs.items() if numbers is None or number in numbers
        )

    def with_another_table(self, suffix: str) -> Competitor:
        """The same engine in the same process, with a table of its own."""
        return Competitor(self.product, self.engine, self.process, self.options, f"{self.table}-{suffix}")

    def errors(self) -> str:
        """What is wrong with the table, as a remark; empty if it is right."""
        if self.has_failed:
            return f"; failed, and left out from batch {len(self.seconds[UPSERT]) + 1} on"
        if self.expected is None:
            return ""
        if self.missed:
            return f"; wrong: {self.missed} keys were not found"
        rows, keys, checksum = self._order("state")
        if rows != keys:
            return f"; wrong: {rows - keys:,} keys are there twice"
        if (rows, checksum) != (self.expected.rows, self.expected.checksum):
            return (
                f"; wrong: {rows:,} rows where {self.expected.rows:,} are expected, or of other partitions or versions"
            )
        return ""

    def _order(self, operation: str, **arguments: object) -> Any:
        started = time.monotonic()
        answer = self.process.order(operation, table=self.table, **arguments)
        taken = time.monotonic() - started
        sys.stderr.write(f"{self.name}: {operation.replace('_', ' ')} in {taken:.1f} s, table {self.table}\n")
        return answer
