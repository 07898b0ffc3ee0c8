"""Clients of one bucket of an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store


class ObjectStores(NamedTuple):
    """One bucket, by two clients.

    Attributes:
        store: sends a request again whose answer is lost.
        once: does not. Conditional writes are repeated by rli, which can tell its own from others.
    """

    store: S3Store | GCSStore | AzureStore
    once: S3Store | GCSStore | AzureStore


def key_of(path: str) -> str:
    """The key of an object whose path begins with its bucket."""
    return path.partition("/")[2]
