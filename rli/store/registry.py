"""Store URLs: the scheme of a URL names the backend, found through the entry-point group ``rli.stores``.

A backend package registers ``scheme = "package.module:opener"``; an opener is called with the whole URL and
``create``, and returns a ``Store``. It raises ``SettingsError`` for a URL it does not understand and
``IndexNotFoundError`` when nothing is there and ``create`` is false. The URL is a ``rli.urls.StoredUrl`` where a table
names it: secrets that are not in the URL itself are then for servers alone that the user has named (docs/security.md).
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Protocol

from rli.errors import SettingsError
from rli.store.contract import Store
from rli.urls import parse_url, without_password

ENTRY_POINT_GROUP = "rli.stores"

_OWN_PACKAGES = "rli_"
"""Begins the packages of the stores of this distribution; the rest of the name is the extra."""


class StoreOpener(Protocol):
    """Opens the store that a URL names; with ``create``, makes room for a new index where there is none."""

    def __call__(self, url: str, *, create: bool) -> Store: ...


_OPENERS: Final[dict[str, StoreOpener]] = {}
"""Those found so far, by scheme: to find one, files of all installed packages are read."""


def open_store(url: str, *, create: bool = False) -> Store:
    """Open the store that ``url`` names.

    Raises:
        SettingsError: the scheme is unknown, or the URL is not one that its backend understands.
        IndexNotFoundError: nothing is there and ``create`` is false.
        StoreUnavailableError: the store does not answer.

    >>> with open_store("memory:one-record", create=True) as store:
    ...     store.compare_and_set("settings", None, b"one"), store.read_control("settings")
    (True, b'one')
    """
    scheme = _scheme(url)
    if scheme not in _OPENERS:
        _OPENERS[scheme] = _find_opener(scheme, url)
    return _OPENERS[scheme](url, create=create)


def _find_opener(scheme: str, url: str) -> StoreOpener:
    found = entry_points(group=ENTRY_POINT_GROUP, name=scheme)
    if not found:
        known = ", ".join(sorted(store_schemes()))
        raise SettingsError(
            f"no store for this URL: url={without_password(url)} known schemes={known}",
            remedy="use a URL such as lmdb:///path",
        )
    opener: StoreOpener = loaded(next(iter(found)))
    return opener


def _scheme(url: str) -> str:
    try:
        return parse_url(url).scheme
    except ValueError as error:
        raise SettingsError(
            f"not a URL of a store ({error}): url={without_password(url)}", remedy="use a URL such as redis://host"
        ) from None


def loaded(point: EntryPoint) -> Any:
    """What an entry point of a backend names; raises ``SettingsError`` where its client library is missing."""
    try:
        return point.load()
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"the client library of this store is not installed: store={point.name} module={error.name}",
            remedy=f"install it: {_install_command(point)}",
        ) from error


def _install_command(point: EntryPoint) -> str:
    package = point.module.partition(".")[0]
    if package.startswith(_OWN_PACKAGES):
        return f'pip install "record-level-index[{package.removeprefix(_OWN_PACKAGES)}]"'
    return f"see the documentation of {package}"


def is_store_scheme(scheme: str) -> bool:
    """Whether a URL scheme is that of a store which is installed."""
    if scheme not in store_schemes():
        # It may have been installed since.
        store_schemes.cache_clear()
    return scheme in store_schemes()


@cache
def store_schemes() -> frozenset[str]:
    """The URL schemes of all stores that are installed; to find them, files of all installed packages are read, once."""
    return frozenset(point.name for point in entry_points(group=ENTRY_POINT_GROUP))
