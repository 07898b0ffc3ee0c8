"""A session with ZooKeeper: requests that are sent again while there is no connection, for as long as the session may last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NodeExistsError, NoNodeError, OperationTimeoutError
from kazoo.handlers.threading import KazooTimeoutError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from rli.errors import StoreUnavailableError
from rli.hudi.lock_settings import ZookeeperLockSettings

_PAUSE_SECONDS: Final = 0.05
_NO_ANSWER: Final = (ConnectionLoss, OperationTimeoutError)


class ZookeeperSession:
    """A session of this process alone; what is made in it as ephemeral goes with it.

    Every method raises ``StoreUnavailableError`` if no server answers in time, or if the session is over.

    Args:
        settings: of the lock.
    """

    def __init__(self, settings: ZookeeperLockSettings) -> None:
        self._servers = settings.servers
        self._seconds = settings.session
        with self._as_unavailable():
            self._client = KazooClient(hosts=settings.servers, timeout=settings.session)
            self._client.start(timeout=settings.connection)

    def make(self, path: str) -> None:
        """Make a node and those above it, unless they are there."""
        with self._as_unavailable():
            self._until_answered(lambda: self._ask(self._client.ensure_path_async, path))

    def enqueue(self, path: str, name: str, data: bytes) -> str:
        """Make an ephemeral node with a number behind its name, once; returns its name with the number.

        Args:
            path: of the node above it.
            name: that no other node has.
            data: of the node.
        """

        def find_or_make() -> str:
            # The answer to an earlier request may be lost.
            found = [child for child in self._ask(self._client.get_children_async, path) if child.startswith(name)]
            if found:
                return str(found[0])
            made = self._ask(self._client.create_async, f"{path}/{name}", data, ephemeral=True, sequence=True)
            return str(made).rpartition("/")[2]

        with self._as_unavailable():
            return str(self._until_answered(find_or_make))

    def children(self, path: str) -> list[str]:
        """Names of the nodes below a node."""
        with self._as_unavailable():
            return [*self._until_answered(lambda: self._ask(self._client.get_children_async, path))]

    def data(self, path: str) -> bytes | None:
        """The data of a node; None if there is no node."""
        with self._as_unavailable(), suppress(NoNodeError):
            data, _ = self._until_answered(lambda: self._ask(self._client.get_async, path))
            return bytes(data)
        return None

    def write(self, path: str, data: bytes) -> bool:
        """Write the data of a node, which only a session that is not over can do; False if there is no node."""
        with self._as_unavailable(), suppress(NoNodeError):
            self._until_answered(lambda: self._ask(self._client.set_async, path, data))
            return True
        return False

    def remove(self, path: str) -> None:
        """Remove a node, if it is there."""
        with self._as_unavailable(), suppress(NoNodeError):
            self._until_answered(lambda: self._ask(self._client.delete_async, path))

    def close(self) -> None:
        """End the session, with its ephemeral nodes; if no server answers, they end it after its time."""
        with suppress(KazooException, KazooTimeoutError, OSError):
            self._client.stop()
            self._client.close()

    def _ask(self, request: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """One request; without a connection, the client would wait for one for ever."""
        return request(*arguments, **named).get(timeout=self._seconds)

    def _until_answered(self, call: Callable[[], Any]) -> Any:
        repeated = Retrying(
            stop=stop_after_delay(self._seconds),
            wait=wait_fixed(_PAUSE_SECONDS),
            retry=retry_if_exception_type(_NO_ANSWER),
            reraise=True,
        )
        return repeated(call)

    @contextmanager
    def _as_unavailable(self) -> Iterator[None]:
        try:
            yield
        except (NoNodeError, NodeExistsError):
            raise
        except (KazooException, KazooTimeoutError, OSError, ValueError) as error:
            raise StoreUnavailableError(
                f"ZooKeeper does not answer, or has ended the session: servers={self._servers} "
                f"({type(error).__name__}: {error})",
                remedy="check hoodie.write.lock.zookeeper.url in the table's properties, and the servers",
            ) from error
