"""Calls to HBase, each repeated until it is answered or the deadline has passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rli.errors import StoreUnavailableError
from rli.store import Retries
from rli_hbase.connections import Connections
from rli_hbase.errors import ANSWERS, SOUND, is_transient, never_answered, shorten, translated_errors
from rli_hbase.url import HbaseSettings

T = TypeVar("T")


class Client:
    """The Thrift interface of one cluster, as far as one table needs it.

    Attributes:
        settings: how it is reached.
        table: the table's name.
    """

    def __init__(self, settings: HbaseSettings) -> None:
        self.settings = settings
        self.table = settings.table_name
        self._connections = Connections(settings)
        self._retries = Retries(settings.location, is_transient, settings.timeout)
        # Whether a server took a connection, and whether one ever answered on it.
        self._was_connected = self._was_answered = False

    def call(self, work: Callable[[Any], T]) -> T:
        """The result of ``work``, which is given the Thrift client and may be called more than once.

        Raises:
            IndexNotFoundError: the table is not there.
            SettingsError: the table or the servers are of another kind.
            StoreUnavailableError: no answer came in time, or HBase refuses the request.
        """
        try:
            with translated_errors(self.settings.location):
                return self._retries.run(lambda: self._attempt(work))
        except StoreUnavailableError as error:
            if self._was_connected and not self._was_answered:
                raise never_answered(self.settings, error.__cause__) from error.__cause__
            raise

    def close(self) -> None:
        self._connections.close()

    def _attempt(self, work: Callable[[Any], T]) -> T:
        try:
            with self._connections.borrowed() as thrift:
                self._was_connected = True
                result = work(thrift)
        except SOUND as error:
            self._was_answered = True
            if isinstance(error, ANSWERS):
                shorten(error)
            raise
        self._was_answered = True
        return result
