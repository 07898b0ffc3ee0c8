"""Work in a process of its own that kills itself half way.

The processes come from a fork server that has imported everything already, so that dozens of them are quick. They
inherit nothing that is open: a store is opened where it is used.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from rli.testing.processes import FORK_SERVER, PRELOADED

_DEADLINE_SECONDS: Final = 60.0

# What the modules of the works import takes each process longer than most works last.
FORK_SERVER.set_forkserver_preload(
    [*PRELOADED, "tests.crash.conftest", "tests.concurrency.clients", "hypothesis.stateful"]
)


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


class Paused:
    """Work that has stopped itself; ``outcome`` is what it sent, once it went on."""

    outcome: str = ""


@contextmanager
def stopping(work: Callable[..., None], *arguments: object) -> Iterator[Paused]:
    """Start work and wait until its process has stopped itself; it goes on, to its end, when the context is left.

    Args:
        work: a function of a module, whose last argument is a connection that it sends its outcome to.
        arguments: of it, without the last one.
    """
    receiver, sender = pipe()
    child = start_child(work, *arguments, sender)
    _await_stop(child)
    found = Paused()
    try:
        yield found
    finally:
        os.kill(child.pid or 0, signal.SIGCONT)
    assert receiver.poll(_DEADLINE_SECONDS), "the process does not end"
    found.outcome = receiver.recv()
    child.join()


def resume_after(child: BaseProcess, seconds: float) -> None:
    """Let a process that stops itself go on after so many seconds."""
    _await_stop(child)
    time.sleep(seconds)
    os.kill(child.pid or 0, signal.SIGCONT)


def _await_stop(child: BaseProcess) -> None:
    deadline = time.monotonic() + _DEADLINE_SECONDS
    while Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline, "the process does not stop"
        time.sleep(0.01)


def pipe() -> tuple[Connection, Connection]:
    """A receiver, and a sender to give to a child."""
    return FORK_SERVER.Pipe(duplex=False)


def duplex_pipe() -> tuple[Connection, Connection]:
    """Two ends of a conversation, one of which is for a child."""
    return FORK_SERVER.Pipe()
