"""URLs of stores: what may be shown of them, what may be stored, and who named them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit

_HIDDEN: Final = "***"
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}(?=:)")
_OF_A_SECRET: Final = re.compile(
    r"pass|pwd|secret|token|credential|signature|(^|[_.-])(api|access)?_?key$", re.IGNORECASE
)


class StoredUrl(str):
    """A store URL that a table names, not the caller: anybody who can write the table's folder may have put it there.

    So no password is sent to its servers, unless the user has named these servers elsewhere.
    """

    __slots__ = ()


def parse_url(url: str) -> SplitResult:
    """A URL in parts.

    Raises:
        ValueError: it is not clear where its password ends. The text repeats nothing of the URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise ValueError("it has special characters; percent-encode them in a password") from None
    if parts.netloc and "@" in url.partition("://")[2].removeprefix(parts.netloc):
        raise ValueError("an '@' comes after the hosts; write '/', '?' and '#' of a password as %2F, %3F and %23")
    for host in parts.netloc.rpartition("@")[2].split(","):
        _require_port(host)
    return parts


def _require_port(host: str) -> None:
    try:
        # The property looks at the text: it is part of a password, where "@" was forgotten.
        _ = urlsplit(f"//{host}").port
    except ValueError:
        raise ValueError("a port is not a number up to 65535, or '@' or '%40' is missing after a password") from None


def without_password(url: str) -> str:
    """A URL as it may be shown: its secrets are replaced; of a URL that cannot be parsed only the scheme is left."""
    return _rewritten(url, _with_hidden_password, lambda items: map(_shown, items))


def without_secrets(url: str) -> str:
    """A URL as it may be stored: without its secrets; of a URL that cannot be parsed only the scheme is left."""
    return _rewritten(url, _with_user_alone, lambda items: (item for item in items if _shown(item) == item))


def with_option(url: str, name: str, value: str) -> str:
    """A URL with another value of an option in its query; still a ``StoredUrl`` if it was one.

    Example:
        >>> with_option("redis://host/0?name=a&timeout=5", "name", "b")
        'redis://host/0?timeout=5&name=b'
    """
    rest = without_option(url, name)
    changed = f"{rest}{'&' if '?' in rest else '?'}{name}={value}"
    return StoredUrl(changed) if isinstance(url, StoredUrl) else changed


def without_option(url: str, name: str) -> str:
    """A URL without an option in its query; still a ``StoredUrl`` if it was one."""
    base, _, query = url.partition("?")
    kept = "&".join(item for item in query.split("&") if item and item.partition("=")[0] != name)
    changed = f"{base}?{kept}" if kept else base
    return StoredUrl(changed) if isinstance(url, StoredUrl) else changed


def has_secrets(url: str) -> bool:
    """Whether a password, or another secret, is in a URL."""
    return without_secrets(url) != url


def _rewritten(url: str, log_in: Callable[[str], str], options: Callable[[Sequence[str]], Iterable[str]]) -> str:
    """The URL with another log-in (``user:password@``) and other options, if it has secrets there."""
    try:
        parts = _with_clear_secrets(url)
    except ValueError:
        return _scheme_of(url)
    user, at, hosts = parts.netloc.rpartition("@")
    query = "&".join(options(parts.query.split("&")))
    if ":" not in user and query == parts.query:
        return url
    return _joined(parts._replace(netloc=log_in(f"{user}{at}") + hosts, query=query))


def _with_hidden_password(log_in: str) -> str:
    name, colon, _ = log_in.partition(":")
    return f"{name}:{_HIDDEN}@" if colon else log_in


def _with_user_alone(log_in: str) -> str:
    name = log_in.removesuffix("@").partition(":")[0]
    return f"{name}@" if name else ""


def _with_clear_secrets(url: str) -> SplitResult:
    parts = parse_url(url)
    if "//" not in url and "@" in parts.path:
        raise ValueError("the scheme may be missing, and the text before the '@' a password")
    return parts


def _joined(parts: SplitResult) -> str:
    # The library's own function leaves the slashes of an empty host out.
    slashes = "//" if parts.netloc or parts.path.startswith("/") else ""
    query = f"?{parts.query}" if parts.query else ""
    fragment = f"#{parts.fragment}" if parts.fragment else ""
    return f"{parts.scheme}:{slashes}{parts.netloc}{parts.path}{query}{fragment}"


def _scheme_of(url: str) -> str:
    found = _SCHEME.match(url)
    return f"{found[0]}:{_HIDDEN}" if found else _HIDDEN


def _shown(item: str) -> str:
    name, equals, _ = item.partition("=")
    return f"{name}={_HIDDEN}" if equals and _OF_A_SECRET.search(name) else item
