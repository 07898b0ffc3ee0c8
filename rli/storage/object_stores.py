"""Opening an object store: S3, Google Cloud Storage or Azure, by the library obstore."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from rli.errors import SettingsError
from rli.storage.buckets import ObjectStores
from rli.storage.contract import OpenedStorage

SCHEMES: Final = frozenset({"s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss"})
"""URIs that are opened as object stores."""

_CLIENT_OPTIONS: Final = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
_PREFIXES: Final = ("aws_", "google_", "azure_")
_REPEATED: Final[Any] = {"retry_timeout": timedelta(seconds=60)}
_ONCE: Final[Any] = {"max_retries": 0}


def open_object_store(location: str, options: Mapping[str, str]) -> OpenedStorage:
    """Open a folder of an object store.

    Args:
        location: the URI, as ``s3://bucket/folder``.
        options: as obstore and object_store name them, with or without ``aws_``, ``google_`` or ``azure_``.

    Raises:
        SettingsError: obstore is not installed, or refuses the URI or an option.
    """
    try:
        from rli.storage.object_changes import ObjectChanges  # noqa: PLC0415  (needs an optional dependency)
        from rli.storage.object_filesystem import ObjectFileSystem  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"tables in object stores need obstore: location={location}",
            remedy="pip install 'record-level-index[objects]'",
        ) from error
    parts = urlsplit(location)
    if not parts.netloc or parts.query or parts.fragment or parts.password is not None:
        raise SettingsError(
            f"not the URI of a folder in an object store: scheme={parts.scheme} bucket={parts.hostname}",
            remedy=(
                "write it as s3://bucket/folder, with ? and # as %3F and %23, and give credentials and settings as "
                "storage_options"
            ),
        )
    # Of abfss://container@account.dfs.core.windows.net/folder the container is what stands for the bucket.
    bucket, key = parts.netloc.partition("@")[0], unquote(parts.path).strip("/")
    stores = _open_bucket(location, f"{parts.scheme}://{parts.netloc}", options)
    objects = ObjectFileSystem(stores.store, bucket)
    root, changes = f"{bucket}/{key}".rstrip("/"), ObjectChanges(stores, location, key)
    return OpenedStorage(fs.PyFileSystem(objects), root, changes, objects.read_ranges, objects.open_versioned)


def _open_bucket(location: str, url: str, options: Mapping[str, str]) -> ObjectStores:
    from obstore.exceptions import BaseError  # noqa: PLC0415
    from obstore.store import from_url  # noqa: PLC0415

    named = {_plain_name(name): value for name, value in options.items()}
    client: Any = {name: value for name, value in named.items() if name in _CLIENT_OPTIONS}
    config: Any = {name: value for name, value in options.items() if _plain_name(name) not in _CLIENT_OPTIONS}
    given: Any = {"config": config or None, "client_options": client or None}
    try:
        store: Any = from_url(url, **given, retry_config=_REPEATED)
        once: Any = from_url(url, **given, retry_config=_ONCE)
    except (BaseError, ValueError, TypeError) as error:
        raise SettingsError(
            f"the object store cannot be opened: location={location} storage_options={sorted(options)} "
            f"({type(error).__name__}: {str(error).splitlines()[0]})",
            remedy="see docs/object-stores.md",
        ) from error
    return ObjectStores(store, once)


def _plain_name(name: str) -> str:
    lower = name.lower()
    for prefix in _PREFIXES:
        lower = lower.removeprefix(prefix)
    return lower
