"""Passwords that the user keeps in a file, each bound to a server.

The file is ``~/.config/rli/credentials.toml``, or what ``RLI_CREDENTIALS`` names. It has a table for each server:

    ["redis.example:6379"]
    username = "trips"
    password = "…"
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, SecretStr, TypeAdapter, ValidationError

from rli.errors import SettingsError

VARIABLE: Final = "RLI_CREDENTIALS"
"""Names the file."""

_PLACE: Final = re.compile(r"at line \d+, column \d+")
_DEFAULT_FILE: Final = "~/.config/rli/credentials.toml"
_MOST_BYTES: Final = 1 << 20
_RIGHTS_OF_OTHERS: Final = 0o077
# A file of root's may be read by a group: containers are given secrets that way.
_RIGHTS_BUT_TO_READ: Final = 0o037


class Credentials(BaseModel):
    """What logs in to a server.

    Attributes:
        username: None for the server's default user.
        password: None for a server that asks for none.
        sentinel_password: of the sentinels, where a URL names those instead of the server.
        tls: the credentials are sent over TLS only, to a server whose certificate was checked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    username: str | None = None
    password: SecretStr | None = None
    sentinel_password: SecretStr | None = None
    tls: bool = False


_FILE: Final = TypeAdapter(dict[str, Credentials])


def credentials_for(servers: Sequence[str]) -> Credentials | None:
    """The credentials of the servers that a URL names, such as ``host:port`` in lower case; None where the file lacks one of them.

    A password that is for one of them is not for the others, so all of them must be in the file, with the same content.

    Raises:
        SettingsError: the file is damaged, or others may read it; or the servers have different credentials.
    """
    path = Path(os.environ.get(VARIABLE) or _DEFAULT_FILE).expanduser()
    known = _read(path)
    found = [known.get(server) for server in servers]
    if not found or None in found:
        return None
    if any(credentials != found[0] for credentials in found):
        raise SettingsError(
            f"the servers of one index have different credentials: servers={list(servers)} file={path}",
            remedy="give them the same user and password",
        )
    return found[0]


def as_server(name: str) -> str:
    """A name of a server in one spelling: hosts are known in any case, paths of sockets are not."""
    return name if name.startswith("/") else name.lower()


def _read(path: Path) -> dict[str, Credentials]:
    try:
        with path.open("rb") as file:
            _require_private(path, os.fstat(file.fileno()))
            content = file.read(_MOST_BYTES)
        parsed = _FILE.validate_python(tomllib.loads(content.decode()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(
            f"the credentials cannot be read: file={path} ({error.strerror})", remedy="check its rights"
        ) from error
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg'].lower()}" for item in error.errors())
        raise _damaged(path, wrong) from None
    except (ValueError, RecursionError) as error:
        # Of the library's text only the place: it may repeat what it found there.
        place = _PLACE.search(str(error))
        raise _damaged(path, place[0] if place else "it is not TOML") from None
    return {as_server(name): credentials for name, credentials in parsed.items()}


def _damaged(path: Path, wrong: str) -> SettingsError:
    return SettingsError(
        f"the credentials are damaged: file={path} ({wrong})",
        remedy=('write for each server ["host:port"] and below it username = "…" and password = "…"'),
    )


def _require_private(path: Path, status: os.stat_result) -> None:
    forbidden = _RIGHTS_OF_OTHERS if status.st_uid else _RIGHTS_BUT_TO_READ
    if not stat.S_ISREG(status.st_mode) or status.st_mode & forbidden:
        raise SettingsError(
            f"other users can access the credentials file: file={path} mode={stat.S_IMODE(status.st_mode):04o}",
            remedy="run chmod 600 on it, and make it a regular file",
        )
