"""The audit of the lock in a storage: a file for each holding, if the table's owner has switched the audit on.

Hudi's procedures ``set_audit_lock``, ``show_audit_lock_status`` and ``validate_audit_lock`` work with it. (Format:
``StorageLockProviderAuditService`` of Hudi 1.2.0.)
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

from rli.errors import RliError
from rli.json_text import parse_json
from rli.storage import Storage
from rli.telemetry import events

_FOLDER: Final = ".hoodie/.locks"
_SWITCH: Final = f"{_FOLDER}/audit_enabled.json"
_IS_ON: Final = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"
_MILLISECONDS: Final = 1000


class AuditState(StrEnum):
    """What became of the lock."""

    START = "START"
    RENEW = "RENEW"
    END = "END"


class Audit:
    """The audit of one holding.

    Args:
        storage: the table's folder.
        owner: of the lock.
        validity: seconds for which the lock is valid without a renewal.
    """

    def __init__(self, storage: Storage, owner: str, validity: int) -> None:
        self._storage = storage
        self._validity = validity
        self._is_on = _is_on(storage)
        self._began = 0
        self._lines = b""
        self.owner = owner

    def record(self, state: AuditState, at: int) -> None:
        """Add a line to the file, if the audit is on. A failure is logged: the lock is held, or released, without it.

        Args:
            state: what became of the lock.
            at: when, in milliseconds since the epoch.
        """
        if not self._is_on:
            return
        self._began = self._began or at
        line = {
            "ownerId": self.owner,
            "transactionStartTime": self._began,
            "timestamp": at,
            "state": state,
            "lockExpiration": at + self._validity * _MILLISECONDS,
            "lockHeld": True,
        }
        self._lines += json.dumps(line, separators=(",", ":")).encode() + b"\n"
        path = f"{_FOLDER}/audit/{self._began}_{self.owner}.jsonl"
        try:
            self._storage.write_bytes(path, self._lines)
        except (OSError, RliError) as error:
            events.LOCK_UNAUDITED.log(file=path, cause=error)


def _is_on(storage: Storage) -> bool:
    """Whether the audit is switched on; a switch that cannot be read is off, as in Hudi."""
    try:
        content = storage.read_bytes(_SWITCH)
        found = parse_json(content) if content is not None else None
    except (OSError, RliError, ValueError):
        return False
    return isinstance(found, dict) and found.get(_IS_ON) is True
