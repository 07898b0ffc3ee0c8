"""Control records: small named values in a database of their own."""

from __future__ import annotations

from functools import partial

from rli_lmdb.entries import Transaction
from rli_lmdb.lifecycle import OpenIndex


def read_record(index: OpenIndex, name: str) -> bytes | None:
    """The value of a record, None where there is none."""
    return index.read(lambda transaction: transaction.get(name.encode("ascii"), db=index.control))


def scan_records(index: OpenIndex, prefix: str, start: str) -> list[tuple[str, bytes]]:
    """The records whose name begins with ``prefix`` and is not below ``start``, in order."""
    return index.read(partial(_scan, index, prefix.encode("ascii"), start.encode("ascii")))


def compare_and_set(index: OpenIndex, name: str, expected: bytes | None, value: bytes | None) -> bool:
    """Set a record to ``value`` (None removes it) if it is ``expected``; on the disk when it returns True.

    Raises:
        IndexNotFoundError: the index was dropped, or its files are gone.
    """
    is_set = index.write(partial(_compare_and_set, index, name.encode("ascii"), expected, value))
    # Only now: other processes agree by this record only if it is where they look.
    index.require_in_place()
    # On the disk before the caller goes by it: the lease and the commit log are such records, and a power cut must take
    # neither back.
    if is_set:
        index.environment.flush()
    return is_set


def _scan(index: OpenIndex, prefix: bytes, start: bytes, transaction: Transaction) -> list[tuple[str, bytes]]:
    cursor = transaction.cursor(index.control)
    found: list[tuple[str, bytes]] = []
    first = max(prefix, start)
    is_there = cursor.set_range(first) if first else cursor.first()
    while is_there and cursor.key().startswith(prefix):
        found.append((cursor.key().decode("ascii"), cursor.value()))
        is_there = cursor.next()
    return found


def _compare_and_set(
    index: OpenIndex, name: bytes, expected: bytes | None, value: bytes | None, transaction: Transaction
) -> bool:
    if transaction.get(name, db=index.control) != expected:
        return False
    if value is not None:
        transaction.put(name, value, db=index.control)
    elif expected is not None:
        transaction.delete(name, db=index.control)
    return True
