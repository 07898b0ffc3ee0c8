"""Which errors pass by themselves, and what the others become."""

from __future__ import annotations

import pytest
from thriftpy2.protocol.exc import TProtocolException
from thriftpy2.thrift import TApplicationException
from thriftpy2.transport import TTransportException

from rli.errors import IndexNotFoundError, RliError, SettingsError, StoreUnavailableError
from rli_hbase import errors
from rli_hbase.thrift import AlreadyExists, HbaseError, IllegalArgument

STACK = b"\n\tat org.apache.hadoop.hbase.TableNotFoundException.<init>(TableNotFoundException.java:1)"
MOVED = HbaseError(message=b"org.apache.hadoop.hbase.NotServingRegionException: trips,,1 is not online" + STACK)
MISSING = HbaseError(message=b"org.apache.hadoop.hbase.TableNotFoundException: trips" + STACK)
FAMILY = HbaseError(message=b"org.apache.hadoop.hbase.regionserver.NoSuchColumnFamilyException: e")
GARBLED = TProtocolException(TProtocolException.BAD_VERSION, "no version")  # type: ignore[no-untyped-call]
DENIED = HbaseError(message=b"org.apache.hadoop.hbase.security.AccessDeniedException: not you")


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(),
        TimeoutError(),
        TTransportException(TTransportException.END_OF_FILE, "TSocket read 0 bytes"),
        TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error"),
        IllegalArgument(message=b"scanner ID is invalid"),
        MOVED,
    ],
)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    assert errors.is_transient(error)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MISSING, IndexNotFoundError),
        (FAMILY, SettingsError),
        (DENIED, StoreUnavailableError),
        (GARBLED, SettingsError),
        (TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name"), StoreUnavailableError),
        (IllegalArgument(message=b"Row length is 0"), StoreUnavailableError),
        (AlreadyExists(message=b"table name already in use"), StoreUnavailableError),
    ],
)
def test_lasting_error_names_store(error: Exception, kind: type[RliError]) -> None:
    assert not errors.is_transient(error)
    with pytest.raises(kind, match="store=hbase://h:1/") as raised, errors.translated_errors("hbase://h:1/?table=t"):
        raise error
    assert raised.value.__cause__ is error


def test_errors_of_others_pass() -> None:
    assert not errors.is_transient(KeyError("bug"))
    with pytest.raises(KeyError), errors.translated_errors("hbase://h:1/?table=t"):
        raise KeyError("bug")


def test_an_error_loses_its_java_stack() -> None:
    error = HbaseError(message=b"first line" + STACK)
    errors.shorten(error)
    assert error.message == b"first line"
