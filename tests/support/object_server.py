"""Runs moto's S3 server, answering one request at a time: ``python -m tests.support.object_server PORT``.

By itself, moto looks at the condition of a write and writes in two steps, and its threads may interleave them: then of
several conditional writes more than one wins.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from threading import Lock
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple


class OneAtATime:
    """A WSGI application that handles a request as a whole before the next one."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._handling = Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        # Read before the lock is taken: the client may be a process that a test has stopped.
        length = environ.get("CONTENT_LENGTH")
        if length:
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(int(length)))
        with self._handling:
            return [*self._application(environ, start_response)]


if __name__ == "__main__":
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        OneAtATime(DomainDispatcherApplication(create_backend_app)),
        threaded=True,
        request_handler=MotoRequestHandler,
    )
