"""Which user and password log in to the servers of a URL: a password is sent only to servers that the user has named.

In this order: the password in the URL; the environment variable ``RLI_REDIS_PASSWORD``, if the user has named the servers;
the file of credentials (``rli.store.credentials``). Naming them is passing the URL, or the variable ``RLI_REDIS_HOSTS``.
A URL that a table names does not count: anybody who writes the table's folder would be told the password.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import SecretStr

from rli.store import Credentials, StoredUrl, as_server, credentials_for

PASSWORD_VARIABLE: Final = "RLI_REDIS_PASSWORD"  # noqa: S105  (the name of a variable)
SENTINEL_PASSWORD_VARIABLE: Final = "RLI_REDIS_SENTINEL_PASSWORD"  # noqa: S105
HOSTS_VARIABLE: Final = "RLI_REDIS_HOSTS"

_DEFAULT_PORT: Final = 6379


@dataclass(frozen=True, slots=True)
class LogIn:
    """What logs in to the servers of a URL.

    Attributes:
        username: None for the default user.
        password: None where none is known for these servers.
        sentinel_password: of the sentinels; None where none is known for them.
        needs_tls: the password is for connections over TLS with checked certificates only.
    """

    username: str | None
    password: SecretStr | None
    sentinel_password: SecretStr | None
    needs_tls: bool


def log_in(url: str, servers: Sequence[str], username: str | None, password: SecretStr | None) -> LogIn:
    """How to log in to the servers of a URL.

    Args:
        url: the URL.
        servers: ``host:port`` of each server or sentinel that it names, or the path of a socket.
        username: the one in the URL, if any.
        password: the one in the URL, if any.

    Raises:
        SettingsError: the file of credentials is damaged, or others may read it.
    """
    environment = _of_environment() if _is_named(url, servers) else Credentials()
    stored = Credentials()
    if password is None and environment.password is None:
        stored = credentials_for(servers) or stored
    return LogIn(
        username=username or stored.username,
        password=password or environment.password or stored.password,
        sentinel_password=environment.sentinel_password or stored.sentinel_password,
        needs_tls=stored.tls,
    )


def _of_environment() -> Credentials:
    return Credentials(
        password=_secret(PASSWORD_VARIABLE),
        sentinel_password=_secret(SENTINEL_PASSWORD_VARIABLE),
    )


def _secret(variable: str) -> SecretStr | None:
    value = os.environ.get(variable)
    return SecretStr(value) if value else None


def _is_named(url: str, servers: Sequence[str]) -> bool:
    """Whether the user, not a table, has named all the servers."""
    if not isinstance(url, StoredUrl):
        return True
    listed = {_with_port(as_server(name.strip())) for name in os.environ.get(HOSTS_VARIABLE, "").split(",")}
    return all(server in listed for server in servers)


def _with_port(name: str) -> str:
    is_whole = name.startswith("/") or name.rpartition("]")[2].count(":") == 1
    return name if is_whole else f"{name}:{_DEFAULT_PORT}"
