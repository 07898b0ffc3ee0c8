"""Where an index is: the URL of an embedded store, ``lmdb:///path``."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from rli.errors import SettingsError
from rli.store import without_password


def folder_of(url: str) -> str:
    """The folder that a URL names; raises ``SettingsError`` for a URL that has more than a path."""
    parts = urlsplit(url)
    if parts.netloc or parts.query or parts.fragment or not parts.path:
        raise SettingsError(f"not a URL of an embedded store: url={without_password(url)}", remedy="use lmdb:///path")
    return unquote(parts.path)
