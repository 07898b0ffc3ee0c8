"""URLs of record indexes: the URL of a store, with options of the index in its query.

``lmdb:///data/idx/trips?scope=partition`` is the index in the store ``lmdb:///data/idx/trips`` whose record keys are
unique in their partition. The stores do not know these options.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from rli.errors import SettingsError
from rli.model import Scope
from rli.urls import StoredUrl, without_password

_SCOPE: Final = "scope"


@dataclass(frozen=True, slots=True)
class IndexUrl:
    """The URL of a record index in parts.

    Attributes:
        store: URL of the store; a ``StoredUrl`` where the whole one is.
        scope: where a record key is unique.
    """

    store: str
    scope: Scope = Scope.GLOBAL

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take a URL apart.

        Raises:
            SettingsError: an option of the index is given twice, or has a value that is not known.
        """
        base, mark, query = url.partition("?")
        items = query.split("&") if mark else []
        own = [item.partition("=")[2] for item in items if item.partition("=")[0] == _SCOPE]
        if not own:
            return cls(url)
        if len(own) > 1 or own[0] not in set(Scope):
            raise SettingsError(
                f"the scope of an index is one of {', '.join(Scope)}: scope={','.join(own)} "
                f"url={without_password(url)}; give one of them, or leave it out"
            )
        others = "&".join(item for item in items if item.partition("=")[0] != _SCOPE)
        store = f"{base}?{others}" if others else base
        return cls(StoredUrl(store) if isinstance(url, StoredUrl) else store, Scope(own[0]))

    def __str__(self) -> str:
        """The URL as it may be shown."""
        return with_scope(without_password(self.store), self.scope)


def with_scope(store: str, scope: Scope) -> str:
    """The URL of the index with a scope in a store."""
    if scope is Scope.GLOBAL:
        return store
    return f"{store}{'&' if '?' in store else '?'}{_SCOPE}={scope}"
