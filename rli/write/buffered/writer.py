"""A writer that gathers rows of a service, and commits many at a time (docs/protocol.md, P50)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from threading import Condition, Lock, Thread
from types import TracebackType
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from rli.errors import BufferFullError, InvalidInputError
from rli.model import CommitResult, CommittedTransaction
from rli.telemetry import events
from rli.view.caller_metadata import CallerMetadata
from rli.write.buffered.buffer import Batch, Buffer, WriterLimits
from rli.write.buffered.rows import Row, RowChoices, RowForm, rows_in, with_op

_NONE: Final[Mapping[str, str]] = {}
_AT_ONCE: Final = 64
"""So many rows are made ready within a coroutine; more of them in a thread."""


class BufferTarget(Protocol):
    """The table behind a writer."""

    @property
    def location(self) -> str: ...

    def schema(self) -> pa.Schema | None:
        """The columns of the table; None in a table that was never written."""
        ...

    def committed(self) -> CommittedTransaction | None:
        """The last transaction of the writer's application."""
        ...

    def commit(self, records: pa.Table, number: int, metadata: Mapping[str, str]) -> CommitResult:
        """Write the rows in one commit; a repeat of a number that was committed changes nothing."""
        ...


class BufferedWriter:
    """Takes rows of a service, and commits many of them at a time; see ``Table.writer``. Threads may share it.

    A background thread commits the buffer, one at a time. Meanwhile, a second buffer takes rows; once both are full, writes
    wait. A commit that fails keeps its rows: the error is raised by the next ``write`` or ``flush``, once for each try, and
    the call after it has the same rows tried again. Rows of a writer that is not closed end with the process.
    """

    def __init__(
        self, target: BufferTarget, limits: WriterLimits, choices: RowChoices, schema: pa.Schema | None
    ) -> None:
        self._target = target
        self._limits = limits
        self._choices = choices
        self._form = None if schema is None else RowForm.of(schema, choices)
        self._opening = Lock()
        self._process: int | None = None
        self._thread: Thread | None = None
        # All of the following is read and changed under this lock.
        self._changed = Condition()
        self._waiting: list[Future[None]] = []
        self._buffer = Buffer(order=1)
        self._batch: Batch | None = None
        self._error: Exception | None = None
        self._rests = False
        self._done = 0
        self._asked = 0
        self._takes_rows = True
        self._is_closed = False
        self._committed: CommittedTransaction | None = None

    # Before the first row ----------------------------------------------------------------------------------------

    @property
    def committed(self) -> CommittedTransaction | None:
        """The last commit: of this writer or, before its first one, of the same transaction id; None if there is none.

        Its ``metadata`` tells how far the rows of the table reach. Names that later writes do not give keep their strings.
        """
        self._open()
        with self._changed:
            return self._committed

    def _open(self) -> None:
        if self._process == os.getpid():
            return
        with self._opening:
            if self._process is None:
                self._committed = self._target.committed()
                schema = None if self._form else self._target.schema()
                if schema is not None:
                    self._form = RowForm.of(with_op(schema, self._choices.op), self._choices)
                self._process = os.getpid()
        if self._process != os.getpid():
            raise InvalidInputError(
                "the writer was opened before this process was forked", remedy="open a writer in each process"
            )

    # Writing -----------------------------------------------------------------------------------------------------

    def write(self, rows: Any, *, metadata: Mapping[str, str] | None = None, timeout: float | None = None) -> None:
        """Take rows. They come into the table together, in one commit, with the metadata.

        Args:
            rows: a dict, a list of dicts, or what ``upsert`` takes.
            metadata: strings that are kept with the commit, such as the offset of these rows in their source.
            timeout: seconds to wait for room while the buffer is full; None waits until there is room.

        Raises:
            SchemaError, InvalidKeyError: a row does not fit, which the message names with its column. None of these rows was taken.
            BufferFullError: there was no room in this time; none of the rows was taken.
            InvalidInputError: the writer is closed.
            RliError: the last commit failed, of rows taken before. They are kept, and the next call has them tried again; these
                rows were not taken.
        """
        add = self._prepared(rows, metadata)
        self._wait(lambda: self._takes(add), timeout)

    async def write_async(self, rows: Any, *, metadata: Mapping[str, str] | None = None) -> None:
        """As ``write``, for coroutines: the event loop goes on while the buffer is full. Cancelled, it has taken no row."""
        if self._process is None or not _is_quick(rows):
            add = await asyncio.to_thread(self._prepared, rows, metadata)
        else:
            add = self._prepared(rows, metadata)
        await self._wait_async(lambda: self._takes(add))

    def _prepared(self, rows: Any, metadata: Mapping[str, str] | None) -> Callable[[Buffer], None]:
        """What adds rows to a buffer; raises if they do not fit."""
        self._open()
        strings = CallerMetadata.of(None, metadata).strings if metadata else _NONE
        if type(rows) is dict and self._form is not None:
            form, size = self._form, self._form.size_of(rows)
            if size is not None:
                return _row_and_strings(form, rows.copy(), size, strings)
        given = rows_in(rows)
        form = self._form_for(rows)
        table = form.conformed(rows) if given is None else form.table_of(given)
        return _table_and_strings(form, table, strings)

    def _form_for(self, rows: Any) -> RowForm:
        if self._form is None:
            inferred = RowForm.inferred(rows, self._choices)
            with self._opening:
                # Another thread may have brought the first rows.
                if self._form is None:
                    self._form = inferred
        return self._form

    def _takes(self, add: Callable[[Buffer], None]) -> bool:
        if not self._takes_rows:
            raise InvalidInputError("the writer is closed, and took none of these rows", remedy="open another one")
        self._raise_failure()
        if self._buffer.is_full(self._limits):
            return False
        was_empty = self._buffer.since is None
        add(self._buffer)
        if self._thread is None:
            self._thread = Thread(target=self._run, name=f"rli writer {self._target.location}", daemon=True)
            self._thread.start()
        if was_empty or self._buffer.is_full(self._limits):
            self._notify()
        return True

    # Committing --------------------------------------------------------------------------------------------------

    def flush(self) -> CommitResult | None:
        """Commit all rows that were taken before, and wait for it.

        Returns:
            The result of the last commit of this writer; None if there was none.

        Raises:
            RliError: a commit failed; its rows are kept. Call again to have them tried again.
        """
        return self._flushed(retry=False)

    async def flush_async(self) -> CommitResult | None:
        """As ``flush``, for coroutines."""
        if self._process is None:
            await asyncio.to_thread(self._open)
        order = self._ask(retry=False)
        await self._wait_async(lambda: self._is_done(order))
        return self._result()

    def _flushed(self, *, retry: bool) -> CommitResult | None:
        self._open()
        order = self._ask(retry=retry)
        self._wait(lambda: self._is_done(order), None)
        return self._result()

    def _ask(self, *, retry: bool) -> int:
        """Ask for the commit of everything taken so far; gives the last buffer that it takes."""
        with self._changed:
            if retry:
                self._takes_rows, self._error, self._rests = False, None, False
            self._asked = self._buffer.order if self._buffer.since is not None else self._buffer.order - 1
            self._notify()
            return self._asked

    def _is_done(self, order: int) -> bool:
        if self._done >= order:
            return True
        self._raise_failure()
        if self._is_closed:
            raise InvalidInputError(
                "the writer was closed before its rows were committed", remedy="take them from unwritten"
            )
        return False

    def _result(self) -> CommitResult | None:
        with self._changed:
            return self._committed.result if self._committed and self._done else None

    # Closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Commit all rows, and end. Rows that failed before are tried once more first.

        Raises:
            RliError: a commit failed. The writer is still open: call ``close`` again, or ``abort``.
        """
        if self._is_closed:
            return
        try:
            self._flushed(retry=True)
        except BaseException:
            with self._changed:
                self._takes_rows = not self._is_closed
            raise
        self._end()

    async def close_async(self) -> None:
        """As ``close``, for coroutines."""
        await asyncio.to_thread(self.close)

    def abort(self) -> None:
        """End without a commit of the buffer; a commit at work is waited for. ``unwritten`` has the rows."""
        self._end()

    @property
    def unwritten(self) -> tuple[pa.Table, ...]:
        """The rows that were taken and, as far as this writer knows, not committed."""
        with self._changed:
            batch = () if self._batch is None else (self._batch.records,)
            return (*batch, *((self._buffer.table(self._form),) if self._form and self._buffer.rows else ()))

    def _end(self) -> None:
        with self._changed:
            self._is_closed, self._takes_rows = True, False
            self._notify()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join()

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self.abort()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    # Waiting -----------------------------------------------------------------------------------------------------

    def _wait(self, is_done: Callable[[], bool], timeout: float | None) -> None:
        latest = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not is_done():
                left = None if latest is None else latest - time.monotonic()
                if left is not None and left <= 0:
                    raise BufferFullError(
                        f"the writer's buffer is full, and a commit is at work: rows={self._buffer.rows} "
                        f"bytes={self._buffer.size} waited={timeout}",
                        remedy="write again later, or give the writer a larger buffer",
                    )
                self._changed.wait(left)

    async def _wait_async(self, is_done: Callable[[], bool]) -> None:
        while True:
            with self._changed:
                if is_done():
                    return
                changed: Future[None] = Future()
                self._waiting.append(changed)
            await asyncio.wrap_future(changed)

    def _notify(self) -> None:
        self._changed.notify_all()
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if changed.set_running_or_notify_cancel():
                changed.set_result(None)

    def _raise_failure(self) -> None:
        """Tell a failure once; the next call has the same rows tried again."""
        error, self._error = self._error, None
        if error is not None:
            self._notify()
            raise error
        if self._rests:
            self._rests = False
            self._notify()

    # The background thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            try:
                result = self._target.commit(batch.records, batch.number, batch.metadata)
            except Exception as error:  # noqa: BLE001  (another thread raises it)
                events.BUFFER_FAILED.log(
                    table=self._target.location, rows=batch.records.num_rows, number=batch.number, cause=error
                )
                with self._changed:
                    self._error, self._rests = error, True
                    self._notify()
            else:
                with self._changed:
                    self._committed = CommittedTransaction(batch.number, batch.metadata, result)
                    self._batch, self._done = None, batch.order
                    self._notify()

    def _next_batch(self) -> Batch | None:
        with self._changed:
            while not self._is_due():
                if self._is_closed:
                    return None
                self._changed.wait(self._buffer.seconds_left(self._limits) if self._is_idle() else None)
            if self._batch is None and self._form is not None:
                self._batch = self._sealed(self._form)
                self._notify()
            return self._batch

    def _is_idle(self) -> bool:
        return self._batch is None and not self._rests

    def _is_due(self) -> bool:
        buffer = self._buffer
        if self._is_closed or self._rests:
            return False
        if self._batch is not None:
            return True
        if buffer.since is None:
            return False
        return buffer.order <= self._asked or buffer.is_full(self._limits) or buffer.seconds_left(self._limits) == 0

    def _sealed(self, form: RowForm) -> Batch:
        """The buffer as a batch; another buffer takes its place."""
        buffer, last = self._buffer, self._committed
        records = buffer.table(form)
        self._buffer = Buffer(buffer.order + 1)
        metadata = {**(last.metadata if last else _NONE), **buffer.metadata}
        return Batch(buffer.order, last.number + 1 if last else 1, records, metadata)


def _is_quick(rows: Any) -> bool:
    """Whether rows are made ready so fast that an event loop need not wait."""
    if isinstance(rows, list):
        return len(rows) <= _AT_ONCE
    return isinstance(rows, dict | pa.RecordBatch | pa.Table)


def _row_and_strings(form: RowForm, row: Row, size: int, strings: Mapping[str, str]) -> Callable[[Buffer], None]:
    def add(buffer: Buffer) -> None:
        buffer.add_row(form, row, size)
        buffer.note(strings)

    return add


def _table_and_strings(form: RowForm, table: pa.Table, strings: Mapping[str, str]) -> Callable[[Buffer], None]:
    def add(buffer: Buffer) -> None:
        buffer.add_table(form, table)
        buffer.note(strings)

    return add
