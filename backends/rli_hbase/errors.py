"""Errors of happybase, of Thrift and of the HBase behind it: which pass by themselves, and what they are in rli's words.

HBase's own errors arrive as ``IOError`` whose message, in bytes, is a Java stack trace: the class names in it are the
only thing to tell them by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException, TException

from rli.errors import IndexNotFoundError, RliError, SettingsError, StoreUnavailableError
from rli_hbase.thrift import AlreadyExists, HbaseError, IllegalArgument
from rli_hbase.url import HbaseSettings

ANSWERS: Final = (AlreadyExists, HbaseError, IllegalArgument)
"""Errors that are the server's whole answer."""

_INTERNAL_ERROR: Final = 6
_LONGEST_DETAIL: Final = 300

# Permanent errors: do not retry. The request is wrong, not the moment.
_LASTING: Final = (
    b"TableNotFoundException",
    b"NamespaceNotFoundException",
    b"NoSuchColumnFamilyException",
    b"AccessDeniedException",
    b"IllegalArgumentException",
    b"InvalidFamilyOperationException",
    b"hbase.table.sanity.checks",
)


class DropUnderWayError(Exception):
    """The index in this table is being dropped by another process."""


class NotThereYetError(Exception):
    """A table that was just made cannot be used yet."""


SOUND: Final = (*ANSWERS, DropUnderWayError, NotThereYetError, RliError)
"""Errors after which a connection goes on: no answer is under way on it."""


def is_transient(error: BaseException) -> bool:
    """Whether an error may go away by itself, so that the call is to be repeated."""
    if isinstance(error, HbaseError):
        return not any(name in _first_lines(error) for name in _LASTING)
    if isinstance(error, IllegalArgument):
        # A scanner that its server has forgotten: the page is read again.
        return b"scanner" in _message(error)
    if isinstance(error, TApplicationException):
        return error.type == _INTERNAL_ERROR
    if isinstance(error, (TProtocolException, AlreadyExists)):
        return False
    # What is left of Thrift's errors is its transport's: cut, refused, timed out, half an answer.
    return isinstance(error, (TException, OSError, EOFError, DropUnderWayError, NotThereYetError))


def is_table_missing(error: BaseException) -> bool:
    """Whether HBase says that the table does not exist."""
    return isinstance(error, HbaseError) and b"TableNotFoundException" in _first_lines(error)


def is_table_not_enabled(error: BaseException) -> bool:
    """Whether HBase says that the table is disabled."""
    return isinstance(error, HbaseError) and b"TableNotEnabledException" in _first_lines(error)


def is_family_missing(error: BaseException) -> bool:
    """Whether HBase says that the table has other column families."""
    return isinstance(error, HbaseError) and b"NoSuchColumnFamilyException" in _first_lines(error)


def is_refused_table(error: BaseException) -> bool:
    """Whether HBase refuses the properties of a table to be made, such as a compression that it lacks."""
    return isinstance(error, HbaseError) and b"hbase.table.sanity.checks" in _message(error)


def shorten(error: Any) -> None:
    """Take the Java stack off the message of an error that HBase answered."""
    error.message = _first_lines(error)[:_LONGEST_DETAIL]


@contextmanager
def translated_errors(location: str) -> Iterator[None]:
    """Raise whatever comes out of the client library about the table at ``location`` as rli's errors.

    Raises:
        IndexNotFoundError: the table is not there, or not any more.
        SettingsError: the table is one of something else, or the servers speak another protocol.
        StoreUnavailableError: anything else.
    """
    try:
        yield
    except (TException, OSError, EOFError) as error:
        raise _translated(error, location) from error


def never_answered(settings: HbaseSettings, cause: BaseException | None) -> StoreUnavailableError:
    """What to raise where servers take connections and not one call was ever answered."""
    return StoreUnavailableError(
        f"the Thrift server takes connections and never answers: store={settings.location} "
        f"transport={settings.transport} protocol={settings.protocol} last cause={cause!r}",
        remedy=(
            "check that transport= and protocol= in the URL match the server's start options (framed, compact), and "
            "that HBase itself is up"
        ),
    )


def _translated(error: Exception, location: str) -> Exception:
    if is_table_missing(error):
        return IndexNotFoundError(f"there is no table of this name: store={location}", remedy="create the index first")
    if is_family_missing(error):
        return SettingsError(
            f"the table has other column families than an index has: store={location}", remedy="name another table"
        )
    if isinstance(error, TProtocolException):
        return SettingsError(
            f"the server does not speak this protocol ({error!r}): store={location}",
            remedy="set transport= and protocol= as the Thrift server is started",
        )
    return StoreUnavailableError(
        f"the store refuses the request ({_detail(error)}): store={location}",
        remedy="look into the logs of HBase's servers",
    )


def _detail(error: Exception) -> str:
    if isinstance(error, ANSWERS):
        return _first_lines(error).decode(errors="replace")[:_LONGEST_DETAIL]
    return repr(error)[:_LONGEST_DETAIL]


def _message(error: Exception) -> bytes:
    message = getattr(error, "message", None) or b""
    return message.encode() if isinstance(message, str) else bytes(message)


def _first_lines(error: Exception) -> bytes:
    """The message without the Java stack, whose frames name classes as well."""
    return b" ".join(line for line in _message(error).splitlines() if not line.startswith(b"\tat "))
