"""A service that writes events as they come, and answers questions: a buffered writer beside look-ups by key and by e-mail.

Run it in an empty folder: python account_service.py
"""

from collections.abc import Iterator

import rli


class Accounts:
    """The service: `handle` takes events from a queue, `by_id` and `by_email` answer requests."""

    def __init__(self, table: rli.Table) -> None:
        self._table = table
        self._writer = table.writer(max_rows=100, max_seconds=1, transaction="accounts")

    def run(self, queue: "Queue") -> None:
        """Write the events that no earlier run has written; each is written once."""
        done = self._writer.committed
        with self._writer as writer:
            for offset, event in queue.since(int(done.metadata["offset"]) if done else 0):
                writer.write(event, metadata={"offset": str(offset + 1)})

    def by_id(self, *ids: str) -> list[dict[str, object]]:
        """Accounts by their key: the index names the files to open."""
        return self._table.get(list(ids), columns=["id", "email"]).to_pylist()

    def by_email(self, email: str) -> list[dict[str, object]]:
        """Accounts by another column: files are passed over by their statistics, the others are read."""
        return self._table.read(columns=["id", "email"], filters=[("email", "=", email)]).to_pylist()


class Queue:
    """Stands for Kafka and its like: events have offsets, and stay."""

    def __init__(self) -> None:
        self._events: list[dict[str, object]] = []

    def send(self, account: str, email: str) -> None:
        """Tell of a new or changed account."""
        self._events.append({"id": account, "email": email, "version": len(self._events)})

    def since(self, offset: int) -> Iterator[tuple[int, dict[str, object]]]:
        """The events from an offset on."""
        return enumerate(self._events[offset:], offset)


def main() -> None:
    """Take 250 events, restart, and take a change of an address."""
    table = rli.create_table("accounts", record_key="id", ordering="version")
    queue = Queue()
    for number in range(250):
        queue.send(f"u{number}", f"user{number}@example.org")
    Accounts(table).run(queue)
    print("accounts:", table.read().num_rows, "fewer commits than events:", len(table.history()) < 250)

    queue.send("u7", "seven@example.org")
    restarted = Accounts(rli.open_table("accounts"))
    restarted.run(queue)
    print(restarted.by_id("u7", "u8", "nobody"))
    print(restarted.by_email("seven@example.org"), restarted.by_email("user7@example.org"))


if __name__ == "__main__":
    main()
