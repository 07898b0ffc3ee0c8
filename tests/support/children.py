"""Work in a process of its own that kills itself half way.

The processes come from a fork server that has imported everything already, so that dozens of them are quick. They
inherit nothing that is open: a store is opened where it is used.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from rli.testing.processes import FORK_SERVER


def start_child(work: Callable[..., None], *arguments: object) -> BaseProcess:
    """A running process that does the work, a function of a module."""
    process = FORK_SERVER.Process(target=work, args=arguments)
    process.start()
    return process


def was_killed(work: Callable[..., None], *arguments: object) -> bool:
    """Whether the work killed its process; False if it came to its end. Any other end fails the test."""
    process = start_child(work, *arguments)
    process.join()
    assert process.exitcode in {0, -signal.SIGKILL}, f"the child failed: exit code={process.exitcode}"
    return process.exitcode != 0


def pipe() -> tuple[Connection, Connection]:
    """A receiver, and a sender to give to a child."""
    return FORK_SERVER.Pipe(duplex=False)


def duplex_pipe() -> tuple[Connection, Connection]:
    """Two ends of a conversation, one of which is for a child."""
    return FORK_SERVER.Pipe()
