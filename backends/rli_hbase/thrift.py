"""The classes of HBase's Thrift interface, which happybase makes from its description when it is imported."""

from __future__ import annotations

import happybase  # noqa: F401  (makes Hbase_thrift)
from Hbase_thrift import AlreadyExists, BatchMutation, ColumnDescriptor, IllegalArgument, Mutation, TScan
from Hbase_thrift import IOError as HbaseError

__all__ = [
    "AlreadyExists",
    "BatchMutation",
    "ColumnDescriptor",
    "HbaseError",
    "IllegalArgument",
    "Mutation",
    "TScan",
]
