"""Which process staged the changes of a transaction on the index alone: by this others know that it died (P30).

A control record ``process/<token>`` names each process that stages changes; the names of its chunks begin with the
token. The process shows a sign of life when it stages, once an hour at most.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from threading import Lock
from typing import Annotated, Final, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rli.processes import ProcessId
from rli.store.contract import Store

PROCESSES: Final = "process/"
"""Prefix of the names of these records."""

_VERSION: Final = 1
_SIGN_OF_LIFE_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class StagingProcess:
    """A process that stages changes.

    Attributes:
        token: begins the names of its chunks.
        process: which one it is.
        seen_at: its last sign of life, in seconds since the epoch by the clock of its host.
    """

    token: str
    process: ProcessId
    seen_at: float

    def is_over(self, now: float, silent_seconds: float) -> bool:
        """Whether the process has ended, or gave no sign of life for so long that it is taken for dead."""
        return self.process.is_known_dead or now - self.seen_at > silent_seconds

    def to_json(self) -> bytes:
        process = self.process
        stored = _Stored(
            version=_VERSION, host=process.host, pid=process.pid, started=process.started, seenAt=self.seen_at
        )
        return stored.model_dump_json().encode()

    @classmethod
    def from_json(cls, name: str, content: bytes) -> StagingProcess | None:
        """Read a record; None if it is damaged, or of a newer version: then this process cannot judge it."""
        try:
            stored = _Stored.model_validate_json(content)
        except ValidationError:
            return None
        process = ProcessId(stored.host, stored.pid, stored.started)
        return cls(name.removeprefix(PROCESSES), process, stored.seenAt)


class _Stored(BaseModel):
    """The record as JSON; its names are those of the stored format."""

    model_config = ConfigDict(strict=True)

    version: Literal[1]
    host: str
    pid: Annotated[int, Field(ge=0, lt=2**31)]
    started: str
    seenAt: Annotated[float, Field(allow_inf_nan=False)]  # noqa: N815


class Owner:
    """This process, as others see it in one store. Threads may share it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen_at: float | None = None
        self._announcing = Lock()

    @staticmethod
    def new_writer() -> str:
        """An identity for a transaction, which no other one has."""
        return f"{_own_token()}-{uuid4().hex}"

    def announce(self) -> bool:
        """Show a sign of life, before anything is staged; False if the last one is young enough."""
        with self._announcing:
            now = time.monotonic()
            if self._seen_at is not None and now - self._seen_at < _SIGN_OF_LIFE_SECONDS:
                return False
            name = f"{PROCESSES}{_own_token()}"
            living = StagingProcess(_own_token(), ProcessId.current(), time.time()).to_json()
            while not self._store.compare_and_set(name, self._store.read_control(name), living):
                pass
            self._seen_at = now
            return True


_TOKENS: Final[dict[int, str]] = {}


def _own_token() -> str:
    # A fork is another process.
    return _TOKENS.setdefault(os.getpid(), uuid4().hex)
