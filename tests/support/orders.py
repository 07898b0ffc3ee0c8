"""A process that takes orders: one JSON object a line on its standard input, one line of answer for each.

An order is ``{"operation": name, …}`` with the arguments by name; the answer ``{"ok": true, "result": …}`` or
``{"ok": false, "error": text}``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

_LOG_SHOWN = 4_000
"""Characters."""


class OrderError(Exception):
    """The process refused an order or ended; the text is what it said."""


class OrderedProcess:
    """A Python module that serves orders, in a process of its own.

    Args:
        module: its name; it calls ``serve``.
        arguments: of its command line.
        folder: where it is started.
    """

    def __init__(self, module: str, arguments: Sequence[str], folder: Path) -> None:
        self._module = module
        self._logs = TemporaryDirectory(prefix="orders-")
        self._log = Path(self._logs.name, "log")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Its children get its signals, too.
                start_new_session=True,
            )

    def order(self, operation: str, **arguments: Any) -> Any:
        """Have an operation done; its result. Raises ``OrderError`` if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"operation": operation, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            line = ""
        else:
            line = self._process.stdout.readline()
        if not line:
            raise OrderError(f"the process ended: module={self._module}\n{self._log.read_text()[-_LOG_SHOWN:]}")
        answer = json.loads(line)
        if not answer["ok"]:
            raise OrderError(answer["error"])
        return answer["result"]

    @property
    def number(self) -> int:
        """Of the process, by which the operating system knows it."""
        return self._process.pid

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._logs.cleanup()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process and to the processes that it has started, if it lives."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(start: Callable[[], Mapping[str, Callable[..., Any]]]) -> None:
    """Serve orders until standard input ends.

    Args:
        start: makes ready, and gives the operations by name; what it prints is no answer.
    """
    # Spark and its JVM print to standard output; the answers keep a stream of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    operations = start()
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"ok": True, "result": operations[order.pop("operation")](**order)}
        except Exception as error:  # noqa: BLE001  (whatever went wrong is the answer)
            traceback.print_exc()
            answer = {"ok": False, "error": str(error)}
        answers.write(json.dumps(answer) + "\n")
