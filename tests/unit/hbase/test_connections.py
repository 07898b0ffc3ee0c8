"""Nothing here needs a server: nobody listens."""

from __future__ import annotations

import socket

import pytest

from rli.errors import StoreUnavailableError
from rli.store.registry import open_store


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize("create", [False, True])
def test_unreachable_servers_are_named(*, create: bool) -> None:
    servers = f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    with pytest.raises(StoreUnavailableError, match=f"store=hbase://{servers}/.*attempts=.*Could not connect"):
        open_store(f"hbase://{servers}/?table=t&timeout=0.2", create=create)
